#!/bin/bash
# The layer over RDMA verbs on a real device; and hosts that break the rules of NVMe/RDMA beside one that
# keeps them: their connections end, and nothing else.
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 128 4096
target_start

step "sends, writes, reads, atomics, wrong keys, no receive buffers"
expect "verbs" /run/bin/examples/verbs $HOST_IP:5000

step "wrong keys beside verified I/O"
connect $T1
d=$(disk $T1 1)
fio_run beside --filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=48m --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --rate=6m &
fio=$!
sleep 1
for _ in 1 2 3; do expect "wrong_key" /run/bin/examples/wrong_key $TARGET_IP:4420 $T1; done
wait $fio || fail "fio"
same "state" "$(controller_state $T1)" live
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
one_controller() { [ "$(target_controllers)" = 1 ]; }
eventually 15 one_controller || fail "controllers of hosts that are gone: $(target_controllers)"
disconnect $T1
pass
