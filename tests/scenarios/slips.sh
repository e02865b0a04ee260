#!/bin/bash
# Slips of an operator that cost data before: a benchmark on a disk that a host has mounted, and a limit without
# a unit.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 64 4096
target_start
bench() { in_target /run/bin/sluice bench -a $TARGET_IP:4420 -n $T1 --time 20ms --warmup 0s --blocking --depth 1 "$@"; }
# refuses WORDS COMMAND...: fails where the command succeeds, or says something else.
refuses() {
    local words=$1 said
    shift
    ! said=$("$@" 2>&1) || fail "$* was not refused: $said"
    [[ $said == *"$words"* ]] || fail "$* said: $said"
}

step "a benchmark does not write to a mounted disk"
connect $T1
d=$(disk $T1 1)
mkfs.ext4 -q -F "$d"
mount "$d" /tmp/fs
head -c 4m /dev/urandom >/tmp/fs/file
sum=$(md5sum </tmp/fs/file)
sync
refuses "holds a file system (ext4)" bench --rw randwrite
refuses "--destroy" bench --rw randrw
expect "reads go on" bench --rw randread
echo 3 >/proc/sys/vm/drop_caches
same "the file" "$(md5sum </tmp/fs/file)" "$sum"

step "nor to one that is empty, and in use"
umount /tmp/fs
expect "wipefs" wipefs -qa "$d"
sync
refuses "is in use by" bench --rw randwrite
expect "destroy" bench --rw randwrite --destroy

step "a number with two readings is no limit"
refuses "100 MiB/s" sluice qos session set $T1/1 --bandwidth 100
refuses "without a unit" sluice namespace add $T1 --backend memory --size 100
timeout 20 dd if="$d" of=/dev/null bs=1M count=16 iflag=direct 2>/dev/null || fail "the host is limited"
disconnect $T1

step "live changes are told at a start, saved, and taken back"
expect "session add" sluice qos session add gold --bandwidth 200MiB/s
target_stop || fail "the daemon ended with $?"
target_start
grep -q '1 live change on top of the file: sluice config diff' /run/sluiced-$STARTS.log || fail "nothing is told"
contains "diff" "$(sluice config diff)" 'gold'
contains "save" "$(sluice config save)" 'Saved 1 live change to'
grep -q gold $CONFIG || fail "the file has no session gold: $(cat $CONFIG)"
lacks "diff" "$(sluice config diff)" 'gold'
expect "session add" sluice qos session add silver --bandwidth 200MiB/s
expect "revert" sluice config revert
lacks "sessions" "$(sluice qos session list)" silver
contains "sessions" "$(sluice qos session list)" gold
pass
