#!/bin/bash
# Hosts that have a TLS key made by their proof (secure channel concatenation): both hashes; what is
# refused; a new key for a live controller; a killed target; hosts that do not ask for one.
# cpus: 1
# mount: build-tlstools
. /run/scenarios/lib.sh
. /run/scenarios/secrets-lib.sh
boot
secrets_boot
PLAIN=4420 REQUIRED=4421 ALLOWED=4422
listener $TARGET_IP:$PLAIN
listener $TARGET_IP:$REQUIRED
echo 'tls = "required"' >>"$CONFIG"
listener $TARGET_IP:$ALLOWED
echo 'tls = "allowed"' >>"$CONFIG"
subsystem $T1 $HOST_NQN
namespace memory 64 4096

TOOLS=/run/build-tlstools/sid/bin
nvme() { $TOOLS/nvme "$@"; }
start_tlshd $TOOLS

own=$(nvme gen-dhchap-key -n $HOST_NQN -m 1)
its=$(nvme gen-dhchap-key -n $T1 -m 2)
wrong=$(nvme gen-dhchap-key -n $HOST_NQN -m 1)

# try PORT [nvme arguments]: connects as the usual host.
try() {
    timeout 30 $TOOLS/nvme connect -t tcp -a $TARGET_IP -s "$1" -n $T1 -q $HOST_NQN -I $HOST_ID \
        -i 2 --reconnect-delay=1 "${@:2}"
}
# refused WHAT COMMAND...: the command fails soon, and leaves no controller.
refused() {
    quickly "$@"
    same "controllers" "$(target_controllers)" 0
}
of_controller() { cat /sys/class/nvme/"$(controller $T1)"/"$1"; }
# generated HASH: the present controller has a generated key of this hash.
generated() {
    same "tls_mode" "$(of_controller tls_mode)" concat
    grep -q "^$(of_controller tls_key).*NVMe1G$1 $HOST_NQN $T1" /proc/keys ||
        fail "key $(of_controller tls_key) is not there: $(grep NVMe /proc/keys)"
}
# over_generated HASH [nvme arguments]: connects to the listener that allows TLS, with a key that is made.
over_generated() {
    expect "connect" try $ALLOWED "--dhchap-secret=$own" --concat "${@:2}"
    eventually 5 controller_live $T1 || fail "the controller is not live"
    generated "$1"
    same "sockets over TLS" "$(awk '/TlsCurrTxSw/ { print $2 }' /proc/net/tls_stat)" $((1 + $(nproc)))
}

keys "secret $own" "controller-secret $its"
target_start

for hash in 256 384; do
    step "a key by SHA-$hash"
    keys "secret $own" "controller-secret $its" "hashes sha512 sha$hash"
    reload
    over_generated "$(case $hash in 256) echo 01 ;; *) echo 02 ;; esac)"
    write_verify "sha$hash" "$(disk $T1 1)" --rw=randwrite --bs=64k --size=8m --iodepth=8
    disconnect $T1
done

step "the host has a secret for the controller"
over_generated 02 "--dhchap-ctrl-secret=$its"
disconnect $T1

step "what is refused"
refused "a listener without TLS" try $PLAIN "--dhchap-secret=$own" --concat
refused "a plain connection where TLS is required" try $REQUIRED "--dhchap-secret=$own" --concat
refused "another secret" try $ALLOWED "--dhchap-secret=$wrong" --concat
keys "secret $own" "hashes sha512"
reload
refused "SHA-512 alone" try $ALLOWED "--dhchap-secret=$own" --concat
keys "secret $own" "groups null"
reload
sleep 1
refused "no group" try $ALLOWED "--dhchap-secret=$own" --concat
keys "secret $own"
reload
sleep 2

step "a host that does not ask for a key"
expect "connect" try $ALLOWED "--dhchap-secret=$own"
eventually 5 controller_live $T1 || fail "the controller is not live"
same "sockets over TLS" "$(awk '/TlsCurrTxSw/ { print $2 }' /proc/net/tls_stat)" 0
disconnect $T1

step "a new key for a live controller"
over_generated 01
load_begins --bs=4k
new=$(nvme gen-dhchap-key -n $HOST_NQN -m 1)
keys "secret $own" "secret $new"
reload
proves_again "$new"
keys "secret $new"
reload
went_on "a key was made"

step "a reset has a key made again"
expect "reset" nvme reset /dev/"$(controller $T1)"
eventually 10 controller_live $T1 || fail "not live after the reset: $(dmesg | tail -5)"
generated 01
expect "a read" dd if="$(disk $T1 1)" of=/dev/null bs=1M count=8 iflag=direct

step "a killed target has forgotten the key, and the host has another one made"
before=$(of_controller tls_key)
target_killed_under_load
generated 01
[ "$(of_controller tls_key)" != "$before" ] || fail "the host has its old key"
write_verify again "$(disk $T1 1)" --rw=randwrite --bs=4k --size=2m --iodepth=8
disconnect $T1

step "nothing of it is in the log"
for text in "${own:10:20}" "${new:10:20}"; do
    if grep -q "$text" /run/sluiced-*.log; then fail "the log has a secret"; fi
done
pass
