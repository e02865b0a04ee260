#!/bin/bash
# A device that is missing when the target starts, appears, has errors, goes away and comes back,
# and files whose file system is full or fails, while a host uses another namespace all the time.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
LATE=/sys/kernel/config/nullb/late

# state_of NSID: prints the state of a namespace.
state_of() {
    sluice namespace list --json | tr -d ' \n' | tr '{' '\n' | grep -E "\"nsid\":$1[^0-9]" |
        sed -E 's/.*"state":"([a-z]+)".*/\1/'
}
is_in_state() { [ "$(state_of "$1")" = "$2" ]; }
reads() { dd if="$1" of=/dev/null bs=4096 count=1 skip="${2:-0}" iflag=direct; }

# Hosts ask again soon.
printf 'retry_delays = ["100 ms", "1 s", "2 s"]\n' >>$CONFIG
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 128 4096
namespace block /dev/late 4096
mkdir /tmp/full
mount -t tmpfs -o size=16m tmpfs /tmp/full
truncate -s 64M /tmp/full/disk.img
namespace file /tmp/full/disk.img 4096
namespace block /dev/loop0 4096 # which is there, without a file yet
namespace block /dev/cached 4096
printf 'nsid = 6\ndirect = false\n' >>$CONFIG
target_start

step "the device is missing"
is_in_state 1 ready || fail "namespace 1: $(state_of 1)"
is_in_state 2 unavailable || fail "namespace 2: $(state_of 2)"
contains "reason" "$(sluice namespace list --json)" /dev/late
same "namespace_up" "$(metric "sluicegate_namespace_up.*nsid=\"2\"")" 0
connect $T1
d=$(disk $T1 1)
fio "${FIO[@]}" --name=other --filename="$d" --rw=randrw --bs=4k --iodepth=8 \
    --runtime=600 --time_based --rate=1m --output=/tmp/other.out >/dev/null 2>&1 &
fio=$!
no_namespace $T1 2 || size_is "/dev/$(namespace_of $T1 2)" 0 || fail "the host has a disk that is not there"

step "the device appears"
expect "the device" ram_disk late 64 4096
eventually 10 is_in_state 2 ready || fail "namespace 2: $(state_of 2)"
same "namespace_up" "$(metric "sluicegate_namespace_up.*nsid=\"2\"")" 1
eventually 10 namespace_of $T1 2 || fail "the host does not see namespace 2 by itself"
d2=$(disk $T1 2)
eventually 5 size_is "$d2" $((64 << 20)) || fail "size $(blockdev --getsize64 "$d2")"
write_verify late "$d2" --rw=randwrite --bs=4k --size=2m --iodepth=8

step "the device has errors"
echo "+800-807" >$LATE/badblocks
refuse "a read of a bad block" reads "$d2" 100
eventually 10 is_in_state 2 errors || fail "namespace 2: $(state_of 2)"
contains "reason" "$(sluice namespace list --json)" 'EIO \(5\) on read at LBA 100'
errors=$(metric "sluicegate_namespace_device_errors_total.*nsid=\"2\"")
[ "${errors:-0}" -ge 1 ] || fail "errors counted: ${errors:-none}"
contains "the log" "$(cat /run/sluiced-$STARTS.log)" \
    'ERROR .*answered commands with errors .*path=/dev/late count=[1-9].*EIO \(5\) on read at LBA 100'
expect "a read of a good block" reads "$d2" 99
echo "-800-807" >$LATE/badblocks

step "the device goes away under a load"
fio "${FIO[@]}" --name=load --filename="$d2" --rw=randrw --bs=4k --iodepth=8 \
    --runtime=6 --time_based --output=/tmp/load.out >/dev/null 2>&1 &
load=$!
sleep 1
echo 0 >$LATE/power
eventually 10 is_in_state 2 unavailable || fail "namespace 2: $(state_of 2)"
namespace_of $T1 2 >/dev/null || fail "the host has lost namespace 2"
same "namespace_up" "$(metric "sluicegate_namespace_up.*nsid=\"2\"")" 0

step "a command that comes meanwhile is carried out when the device is back"
reads "$d2" 5 >/tmp/waiting 2>&1 &
waiting=$!
sleep 0.3
echo 1 >$LATE/power
# Its errors are remembered for five minutes.
eventually 10 is_in_state 2 errors || fail "namespace 2: $(state_of 2)"
wait $waiting || fail "the read: $(cat /tmp/waiting)"
wait $load || fail "the load: $(cat /tmp/load.out)"
write_verify back "$d2" --rw=randwrite --bs=4k --size=2m --iodepth=8

step "a file system is full"
d3=$(disk $T1 3)
write_verify kept "$d3" --rw=write --bs=64k --size=4m
refuse "writes beyond what there is room for" dd if=/dev/zero of="$d3" bs=1M seek=4 oflag=direct
eventually 10 is_in_state 3 errors || fail "namespace 3: $(state_of 3)"
contains "reason" "$(sluice namespace list --json)" 'ENOSPC \(28\) on write'
same "namespace_up" "$(metric "sluicegate_namespace_up.*nsid=\"3\"")" 1
fio_run kept --filename="$d3" --rw=write --bs=64k --size=4m --verify=crc32c --verify_only=1

step "a device of which only a message tells that it is ready"
# Nothing changes at its path; without a message it is tried after 28 seconds, and 20 later.
while [ $SECONDS -lt 32 ]; do sleep 0.5; done
is_in_state 4 unavailable || fail "namespace 4: $(state_of 4)"
truncate -s 16M /tmp/loop.img
expect "the loop device" losetup --direct-io=off /dev/loop0 /tmp/loop.img
eventually 5 is_in_state 4 ready || fail "namespace 4: $(state_of 4)"

step "a file has a bad block"
power=/sys/kernel/config/nullb/fs/power
mkdir /tmp/own
expect "the file system's device" ram_disk fs 64 4096
mkfs.ext4 -q -F -m 0 /dev/fs
mount /dev/fs /tmp/own
fallocate -l 16M /tmp/own/disk
sync
expect "namespace add" sluice namespace add $T1 --nsid 5 --backend file --path /tmp/own/disk
d5=$(disk $T1 5)
write_verify own "$d5" --rw=write --bs=64k --size=4m
block=$(filefrag -b4096 -v /tmp/own/disk | awk '$1 == "0:" { print $4 + 0 }')
echo "+$((block * 8))-$((block * 8 + 7))" >/sys/kernel/config/nullb/fs/badblocks
refuse "a read of the bad block" reads "$d5" 0
eventually 10 is_in_state 5 errors || fail "namespace 5: $(state_of 5)"
contains "reason" "$(sluice namespace list --json)" 'EIO \(5\) on read at LBA 0'
echo "-$((block * 8))-$((block * 8 + 7))" >/sys/kernel/config/nullb/fs/badblocks
expect "a read of the block" reads "$d5" 0

step "the file system of a file fails"
echo 0 >$power
reads "$d5" 5 >/tmp/waiting 2>&1 &
waiting=$!
eventually 10 is_in_state 5 unavailable || fail "namespace 5: $(state_of 5)"
contains "reason" "$(sluice namespace list --json)" 'own/disk: (the device of its file system is gone|Input/output error)'
sleep 2
is_in_state 5 unavailable || fail "it was opened on a file system that has failed"

step "the file system is repaired"
expect "umount" umount /tmp/own # the daemon has closed the file
echo 1 >$power
mount /dev/fs /tmp/own
eventually 10 is_in_state 5 errors || fail "namespace 5: $(state_of 5)" # which are remembered
wait $waiting || fail "the read: $(cat /tmp/waiting)"
fio_run own --filename="$d5" --rw=write --bs=64k --size=4m --verify=crc32c --verify_only=1

step "cached writes are lost with a device"
expect "the device" ram_disk cached 64 4096
d6=$(disk $T1 6)
eventually 5 size_is "$d6" $((64 << 20)) || fail "size $(blockdev --getsize64 "$d6")"
expect "a Flush" dd if=/dev/zero of="$d6" bs=4096 count=1 oflag=direct conv=fsync
expect "a write" dd if=/dev/zero of="$d6" bs=4096 count=1 oflag=direct conv=notrunc
echo 0 >/sys/kernel/config/nullb/cached/power
eventually 10 is_in_state 6 unavailable || fail "namespace 6: $(state_of 6)"
echo 1 >/sys/kernel/config/nullb/cached/power
eventually 10 is_in_state 6 ready || fail "namespace 6: $(state_of 6)"
refuse "the first Flush" dd if=/dev/zero of="$d6" bs=4096 count=1 oflag=direct conv=fsync
expect "the next Flush" dd if=/dev/zero of="$d6" bs=4096 count=1 oflag=direct conv=fsync

step "the other namespace was served all the time"
kill -0 $fio || fail "fio gave up: $(tail -5 /tmp/other.out)"
kill -INT $fio
wait $fio || true # it says that it was interrupted
contains "fio" "$(cat /tmp/other.out)" 'err= *0'
pass
