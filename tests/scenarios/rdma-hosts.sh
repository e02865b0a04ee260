#!/bin/bash
# The layer over RDMA verbs on a real device; and hosts that break the rules of NVMe/RDMA, one by one and a
# hundred at once, beside one that keeps them: their connections end, and nothing else.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
# A second wire, which is cut with hosts on it.
ROGUE_IP=10.0.1.1
ip link add rogue0 type veth peer name rogue1 netns target
ip addr add 10.0.1.2/24 dev rogue0
ip link set rogue0 mtu 4200 up
ip -n target addr add $ROGUE_IP/24 dev rogue1
ip -n target link set rogue1 mtu 4200 up
rdma_device rogue rogue0
in_target rdma link add rdma_rogue1 type rxe netdev rogue1
listener $ROGUE_IP:4420
subsystem $T1 any
namespace memory 128 4096
target_start

step "sends, writes, reads, atomics, wrong keys, no receive buffers"
expect "verbs" /run/bin/examples/verbs $HOST_IP:5000

step "wrong keys beside verified I/O"
connect $T1
d=$(disk $T1 1)
fio_run beside --filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=16m --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --rate=2m &
fio=$!
sleep 1
for _ in 1 2 3; do expect "wrong_key" /run/bin/examples/wrong_key $TARGET_IP:4420 $T1; done
wait $fio || fail "fio"
same "state" "$(controller_state $T1)" live
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
one_controller() { [ "$(target_controllers)" = 1 ]; }
eventually 15 one_controller || fail "controllers of hosts that are gone: $(target_controllers)"

step "crowds beside verified I/O"
connections() { sluice connections --json | { grep -o '"peer"' || true; } | wc -l; }
# has CONNECTIONS: says whether the daemon has as many.
has() { [ "$(connections)" = "$1" ]; }
own=$(connections)
errors=$(metric sluicegate_protocol_errors_total)
fio_run crowds --filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=32m --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --rate=2m &
fio=$!
# crowd ADDRESS COUNT MODE: starts one; its output is /tmp/crowd-MODE, its process $!.
crowd() { /run/bin/examples/crowd "$1:4420" "$2" "$3" >"/tmp/crowd-$3" 2>&1 & }
stand() { grep -q "^$2 connections stand, 0 refused" "/tmp/crowd-$1"; }
MANY=100
crowd $ROGUE_IP $MANY vanish
vanishing=$!
crowd $TARGET_IP $MANY silent
silent=$!
eventually 20 stand vanish $MANY || fail "the hosts that vanish: $(cat /tmp/crowd-vanish)"
eventually 20 stand silent $MANY || fail "the silent hosts: $(cat /tmp/crowd-silent)"
echo "at $SECONDS s: $(connections) connections"
tc qdisc add dev rogue0 root netem loss 100%
kill -9 $vanishing
for mode in short wrong; do
    crowd $TARGET_IP $MANY $mode
    wait $! || fail "the crowd $mode: $(cat /tmp/crowd-$mode)"
    contains "the crowd $mode" "$(cat /tmp/crowd-$mode)" "^$MANY connections stand"
    contains "the crowd $mode" "$(cat /tmp/crowd-$mode)" "all $MANY are over, $MANY ended"
done
echo "at $SECONDS s: $(connections) connections"
wait $silent || fail "the silent hosts: $(cat /tmp/crowd-silent)"
contains "the silent hosts" "$(cat /tmp/crowd-silent)" "all $MANY are over, $MANY ended"
eventually 30 has "$own" || fail "$(connections) connections are left, $own were there before"
echo "at $SECONDS s: $own connections"
kill -0 $fio || fail "fio ended before the crowds"
wait $fio || fail "fio"
same "state" "$(controller_state $T1)" live
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
same "protocol errors, of the short capsules alone" "$(metric sluicegate_protocol_errors_total)" $((errors + MANY))
disconnect $T1
pass
