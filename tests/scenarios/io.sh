#!/bin/bash
# io.sh memory|file|pmem|passthrough: data in, data out, on one backend, checked by fio's CRC-32C.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
case $1 in
memory)
    namespace memory 256 4096
    namespace memory 128 512
    ;;
file)
    store /tmp/a
    truncate -s 200M /tmp/a/ns
    namespace file /tmp/a/ns 4096
    store /tmp/b
    truncate -s 128M /tmp/b/ns
    namespace file /tmp/b/ns 512
    ;;
pmem)
    store /tmp/a
    namespace pmem /tmp/a/ns 192 4096
    store /tmp/b
    namespace pmem /tmp/b/ns 96 512
    ;;
passthrough)
    device=$(nvme_device 256 4096)
    namespace nvme "/dev/ng${device#nvme}" 4096
    ;;
esac
target_start
connect $T1
d=$(disk $T1 1)

step "sequential, 4 KiB to 4 MiB"
for sizes in "4k 2m" "64k 4m" "1m 8m" "4m 16m"; do
    read -r bs size <<<"$sizes"
    write_verify seq$bs "$d" --rw=write --bs=$bs --size=$size --iodepth=4
done

step "random, mixed sizes"
write_verify mix "$d" --rw=randwrite --bssplit=4k/60:16k/15:64k/10:128k/8:512k/4:4m/3 --size=16m --iodepth=32
write_verify rw "$d" --rw=randrw --bssplit=4k/60:16k/15:64k/10:128k/8:1m/7 --size=8m --iodepth=32 --numjobs=2 --offset_increment=96m
write_verify backlog "$d" --rw=randwrite --bs=4k --size=2m --iodepth=16 --verify_backlog=64

if [ "$1" != passthrough ]; then
    step "512-byte blocks"
    small=$(disk $T1 2)
    ! target_can cli || same "block size" "$(blockdev --getss "$small")" 512
    # nvmet takes the file system's block size for a file's.
    if [ "$(blockdev --getss "$small")" = 512 ]; then
        write_verify small "$small" --rw=randwrite --bssplit=512/40:1k/20:4k/20:6656/10:64k/10 --size=1m --iodepth=16
        write_verify unaligned "$small" --rw=write --bs=2560 --offset=16896 --size=1280k --iodepth=8
    fi
fi

step "with header and data digests"
digests=()
if over tcp; then digests=(--hdr-digest --data-digest); fi
disconnect $T1
connect $T1 "${digests[@]}"
d=$(disk $T1 1)
fio_run kept --filename="$d" --rw=randwrite --bs=4k --size=2m --iodepth=16 --verify=crc32c --verify_only=1
write_verify digests "$d" --rw=randrw --bssplit=4k/60:64k/25:1m/15 --size=8m --iodepth=16
disconnect $T1
connect $T1
d=$(disk $T1 1)

step "FUA and flush"
fio_run fua --filename="$d" --rw=randwrite --bs=4k --size=1m --iodepth=4 --sync=dsync
fio_run fsync --filename="$d" --rw=randwrite --bs=4k --size=1m --iodepth=4 --fsync=8
expect "flush" nvme flush "$d" -n 1

step "discard and write zeroes"
head -c $((16 << 20)) /dev/urandom >/tmp/fill
head -c $((4 << 20)) /tmp/fill >/tmp/fill4
tail -c $((4 << 20)) /tmp/fill >/tmp/fill12
expect "fill" dd if=/tmp/fill of="$d" bs=1M oflag=direct
expect "discard" blkdiscard -o $((4 << 20)) -l $((4 << 20)) "$d"
expect "zero out" blkdiscard -z -o $((8 << 20)) -l $((4 << 20)) "$d"
expect "zeroes after blkdiscard -z" stored "$d" $((8 << 20)) "$(zeroes $((4 << 20)))"
# The namespace identifies itself as reading zeroes after a deallocate, or may return anything.
dlfeat=$(nvme id-ns "$d" | sed -n 's/^dlfeat *: *//p')
if [ $((dlfeat & 7)) = 1 ]; then
    expect "zeroes after a discard" stored "$d" $((4 << 20)) "$(zeroes $((4 << 20)))"
elif target_can cli && [ "$1" != passthrough ]; then
    fail "the namespace does not say that it reads zeroes after a deallocate: dlfeat $dlfeat"
fi
expect "the blocks before" stored "$d" 0 /tmp/fill4
expect "the blocks after" stored "$d" $((12 << 20)) /tmp/fill12
expect "whole-device discard" blkdiscard "$d"

step "ext4"
expect "mkfs" mkfs.ext4 -q -F "$d"
mkdir -p /tmp/mnt
mount "$d" /tmp/mnt
mkdir /tmp/mnt/dir
for i in 1 2 3 4 5 6 7 8; do
    head -c $((i * 1234567)) /dev/urandom >/tmp/mnt/dir/f$i
    for j in $(seq 1 10); do echo "$i $j" >/tmp/mnt/dir/s$i-$j; done
done
rm /tmp/mnt/dir/f3 /tmp/mnt/dir/s2-*
fstrim /tmp/mnt || true
(cd /tmp/mnt && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/tmp/sums
umount /tmp/mnt
echo 3 >/proc/sys/vm/drop_caches
expect "fsck" fsck.ext4 -fn "$d"
disconnect $T1
connect $T1
d=$(disk $T1 1)
mount "$d" /tmp/mnt
expect "files" sh -c 'cd /tmp/mnt && sha256sum --quiet -c /tmp/sums'
umount /tmp/mnt
expect "fsck after a reconnect" fsck.ext4 -fn "$d"

step "what was written is on the backend"
head -c 65536 /dev/urandom >/tmp/mark
expect "write" dd if=/tmp/mark of="$d" bs=64k seek=100 oflag=direct
case $1 in
file) expect "the file" stored /tmp/a/ns $((100 * 65536)) /tmp/mark ;;
passthrough) expect "the device" stored "/dev/$device" $((100 * 65536)) /tmp/mark ;;
esac
disconnect $T1
if target_can process; then target_stop || fail "exit code $? on SIGTERM"; fi
pass
