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
# sends KEY, with lines "CASE OUTCOME [LINE]" as its input: a peer with the key sends these cases, and the log has
# those lines about them.
sends() {
    local case outcome line cases=() expected=() lines=() seen
    while read -r case outcome line; do
        cases+=("$case") expected+=("$case $outcome")
        [ -z "$line" ] || lines+=("$line")
    done
    step "${cases[*]}"
    seen=$(python3 /run/scenarios/tls-records.py $TARGET_IP 4421 $OTHER_NQN $T1 "$1" "${cases[@]}" 2>&1) || true
    same "what became of them" "$seen" "$(printf '%s\n' "${expected[@]}")"
    for line in "${lines[@]}"; do
        eventually 5 logged "a connection over TLS is ended.*$line" || fail "no line '$line'"
    done
}

eventually 5 logged "the TLS key of host $OTHER_NQN proves nothing in subsystem $T1" || fail "no warning"
connect $T1 -i 1
fio "${FIO[@]}" --name=other --filename="$(disk $T1 1)" --rw=randrw --bs=16k --iodepth=4 --rate=2m \
    --offset=1m --verify=crc32c --time_based --runtime=24 --output=/tmp/other.out &
fio=$!
sends "$aes_256" <<<"changing-keys verified"
sends "$aes_128" <<'END'
data answered
empty answered
key-update answered
changing-keys verified
wrong-key-update closed of type 22
wrong-key closed changed on its way
endless closed changes its key without end
ticket closed of type 22
alert closed alert 80
close closed
short-alert closed of type 21
unknown closed of type 99
no-type closed changed on its way
bad-tag closed changed on its way
too-long closed impossible length
no-tls closed is no record\|impossible length
data answered
END
step "others"
wait $fio || fail "fio: $(cat /tmp/other.out)"
same "lines about connections over TLS" "$(grep -c 'a connection over TLS is ended' /run/sluiced-1.log)" 11
disconnect $T1
pass
