#!/bin/bash
# Limits that take minutes for what a host sends at once: the host waits, and neither times out nor fails.
# time: virtual
. /run/scenarios/qos-lib.sh
qos_boot

listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 512 4096
namespace memory 512 4096
namespace null 16384 4096
configure <<END
[[session]]
name = "$T1/1"
bandwidth = "1 MiB/s"

[[session]]
name = "$T1/3"
bandwidth = "100 MiB/s"
END
target_start
connect $T1
slow=$(disk $T1 1)
free=$(disk $T1 2)
large=$(disk $T1 3)
quiet() { lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect|Removing ctrl'; }
refused() { qos "session('$T1/1')->{refused}"; }

# slowest_read PID DISK: reads a block of a disk now and then while a process runs; sets SLOWEST to the milliseconds
# of the slowest read. (fio would not sleep for its last milliseconds, during which no virtual time passes.)
slowest_read() {
    local begin took
    SLOWEST=0
    while kill -0 "$1" 2>/dev/null; do
        begin=$(date +%s%N)
        dd if="$2" of=/dev/null bs=4k count=1 iflag=direct status=none
        took=$((($(date +%s%N) - begin) / 1000000))
        ((took <= SLOWEST)) || SLOWEST=$took
        sleep 5
    done
}

step "64 writes of 1 MiB at one time, at 1 MiB a second, beside reads of another disk"
fio_run writes --filename="$slow" --rw=write --bs=1M --iodepth=64 --time_based --runtime=120 &
writes=$!
slowest_read $writes "$free"
wait $writes || fail "writes failed"
quiet
job() { perl -MJSON::PP -0777 -e 'my $j = decode_json(<>)->{jobs}[0]; print int(eval $ENV{WANTED})' /tmp/fio-"$1".json; }
written=$(WANTED='$j->{write}{io_bytes} / 2**20' job writes)
took=$(WANTED='$j->{write}{runtime} / 1000' job writes)
printf '    %-40s %10s\n' "MiB written" "$written" "seconds" "$took" "slowest read of the other disk, ms" "$SLOWEST" \
    "commands sent back" "$(refused)"
at_least "commands that were sent back" "$(refused)" 50
at_most "MiB written" "$written" $((took + 3))
at_least "MiB written" "$written" $((took * 85 / 100))
at_most "ms of the slowest read of the other disk" "$SLOWEST" 100

step "64 writes of 1 MiB at one time, at 1 MiB of writes a second, beside reads of the same disk"
expect "session set" sluice qos session set "$T1/1" --bandwidth none --write-bandwidth "1 MiB"
fio_run writes --filename="$slow" --rw=write --bs=1M --iodepth=64 --time_based --runtime=30 &
writes=$!
slowest_read $writes "$slow"
wait $writes || fail "writes failed"
quiet
printf '    %-40s %10s\n' "slowest read, ms" "$SLOWEST"
at_most "ms of the slowest read" "$SLOWEST" 100
expect "session set" sluice qos session set "$T1/1" --write-bandwidth none

step "Write Zeroes is as large as a transfer"
zeroed=$(cat /sys/block/"${slow#/dev/}"/queue/write_zeroes_max_bytes)
[ "$zeroed" = 1048576 ] || fail "the host zeroes $zeroed bytes at a time"

step "12 GiB of zeroes at 100 MiB a second"
begin=$SECONDS
blkdiscard -f -z -l 12G "$large"
at_most "seconds for 12 GiB of zeroes, which move no data" $((SECONDS - begin)) 15
quiet

mkdir -p /tmp/slow
# used BANDWIDTH IOPS: uses the disk with these limits of its session. It is idle for longer than a host's
# timeout, is zeroed, has file systems made on it, and files written with fsync.
used() {
    local begin
    step "bandwidth $1, iops $2: idle, zeroes, mkfs.ext4, fsync, mkfs.xfs"
    expect "session set" sluice qos session set "$T1/1" --bandwidth "$1" --iops "$2"
    sleep 35
    begin=$SECONDS
    blkdiscard -f -z -l 64M "$slow"
    at_most "seconds for 64 MiB of zeroes, which move no data" $((SECONDS - begin)) 15
    mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$slow" 131072
    mount "$slow" /tmp/slow
    for file in {1..4}; do dd if=/dev/zero of=/tmp/slow/$file bs=256k count=1 conv=fsync status=none; done
    fio_run synced --directory=/tmp/slow --rw=randwrite --bs=4k --size=128k --numjobs=4 --fsync=1
    umount /tmp/slow
    mkfs.xfs -q -f "$slow"
    quiet
}
used "1 MiB" none
used "1 GiB" none
used "30 MiB" 10000
used none 10

step "ten commands a second, a hundred at one time"
fio_run few --filename="$slow" --rw=randread --bs=4k --iodepth=120 --time_based --runtime=60
quiet

step "a limit that no host can wait for is refused"
output=$(sluice qos session set "$T1/1" --bandwidth "100 KiB/s" 2>&1) && fail "it was set"
contains "sluice qos session set" "$output" 'set bandwidth to [0-9.]+ KiB or more'
pass
