#!/bin/bash
# The target is killed under I/O and started again: the host goes on, and no written data is lost.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
store /tmp/store
truncate -s 128M /tmp/store/ns
subsystem $T1 any
namespace file /tmp/store/ns 4096
target_start
connect $T1 -k 5
d=$(disk $T1 1)

step "two kills under writes"
job=(--filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=24m --iodepth=16 --verify=crc32c)
fio_run crash "${job[@]}" --verify_fatal=1 --do_verify=1 --rate=3m &
fio=$!
for _ in 1 2; do
    sleep 2
    kill -0 $fio || fail "fio ended before the kill"
    target_kill
    eventually 10 controller_not_live $T1 || fail "the host did not notice"
    sleep 2
    target_start
    eventually 15 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
done
wait $fio || fail "fio"
disconnect $T1

step "the data is there after another kill"
target_kill
target_start
connect $T1
d=$(disk $T1 1)
fio_run after "${job[@]/#--filename=*/--filename=$d}" --verify_only=1
disconnect $T1

step "a kill in the middle of a file system's work"
connect $T1 -k 5
d=$(disk $T1 1)
expect "mkfs" mkfs.ext4 -q -F "$d"
mkdir -p /tmp/mnt
mount "$d" /tmp/mnt
(for i in $(seq 1 120); do
    head -c 100000 /dev/urandom >/tmp/mnt/f$i
    sync /tmp/mnt/f$i
    sha256sum /tmp/mnt/f$i >>/tmp/sums
done) &
writer=$!
sleep 1
target_kill
sleep 1
target_start
wait $writer || fail "the writer met an error"
umount /tmp/mnt
expect "fsck" fsck.ext4 -fn "$d"
mount "$d" /tmp/mnt
expect "files" sha256sum --quiet -c /tmp/sums
umount /tmp/mnt
disconnect $T1
pass
