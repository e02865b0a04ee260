#!/bin/bash
# tls.sh few|all: hosts that connect over TLS with a key: both ciphers, both ways of derivation, the keys of
# Debian 13's tools and of the newest; keys that are wrong or missing; plain connections; both with
# DH-HMAC-CHAP; a killed target; and classes over TLS.
# cpus: 1
# kernel: nvme_core.multipath=N
# mount: build-tlstools
. /run/scenarios/qos-lib.sh
. /run/scenarios/secrets-lib.sh
qos_boot
secrets_boot
PLAIN=4420 REQUIRED=4421 ALLOWED=4422
listener $TARGET_IP:$PLAIN
listener $TARGET_IP:$REQUIRED
echo 'tls = "required"' | configure
listener $TARGET_IP:$ALLOWED
echo 'tls = "allowed"' | configure
port=4430
for class in high medium low; do
    listener $TARGET_IP:$port
    printf 'class = "%s"\ntls = "required"\n' $class | configure
    port=$((port + 1))
done
subsystem $T1 $HOST_NQN $OTHER_NQN
namespace memory 64 4096
subsystem $T2 $HOST_NQN
# So slow that a busy machine, which computes AES itself, is faster.
slow_disk "32 ms" 8
configure <<END
[qos]
weights = [3, 2, 1]
window = 16
END

# tools SUITE: takes nvme, tlshd and keyctl of a Debian suite from here on.
tools() {
    [ -z "${TLSHD:-}" ] || { kill $TLSHD; wait $TLSHD 2>/dev/null || true; }
    TOOLS=/run/build-tlstools/$1/bin
    start_tlshd $TOOLS
}
nvme() { $TOOLS/nvme "$@"; }

# in_keyring: prints the serials of the keys that the host has.
in_keyring() { awk '$8 == "psk" { print $1 }' /proc/keys; }
forget_keys() {
    local key
    for key in $(in_keyring); do $TOOLS/keyctl unlink "0x$key" %:.nvme; done
}
# host_key KEY VERSION [nvme arguments]: gives the host this key alone, for T1.
host_key() {
    forget_keys
    also_host_key $T1 "$@"
}
# also_host_key SUBSYSTEM KEY VERSION [nvme arguments]
also_host_key() {
    expect "the key of the host" nvme check-tls-key --subsysnqn="$1" --hostnqn=$HOST_NQN --identity="$3" \
        --insert --keydata="$2" "${@:4}"
}
# try PORT [nvme arguments]: connects as the usual host, which is to fail.
try() { timeout 30 $TOOLS/nvme connect -t tcp -a $TARGET_IP -s "$1" -n $T1 -q $HOST_NQN -I $HOST_ID "${@:2}"; }
# over_tls PORT [nvme arguments]: connects over TLS, reads, and disconnects.
over_tls() {
    local mode
    expect "connect over TLS" try "$1" --reconnect-delay=1 -i 2 --tls "${@:2}"
    eventually 5 controller_live $T1 || fail "the controller is not live"
    mode=$(cat /sys/class/nvme/"$(controller $T1)"/tls_mode)
    same "tls_mode" "$mode" tls
    contains "connections" "$(sluice --json connections)" '"tls": *"TLS_AES_'
    expect "a read" dd if="$(disk $T1 1)" of=/dev/null bs=1M count=2 iflag=direct
}
logged() { grep -q "$1" /run/sluiced-$STARTS.log; }

tools sid
own=$(sluice host key generate --tls)
long=$(sluice host key generate --tls --hash sha384)
plain=$(sluice host key generate --tls --hash none)
other=$(nvme gen-tls-key --hmac=1)
keys "tls-key $own"
target_start

step "no key, another key, and none at the target"
quickly "a host without a key" try $REQUIRED --tls
host_key "$other" 1
quickly "a host with another key" try $REQUIRED --tls
eventually 5 logged "names a key that is not known here" || fail "no line about the unknown key"
host_key "$plain" 1
keys "tls-key $(sluice host key generate --tls --hash none)"
reload
quickly "a host with another key" try $REQUIRED --tls
keys "tls-key $own"
reload
if grep -q "${own:20:20}" /run/sluiced-1.log; then fail "the log has the key"; fi
same "controllers" "$(target_controllers)" 0

step "plain connections"
quickly "a plain connection where TLS is required" try $REQUIRED
eventually 5 logged "does not use TLS" || fail "no line about the plain connection"
quickly "a plain connection of a host that has a key" try $ALLOWED
connect $T1 -i 1
disconnect $T1
expect "a host without a key, where TLS is allowed" nvme connect -t tcp -a $TARGET_IP -s $ALLOWED -n $T1 \
    -q $OTHER_NQN -I $OTHER_ID -i 1
disconnect $T1

step "discovery"
log=$(nvme discover -t tcp -a $TARGET_IP -s $ALLOWED -q $HOST_NQN -I $HOST_ID -o json)
contains "discovery for a host with a key" "$log" 'tls'
also_host_key nqn.2014-08.org.nvmexpress.discovery "$own" 1
log=$(nvme discover -t tcp -a $TARGET_IP -s $REQUIRED -q $HOST_NQN -I $HOST_ID --tls)
contains "discovery over TLS" "$log" $T1

sockets=0
for version in 1 0; do
    step "both ciphers with and without a hash, identities of version $version"
    tried=("$own" "$long" "$plain")
    if [ "$1" = few ] && [ $version = 0 ]; then tried=("$plain"); fi
    for key in "${tried[@]}"; do
        keys "tls-key $other" "tls-key $key"
        reload
        host_key "$key" $version
        over_tls $REQUIRED
        disconnect $T1
        host_key "$key" $version --compat
        over_tls $ALLOWED
        disconnect $T1
        # Two connections of an admin and an I/O queue each.
        sockets=$((sockets + 4))
    done
done
[ "$(awk '/TlsTxSw/ { print $2 }' /proc/net/tls_stat)" -ge $sockets ] || fail "$(cat /proc/net/tls_stat)"

step "the tools of Debian 13"
tools trixie
keys "tls-key $plain" "tls-key $own"
reload
for key in "$own" "$plain"; do
    host_key "$key" 1
    over_tls $REQUIRED
    disconnect $T1
done
keys "tls-key $own"
made=$(nvme gen-tls-key --hmac=1)
expect "host key set" sluice host key set --folder $KEYS $HOST_NQN --tls-key - --beside <<<"$made"
reload
host_key "$made" 1
over_tls $REQUIRED
tools sid

step "a key is exchanged, and the host stays connected"
keys "tls-key $own"
reload
expect "a read with the old key" dd if="$(disk $T1 1)" of=/dev/null bs=64k count=8 iflag=direct
quickly "the old key" try $REQUIRED --tls --duplicate-connect
disconnect $T1

step "a killed target has the host shake hands again"
host_key "$own" 1
over_tls $REQUIRED
target_killed_under_load
write_verify large "$(disk $T1 1)" --rw=randwrite --bs=1m --size=8m --iodepth=4
write_verify small "$(disk $T1 1)" --rw=randwrite --bs=4k --size=2m --iodepth=32
disconnect $T1

step "DH-HMAC-CHAP over TLS"
secret=$(sluice host key generate)
keys "tls-key $own" "secret $secret"
reload
quickly "a key without the secret" try $REQUIRED --tls
quickly "a key with another secret" try $REQUIRED --tls "--dhchap-secret=$(sluice host key generate)"
dmesg -C
over_tls $REQUIRED "--dhchap-secret=$secret"
dmesg | grep -q "authenticated with hash" || fail "not authenticated: $(dmesg | tail -5)"
contains "connections" "$(sluice --json connections)" '"authenticated": *true'
disconnect $T1
keys "tls-key $own"
reload

step "classes over TLS"
also_host_key $T2 "$own" 1
hosts=()
for port in 4430 4431 4432; do
    before=$(cd /sys/class/nvme && echo *)
    expect "connect to port $port" nvme connect -t tcp -a $TARGET_IP -s $port -n $T2 -q $HOST_NQN -I $HOST_ID \
        -i 1 --reconnect-delay=1 --tls
    hosts+=("$(new_since "$before")")
done
DEPTH=48
load() {
    local before after n
    fio_hosts classes 6 "high /dev/${1}n1 $DEPTH" "medium /dev/${2}n1 $DEPTH" "low /dev/${3}n1 $DEPTH" &
    sleep 1.5
    before=$(classes_done)
    sleep 4
    after=$(classes_done)
    wait $! || fail "fio"
    read -ra n <<<"$(since "$before" "$after")"
    # Encryption takes real time, and a busy machine takes it from one host or the other: qos-classes.sh asserts
    # how exactly classes share.
    shares 1000 "high 3 ${n[1]}" "medium 2 ${n[2]}" "low 1 ${n[3]}"
    ((n[1] > n[2] && n[2] > n[3] && n[3] > 0)) || fail "operations of high, medium and low: ${n[*]:1}"
}
load "${hosts[@]}"
detach "${hosts[@]}"
over_tls $REQUIRED
commands_have_classes "$(controller $T1)"
pass
