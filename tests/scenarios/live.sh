#!/bin/bash
# Namespaces come, grow and go while a host is connected: it sees it by itself.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 64 4096
target_start
connect $T1
c=/dev/$(controller $T1) d=$(disk $T1 1)
MIB=$((1 << 20))

step "a namespace is added"
add_namespace $T1 2 32
eventually 5 namespace_of $T1 2 || fail "the host does not see namespace 2 by itself"
d2=$(disk $T1 2)
eventually 5 size_is "$d2" $((32 * MIB)) || fail "size $(blockdev --getsize64 "$d2")"
write_verify added "$d2" --rw=randwrite --bs=4k --size=2m --iodepth=8

step "a namespace grows"
resize_namespace $T1 2 96
eventually 5 size_is "$d2" $((96 * MIB)) || fail "the host does not see the new size by itself"
write_verify grown "$d2" --rw=write --bs=64k --offset=64m --size=32m --iodepth=4
fio_run kept --filename="$d2" --rw=randwrite --bs=4k --size=2m --iodepth=8 --verify=crc32c --verify_only=1

step "a namespace is removed"
remove_namespace $T1 2
eventually 5 no_namespace $T1 2 || fail "the host still has namespace 2"
expect "the other namespace" dd if="$d" of=/dev/null bs=1M count=8 iflag=direct

step "ns-rescan finds changes made in a row"
for nsid in 3 4 5; do add_namespace $T1 $nsid 16; done
remove_namespace $T1 4
expect "ns-rescan" nvme ns-rescan "$c"
eventually 5 namespace_of $T1 3 || fail "namespace 3 is missing"
eventually 5 namespace_of $T1 5 || fail "namespace 5 is missing"
eventually 5 no_namespace $T1 4 || fail "namespace 4 is there"
lacks "active namespaces" "$(nvme list-ns "$c")" ':(0x)?4$'

step "a namespace is removed under I/O"
d3=$(disk $T1 3)
# Memory takes no time: without a limit no command would be at the target when its namespace goes.
rate=--rate_iops=500
if target_can cli; then
    expect "a limit" sluice qos session set "$T1/3" --iops 500
    rate=--rate_iops=5000
fi
fio "${FIO[@]}" --name=gone --filename="$d3" $rate --rw=randread --bs=4k --iodepth=16 --runtime=20 --time_based \
    --output=/tmp/gone.out >/dev/null 2>&1 &
fio=$!
sleep 1
remove_namespace $T1 3
wait $fio && fail "fio did not notice that its namespace went"
eventually 5 no_namespace $T1 3 || fail "the host still has namespace 3"
expect "the other namespace" dd if="$d" of=/dev/null bs=1M count=8 iflag=direct
same "state" "$(controller_state $T1)" live

if target_can cli; then
    step "changes outlive a kill and a restart"
    target_kill
    target_start
    eventually 30 controller_live $T1 || fail "the host does not come back"
    # 1 is the file's, 5 was added and kept; 2, 3 and 4 were added and removed.
    same "namespaces" "$(nvme list-ns "/dev/$(controller $T1)" | grep -oE '0x[0-9a-f]+$|[0-9]+$' |
        sed 's/^0x//' | tr '\n' ' ')" "1 5 "
fi
disconnect $T1
pass
