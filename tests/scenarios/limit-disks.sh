#!/bin/bash
# Five disks of a host have one limit between them, which needs 11 minutes for what the host sends at once. Each command
# is sent back as often as Linux sends it again, and none fails.
# time: virtual
. /run/scenarios/qos-lib.sh
qos_boot

DISKS=5
listener $TARGET_IP:4420
printf '[[session]]\nname = "shared"\niops = 1\n' | configure
for ((n = 1; n <= DISKS; n++)); do
    subsystem $T1:$n any
    namespace memory 64 4096
    printf '[[policy]]\nsubsystem = "%s"\nsession = "shared"\n' $T1:$n | configure
done
target_start
jobs=()
for ((n = 1; n <= DISKS; n++)); do
    connect $T1:$n
    jobs+=(--name="disk$n" --filename="$(disk $T1:$n 1)")
done

step "128 reads at one time of each of $DISKS disks, at one read a second for all"
begin=$SECONDS
timeout 3000 fio "${FIO[@]}" --rw=randread --bs=4k --io_size=1m --iodepth=128 --output=/tmp/reads "${jobs[@]}" ||
    fail "fio: $(tail -20 /tmp/reads)"
took=$((SECONDS - begin)) reads=$((256 * DISKS))
at_least "seconds for $reads reads" $took $((reads - 10))
at_most "seconds for $reads reads" $took $((reads * 101 / 100))
lacks "the kernel's messages" "$(dmesg)" 'I/O error|timeout|[Rr]esetting controller|Removing ctrl'
pass
