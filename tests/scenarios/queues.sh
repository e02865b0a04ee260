#!/bin/bash
# A host with several I/O queues, of several CPUs: as many as it asks for, and polled ones.
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 128 4096
target_start

step "1, 2 and 4 I/O queues"
for queues in 1 2 4; do
    connect $T1 -i $queues
    d=$(disk $T1 1)
    have=$(cat /sys/class/nvme/"$(controller $T1)"/queue_count)
    # The kernel uses no more queues than CPUs; the admin queue counts as one.
    cpus=$(nproc)
    same "queue count" "$have" $(((queues < cpus ? queues : cpus) + 1))
    write_verify queues "$d" --rw=randwrite --bs=4k --size=4m --iodepth=16 --numjobs=2 --offset_increment=4m
    disconnect $T1
done
connect $T1 -i 2 --nr-poll-queues=1 --nr-write-queues=1
d=$(disk $T1 1)
write_verify poll "$d" --rw=randwrite --bs=4k --size=2m --iodepth=4
disconnect $T1
pass
