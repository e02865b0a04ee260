#!/bin/bash
# The file system under a disk is not mounted for nine minutes, over a start of the target: the host's
# file system waits, and loses nothing.
# time: virtual
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
mkdir /tmp/below /tmp/aside /tmp/mnt
mount -t tmpfs -o size=48m tmpfs /tmp/below
truncate -s 32M /tmp/below/disk
namespace file /tmp/below/disk 4096
target_start
connect $T1
d=$(disk $T1 1)
mkfs.ext4 -q "$d"
mount "$d" /tmp/mnt
head -c 1M /dev/urandom >/tmp/data
quiet() { lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]emounting|EXT4-fs error|nvme.* timeout'; }

# store FILE: writes a file, which reads the directory first.
store() (
    trap - ERR EXIT
    cp /tmp/data /tmp/mnt/"$1" && sync -f /tmp/mnt
)

step "the host writes while the disk is not there"
target_kill
mount --move /tmp/below /tmp/aside
target_start
eventually 60 controller_live $T1 || fail "the host does not reconnect"
store data &
writing=$!
begin=$SECONDS
sleep 540
kill -0 $writing 2>/dev/null || fail "the write has ended without a disk"
quiet

step "the disk is there again"
mount --move /tmp/aside /tmp/below
wait $writing || fail "the write failed"
printf '    %-30s %10s\n' "seconds until the write ended" $((SECONDS - begin))
((SECONDS - begin <= 700)) || fail "the write took $((SECONDS - begin)) s"
contains "the mounts" "$(grep ' /tmp/mnt ' /proc/mounts)" ' ext4 rw'
umount /tmp/mnt
quiet
mount "$d" /tmp/mnt
expect "the data" cmp /tmp/data /tmp/mnt/data

step "a short outage ends soon"
mount --move /tmp/below /tmp/aside
target_kill
target_start
eventually 60 controller_live $T1 || fail "the host does not reconnect"
store more &
writing=$!
begin=$SECONDS
sleep 5
mount --move /tmp/aside /tmp/below
wait $writing || fail "the write failed"
printf '    %-30s %10s\n' "seconds until the write ended" $((SECONDS - begin))
((SECONDS - begin <= 40)) || fail "the write took $((SECONDS - begin)) s"
umount /tmp/mnt
quiet
pass
