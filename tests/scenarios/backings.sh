#!/bin/bash
# A file or device that somebody uses is not exported, one that is exported is not used, one that has
# been replaced is noticed, and what a file cannot do is told.
# time: virtual
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
# refused_by_host: says whether the host has found other identifiers than those of its disk.
refused_by_host() { dmesg | grep -q 'identifiers changed for nsid 7'; }

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

step "a file on a disk with sectors of 4 KiB"
truncate -s 256M /tmp/sectors
big=$(losetup -f --show --sector-size 4096 /tmp/sectors)
same "the sectors" "$(blockdev --getss "$big")" 4096
mkfs.ext4 -q -F -m 0 -b 4096 "$big"
mkdir /tmp/big
mount "$big" /tmp/big
# check LINES...: runs --check on a configuration with a namespace of these lines.
check() {
    {
        printf '[target]\ncontrol = "/run/other.sock"\n[[subsystem]]\nnqn = "%s"\n' $T2
        printf '[[subsystem.namespace]]\nbackend = "file"\ncreate = true\n'
        printf '%s\n' "$@"
    } >/run/other.toml
    /run/bin/sluiced --check /run/other.toml 2>&1
}
small=(--size "64 MiB" --block-size 512)
page_cache='/tmp/big/small: direct I/O needs whole sectors of 4096 bytes.*page cache.*block_size = 4096'
out=$(check 'path = "/tmp/big/small"' 'size = "64 MiB"' 'block_size = 512') || fail "check: $out"
contains "check" "$out" "warning: .*$page_cache"
[ ! -e /tmp/big/small ] || fail "check has made the file"
out=$(add 1 file /tmp/big/small "${small[@]}") || fail "namespace add: $out"
contains "the answer" "$out" "Warning: $page_cache"
contains "the log" "$(log)" "WARN .*whole sectors of 4096 bytes.* path=/tmp/big/small"
connect $T1
d=$(disk $T1 1)
head -c 512 /dev/urandom >/tmp/small
expect "a small write" dd if=/tmp/small of="$d" bs=512 seek=9 oflag=direct conv=fsync status=none
expect "the data" stored "$d" $((9 * 512)) /tmp/small
write_verify small "$d" --rw=randwrite --bs=512 --size=1m --iodepth=8

step "the host is told what the file prefers and takes"
queue=/sys/block/${d#/dev/}/queue
id=$(nvme id-ns "$d")
for field in 'nsfeat *: 0x11' 'npwg *: 7' 'npwa *: 7' 'npdg *: 7' 'npda *: 7' 'nows *: 7' 'dlfeat *: 9'; do
    contains "id-ns" "$id" "^$field$"
done
same "logical_block_size" "$(cat "$queue/logical_block_size")" 512
same "minimum_io_size" "$(cat "$queue/minimum_io_size")" 4096
same "optimal_io_size" "$(cat "$queue/optimal_io_size")" 4096
# A whole physical block is no atomic write, which Linux takes it for.
same "physical_block_size" "$(cat "$queue/physical_block_size")" 512
same "discard_granularity" "$(cat "$queue/discard_granularity")" 4096
blocks_in_use() { printf '%d\n' "$(nvme id-ns "$d" | sed -n 's/^nuse *: *//p')"; }
uses_less_than() { [ "$(blocks_in_use)" -lt "$1" ]; }
uses_at_least() { [ "$(blocks_in_use)" -ge "$1" ]; }
eventually 10 uses_at_least 2048 || fail "NUSE $(blocks_in_use)"
uses_less_than 4096 || fail "NUSE $(blocks_in_use) of a sparse file"
# Linux lets a target deallocate (DEAC) where the blocks read as zeroes then.
before=$(stat -c %b /tmp/big/small)
expect "zeroes that may be holes" fallocate --punch-hole --offset 0 --length 1MiB "$d"
[ "$(stat -c %b /tmp/big/small)" -le $((before - 2000)) ] || fail "$(stat -c %b /tmp/big/small) blocks, $before before"
expect "zeroes" stored "$d" 0 "$(zeroes 1048576)"
eventually 10 uses_less_than 2048 || fail "NUSE $(blocks_in_use)"

step "more than a file system can hold"
refused '100 TiB is more than its file system can hold as one file, which is 16383 GiB' 2 file /tmp/big/two --size "100 TiB"
[ ! -e /tmp/big/two ] || fail "the file is there"
if out=$(check 'path = "/tmp/big/two"' 'size = "100 TiB"'); then fail "check: $out"; fi
contains "check" "$out" '100 TiB is more than its file system'
out=$(check 'path = "/tmp/big/two"' 'size = "10 TiB"') || fail "check: $out"
contains "check" "$out" 'warning: file system /tmp/big is overcommitted: 1 file .* take (10 TiB|1[0-9]+ GiB), and [0-9]+ MiB are free'
out=$(add 2 file /tmp/big/two --size "1 TiB" --block-size 4096) || fail "namespace add: $out"
contains "the answer" "$out" 'Warning: file system /tmp/big is overcommitted: 2 files'
contains "the log" "$(log)" 'WARN .*file system /tmp/big is overcommitted: 2 files'
contains "status" "$(sluice status)" '^/tmp/big +2 '
over=$(metric 'sluicegate_file_system_overcommit_bytes.*mount="\/tmp\/big"')
[ "${over:-0}" -gt $((1023 << 30)) ] || fail "overcommit: ${over:-none}"

step "a host fills the file system"
d2=$(disk $T1 2)
if out=$(timeout 60 dd if=/dev/zero of="$d2" bs=1M count=512 oflag=direct 2>&1); then fail "all was written: $out"; fi
contains "the host's error" "$out" 'No space left on device'
same "the controller" "$(controller_state $T1)" live
disconnect $T1
removed 2
removed 1
rm /tmp/big/two
umount /tmp/big
losetup -d "$big"
rm /tmp/sectors

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
dir=/sys/kernel/config/nvmet/subsystems/$DEVICE_NQN
nvme disconnect -n $DEVICE_NQN >/dev/null
echo 0 >$dir/namespaces/1/enable
echo 5b0f4d9c-0000-4000-8000-0000000000aa >$dir/namespaces/1/device_uuid
echo 1 >$dir/namespaces/1/enable
same "the device's name" "$(nvme_device_connects)" "$device"
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

step "another file in the place of a mounted disk"
head -c 16M /dev/urandom >/tmp/other
cp /tmp/other /tmp/before
truncate -s 16M /tmp/one
added 7 file /tmp/one
connect $T1 -k 2
d=$(disk $T1 7)
expect "mkfs" mkfs.ext4 -q -F "$d"
expect "mount on the host" mount "$d" /tmp/mnt
expect "a write" dd if=/tmp/data of=/tmp/mnt/data bs=64k conv=fsync status=none
expect "sync" sync -f /tmp/mnt
# write_file: writes to the host's file system.
write_file() { dd if=/tmp/data of=/tmp/mnt/more bs=64k conv=fsync status=none; }
# An interruption alone changes nothing.
network_down
eventually 15 controller_not_live $T1 || fail "the host did not notice"
network_up
eventually 20 controller_live $T1 || fail "the host does not reconnect"
expect "a write after an interruption" write_file
expect "sync" sync -f /tmp/mnt
network_down
eventually 15 controller_not_live $T1 || fail "the host did not notice"
removed 7
added 7 file /tmp/other
# A write that waits in the host for the connection is for the disk that the host knows.
(
    trap - ERR EXIT
    write_file
) &
waiting=$!
sleep 1
cp --sparse=never /tmp/one /tmp/kept
network_up
eventually 20 controller_live $T1 || fail "the host does not reconnect"
eventually 10 refused_by_host || fail "the host took the other file for its disk"
unusable write_file
if wait $waiting; then fail "the write that waited went to another disk"; fi
same "the new file" "$(sha256sum </tmp/other)" "$(sha256sum </tmp/before)"
same "the old file" "$(sha256sum </tmp/one)" "$(sha256sum </tmp/kept)"
umount -l /tmp/mnt
disconnect $T1
connect $T1
d=$(disk $T1 7)
expect "the new disk" stored "$d" 0 /tmp/before

step "the target is killed under I/O to that disk"
job=(--filename="$d" --rw=randwrite --bs=16k --size=12m --iodepth=8 --verify=crc32c --verify_fatal=1)
fio_run other "${job[@]}" --do_verify=1 --rate=2m &
fio=$!
sleep 2
target_kill
eventually 10 controller_not_live $T1 || fail "the host did not notice"
target_start
eventually 30 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
wait $fio || fail "fio"

step "NSIDs of removed namespaces are not given again"
for nsid in 3 4 5; do
    contains "namespace add" "$(sluice namespace add $T1 --backend memory --size 1MiB)" "namespace $nsid "
    removed $nsid
done
disconnect $T1
pass
