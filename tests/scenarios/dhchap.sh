#!/bin/bash
# dhchap.sh few|all: hosts that prove themselves by DH-HMAC-CHAP: each hash and group, or all pairs of them,
# one way and both ways; secrets that are wrong, missing, exchanged; a proof on a live controller, and one
# after the target was killed.
# cpus: 1
. /run/scenarios/lib.sh
. /run/scenarios/secrets-lib.sh
boot
secrets_boot
listener $TARGET_IP:4420
subsystem $T1 $HOST_NQN $OTHER_NQN
namespace memory 64 4096

own=$(nvme gen-dhchap-key -n $HOST_NQN -m 1)
its=$(nvme gen-dhchap-key -n $T1 -m 2)
wrong=$(nvme gen-dhchap-key -n $HOST_NQN -m 1)

# try [nvme arguments]: connects as the usual host, which is to fail.
try() { nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n $T1 -q $HOST_NQN -I $HOST_ID "$@"; }

keys "secret $own" "controller-secret $its"
target_start

step "no secret, and another one"
start=$SECONDS
refuse "a host without its secret" try
refuse "a host with another secret" try "--dhchap-secret=$wrong"
refuse "a controller with another secret" try "--dhchap-secret=$own" "--dhchap-ctrl-secret=$wrong"
[ $((SECONDS - start)) -lt 30 ] || fail "refusals took $((SECONDS - start)) s"
same "controllers" "$(target_controllers)" 0
if grep -q "${own:10:20}" /run/sluiced-1.log; then fail "the log has the secret"; fi

step "a host that has no secret needs none"
expect "connect" nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n $T1 -q $OTHER_NQN -I $OTHER_ID
disconnect $T1

step "a subsystem that requires authentication refuses it"
sed -i "s|^nqn = \"$T1\"|&\nrequire_authentication = true|" $CONFIG
reload
quickly "a host without a secret" nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n $T1 -q $OTHER_NQN -I $OTHER_ID
contains "the log" "$(cat /run/sluiced-1.log)" "authentication is required.*sluice host key set $OTHER_NQN"
contains "the hosts" "$(sluice --wide host list)" "$HOST_NQN .*secret"

step "discovery requires authentication where its listener does"
expect "listener add" sluice listener add $TARGET_IP:4421 --transport $TRANSPORT --discovery-only --require-authentication
quickly "discovery without a secret" nvme discover -t $TRANSPORT -a $TARGET_IP -s 4421 -q $OTHER_NQN -I $OTHER_ID
DISCOVERY=nqn.2014-08.org.nvmexpress.discovery
# Older versions of nvme-cli pass no secret to discovery controllers.
echo "transport=$TRANSPORT,traddr=$TARGET_IP,trsvcid=4421,nqn=$DISCOVERY,hostnqn=$HOST_NQN,hostid=$HOST_ID,dhchap_secret=$own" \
    >/dev/nvme-fabrics
eventually 5 controller_live $DISCOVERY || fail "no discovery controller: $(dmesg | tail -5)"
contains "connections" "$(sluice --json connections)" '"authenticated": *true'
expect "disconnect-all" nvme disconnect-all
eventually 10 no_controller $DISCOVERY || fail "the discovery controller stays"

step "a secret that would have no effect is not stored"
stranger=nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-000000000003
refuse "a host that nobody allows" sluice host key set --folder $KEYS $stranger - <<<"$own"
refuse "another folder" sluice host key set --folder /tmp/keys $HOST_NQN - <<<"$own"
contains "what would be right" "$(sluice host key set --folder /tmp/keys $HOST_NQN - <<<"$own" 2>&1 || true)" "folder $KEYS"
same "the files" "$(ls $KEYS)" host.key
contains "host key list" "$(sluice host key list)" "$HOST_NQN +yes +yes"

# proves HASH GROUP: one way, and both ways.
proves() {
    step "$1 $2"
    keys "secret $own" "controller-secret $its" "hashes $1" "groups $2"
    reload
    dmesg -C
    connect $T1 -i 2 "--dhchap-secret=$own"
    says "authenticated with hash hmac.$1. dhgroup $2" || fail "$(dmesg | tail -5)"
    expect "a read" dd if="$(disk $T1 1)" of=/dev/null bs=1M count=1 iflag=direct
    disconnect $T1
    connect $T1 -i 2 "--dhchap-secret=$own" "--dhchap-ctrl-secret=$its"
    says "controller authenticated" || fail "$(dmesg | tail -5)"
    disconnect $T1
}
hashes=(sha256 sha384 sha512) n=0
for group in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do
    tried=("${hashes[n++ % 3]}")
    [ "$1" = few ] || tried=("${hashes[@]}")
    for hash in "${tried[@]}"; do proves "$hash" "$group"; done
done

step "other transformations, and a secret of sluice"
for hash in none sha256 sha384 sha512; do
    made=$(sluice host key generate --hash $hash)
    expect "host key set" sluice host key set --folder $KEYS $HOST_NQN - <<<"$made"
    reload
    connect $T1 -i 1 "--dhchap-secret=$made"
    disconnect $T1
done
same "the mode" "$(stat -c %a $KEYS/*.key)" 600
chmod 640 $KEYS/*.key
refuse "a file that others may read" sluice reload
chmod 600 $KEYS/*.key

step "a secret is exchanged under a host that reads and writes"
keys "secret $own"
reload
connect $T1 -i 2 "--dhchap-secret=$own"
load_begins --bs=4k
new=$(nvme gen-dhchap-key -n $HOST_NQN -m 3)
expect "host key set" sluice host key set --folder $KEYS $HOST_NQN --beside - <<<"$new"
reload
proves_again "$new"
keys "secret $new"
reload
went_on "the secret was exchanged"

step "a killed target has the host prove itself again"
target_kill
target_start
eventually 30 controller_live $T1 || fail "not live again: $(dmesg | tail -5)"
write_verify again "$(disk $T1 1)" --rw=randwrite --bs=4k --size=2m --iodepth=8
disconnect $T1

step "sluice bench proves itself"
keys "secret $own" "controller-secret $its"
reload
echo "$own" >/tmp/own
echo "$its" >/tmp/its
bench() { sluice bench -a $TARGET_IP:4420 -n $T1 --hostnqn $HOST_NQN --time 1s --warmup 0s "$@"; }
expect "bench, both ways" bench --dhchap-secret /tmp/own --dhchap-ctrl-secret /tmp/its
refuse "bench without a secret" bench
pass
