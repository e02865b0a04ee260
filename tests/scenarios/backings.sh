#!/bin/bash
# A file or device that somebody uses is not exported, one that is exported is not used, and one
# that has been replaced is noticed.
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
mkdir /tmp/files
mkfs.ext4 -q -F -m 0 /dev/ram0
mount /dev/ram0 /tmp/files
namespace file /tmp/files/disk 4096
printf 'nsid = 100\nsize = "64 MiB"\ncreate = true\n' >>$CONFIG
target_start

# add NSID BACKEND PATH [arguments]
add() {
    local path=--path
    [ "$2" != nvme ] || path=--device
    sluice namespace add $T1 --nsid "$1" --backend "$2" $path "$3" "${@:4}"
}
added() { expect "namespace add" add "$@"; }
# refused PATTERN NSID BACKEND PATH [arguments]: fails where the namespace is added, or the reason does
# not match.
refused() {
    local out
    if out=$(add "${@:2}" 2>&1); then fail "${*:2} was added: $out"; fi
    contains "the reason" "$out" "$1"
}
removed() { remove_namespace $T1 "$1"; }
unusable() { refuse "$*" "$@"; }
log() { cat /run/sluiced-$STARTS.log; }

step "a mounted device"
mkfs.ext4 -q -F /dev/ram1
mkdir /tmp/mnt
mount /dev/ram1 /tmp/mnt
refused 'it is mounted at /tmp/mnt' 1 block /dev/ram1
refused 'it is mounted at /tmp/mnt' 1 block /dev/ram1 --read-only
umount /tmp/mnt

step "a device with a file system that the target has not seen"
refused 'holds a file system \(ext4\).*--force' 1 block /dev/ram1
added 1 block /dev/ram1 --read-only
removed 1
added 1 block /dev/ram1 --force
unusable mount /dev/ram1 /tmp/mnt

step "one device by other names"
ln -s /dev/ram1 /tmp/link
mknod /tmp/node b 1 1
for name in /tmp/link /tmp/node /dev/../dev/ram1; do
    refused "namespace 1 of $T1 has it already|two namespaces would have $name" 2 block $name --force
done
target_stop || fail "SIGTERM: status $?"
target_start
contains "namespaces after a restart" "$(sluice namespace list)" '/dev/ram1'
lacks "the log" "$(log)" 'ram1.*(file system|O_DIRECT)'
removed 1
expect "mount after remove" mount /dev/ram1 /tmp/mnt
umount /tmp/mnt

step "swap space"
mkswap /dev/ram2 >/dev/null
refused 'holds swap space' 1 block /dev/ram2

step "a partition and its disk"
whole=$(ram_disk parts 64 512)
addpart "$whole" 1 2048 65536
eventually 5 test -b "${whole}1" || fail "no ${whole}1 in $(echo "$whole"*)"
added 1 block "${whole}1"
refused 'in use' 2 block "$whole" --force
removed 1
added 1 block "$whole"
refused 'in use' 2 block "${whole}1" --force
removed 1
mkfs.ext4 -q -F "${whole}1"
mount "${whole}1" /tmp/mnt
refused "${whole}1 is mounted at /tmp/mnt" 1 block "$whole" --force
umount /tmp/mnt

step "a loop device and the file that it lies on"
truncate -s 64M /tmp/image
loop=$(losetup -f --show /tmp/image)
refused "loop device $loop lies on it" 1 file /tmp/image
added 1 block "$loop"
removed 1
losetup -d "$loop"
added 1 file /tmp/image
loop=$(losetup -f --show /tmp/image)
refused "namespace 1 of $T1 has it already" 2 block "$loop" --force
losetup -d "$loop"
removed 1

step "another program"
perl -e 'use Fcntl; $| = 1; sysopen(F, "/dev/ram3", O_RDWR|O_EXCL) or die; print "held\n"; sleep 60' >/tmp/held &
program=$!
eventually 10 grep -q held /tmp/held || fail "nobody holds /dev/ram3"
refused "in use: process $program \(perl\)" 1 block /dev/ram3
kill $program
wait $program || true
added 1 block /dev/ram3
removed 1

step "an NVMe device by either of its names"
device=$(nvme_device 64 512)
generic=/dev/ng${device#nvme}
mkfs.ext4 -q -F "/dev/$device"
mount "/dev/$device" /tmp/mnt
refused 'it is mounted at /tmp/mnt' 1 nvme "$generic" --force
umount /tmp/mnt
refused 'holds a file system' 1 nvme "$generic"
expect "wipefs" wipefs -q -a "/dev/$device"
added 1 nvme "$generic"
unusable mount "/dev/$device" /tmp/mnt
refused "namespace 1 of $T1 has it already" 2 block "/dev/$device"

step "another device in the same place"
target_stop || fail "SIGTERM: status $?"
nqn=nqn.2026-01.io.sluicegate:device dir=/sys/kernel/config/nvmet/subsystems/nqn.2026-01.io.sluicegate:device
nvme disconnect -n $nqn >/dev/null
echo 0 >$dir/namespaces/1/enable
echo 5b0f4d9c-0000-4000-8000-0000000000aa >$dir/namespaces/1/device_uuid
echo 1 >$dir/namespaces/1/enable
nvme connect -t loop -n $nqn -q $OTHER_NQN -I $OTHER_ID >/dev/null
eventually 5 namespace_of $nqn 1
same "the device's name" "$(namespace_of $nqn 1)" "$device"
target_start
contains "the log" "$(log)" 'another device than before: its wwid is uuid.5b0f4d9c-0000-4000-8000-0000000000aa, and was'

step "a file system that is not mounted"
connect $T1
d=$(disk $T1 100)
head -c 1M /dev/urandom >/tmp/data
expect "a write" dd if=/tmp/data of="$d" bs=1M oflag=direct conv=fsync status=none
disconnect $T1
unusable umount /tmp/files
target_stop || fail "SIGTERM: status $?"
umount /tmp/files
target_start
[ ! -e /tmp/files/disk ] || fail "the file was made again, empty"
contains "the log" "$(log)" 'it had 64 MiB \(is its file system mounted\?\)'
target_stop || fail "SIGTERM: status $?"
mount /dev/ram0 /tmp/files
target_start
connect $T1
d=$(disk $T1 100)
expect "the data" stored "$d" 0 /tmp/data
disconnect $T1
pass
