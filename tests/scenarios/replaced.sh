#!/bin/bash
# A disk has the NSID of one that was removed. A host that uses the disk goes on when the target is killed under
# its I/O; commands for the removed disk neither reach the new one nor hold up the host's reconnect, which waits
# for them where disks have no multipath. A host that knows the removed disk finds the new one by itself.
# time: virtual
# cpus: 1
# kernel: nvme_core.multipath=N
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
store /tmp/store
for name in first second third; do
    head -c 48M /dev/urandom >/tmp/store/$name
done
namespace file /tmp/store/first 4096
target_start

# replace FILE: removes the disk, and adds another file under its NSID.
replace() {
    remove_namespace $T1 1
    expect "namespace add" sluice namespace add $T1 --nsid 1 --backend file --path "$1" --block-size 4096
}

# identity: prints the UUID of the disk that the host has under the NSID. is_replaced UUID: says whether it is another.
identity() { cat "/sys/block/$(namespace_of $T1 1)/uuid"; }
is_replaced() {
    local now
    now=$(identity) && [ "$now" ] && [ "$now" != "$1" ]
}

# uses_new_disk NAME UUID: waits until the host has another disk than that, and uses it.
uses_new_disk() {
    eventually 15 is_replaced "$2" || fail "the host does not find the new disk: $(nvme list 2>&1)"
    write_verify "$1" "$(disk $T1 1)" --rw=randwrite --bs=16k --size=4m --iodepth=8
}
reconnected() { eventually 30 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"; }

step "the target is killed twice under I/O to a disk in the place of another"
replace /tmp/store/second
connect $T1 -k 5
d=$(disk $T1 1)
job=(--filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=24m --iodepth=16 --verify=crc32c)
fio_run replaced "${job[@]}" --verify_fatal=1 --do_verify=1 --rate=3m &
fio=$!
for _ in 1 2; do
    sleep 2
    kill -0 $fio || fail "fio ended before the kill"
    target_kill
    eventually 10 controller_not_live $T1 || fail "the host did not notice"
    target_start
    reconnected
done
wait $fio || fail "fio"
same "the disk" "$(disk $T1 1)" "$d"

step "a write for the removed disk fails, and the host reconnects"
network_down
eventually 15 controller_not_live $T1 || fail "the host did not notice"
before=$(sha256sum </tmp/store/third) removed=$(identity)
replace /tmp/store/third
(
    trap - ERR EXIT
    dd if=/dev/zero of="$d" bs=64k count=1 oflag=direct status=none
) &
waiting=$!
sleep 1
network_up
reconnected
if wait $waiting; then fail "the write for the removed disk succeeded"; fi
same "the new disk's file" "$(sha256sum </tmp/store/third)" "$before"

step "the host finds the new disk by itself"
uses_new_disk third "$removed"

step "another disk is put in its place while the host is connected"
removed=$(identity)
replace /tmp/store/second
uses_new_disk second "$removed"
disconnect $T1
pass
