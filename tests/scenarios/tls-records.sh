#!/bin/bash
# Peers with a key that send records of TLS which are not data, or are no records: each is closed with a
# line that says why, and others lose nothing. A peer that changes its key goes on.
# cpus: 1
. /run/scenarios/lib.sh
. /run/scenarios/secrets-lib.sh
boot
secrets_boot
listener $TARGET_IP:4420
listener $TARGET_IP:4421
echo 'tls = "required"' >>$CONFIG
subsystem $T1 $HOST_NQN $OTHER_NQN
namespace memory 64 4096
aes_128=$(sluice host key generate --tls) aes_256=$(sluice host key generate --tls --hash sha384)
(umask 077 && printf '%s\n' "host $OTHER_NQN" "tls-key $aes_128" "tls-key $aes_256" >$KEYS/other.key)
target_start

logged() { grep -q "$1" /run/sluiced-$STARTS.log; }
# sends CASE OUTCOME [LINE]: a peer with $key sends it, and the log has a line about it.
key=$aes_128
sends() {
    local outcome
    step "$1"
    outcome=$(python3 /run/scenarios/tls-records.py $TARGET_IP 4421 $OTHER_NQN $T1 "$key" "$1" 2>&1) || true
    same "what became of it" "$outcome" "$2"
    [ -z "${3:-}" ] || eventually 5 logged "a connection over TLS is ended.*$3" || fail "no line about it"
    sleep 1 # an address has one line of the log a second
}

eventually 5 logged "the TLS key of host $OTHER_NQN proves nothing in subsystem $T1" || fail "no warning"
connect $T1 -i 1
fio --eta=never --name=other --filename="$(disk $T1 1)" --rw=randrw --bs=16k --iodepth=4 --rate=2m --ioengine=libaio \
    --direct=1 --offset=1m --verify=crc32c --time_based --runtime=34 --output=/tmp/other.out &
fio=$!
sends data answered
sends empty answered
sends key-update answered
sends changing-keys verified
key=$aes_256 sends changing-keys verified
sends wrong-key-update closed "of type 22"
sends wrong-key closed "changed on its way"
sends endless closed "changes its key without end"
sends ticket closed "of type 22"
sends alert closed "alert 80"
sends close closed
sends short-alert closed "of type 21"
sends unknown closed "of type 99"
sends no-type closed "changed on its way"
sends bad-tag closed "changed on its way"
sends too-long closed "impossible length"
sends no-tls closed "is no record\|impossible length"
sends data answered
step "others"
wait $fio || fail "fio: $(cat /tmp/other.out)"
same "lines about connections over TLS" "$(grep -c 'a connection over TLS is ended' /run/sluiced-1.log)" 11
disconnect $T1
pass
