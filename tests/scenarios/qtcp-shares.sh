#!/bin/bash
# qtcp-shares.sh read|write: three hosts of class High, Medium and Low transfer 128 KiB at a time
# over a link that is slower than what they ask for.
# kernel: nvme_core.multipath=N ncpus=1
. /run/scenarios/qtcp-lib.sh
qtcp_boot
WAY=$1 TIME=10

classes_at_ports high medium low
subsystem $T1 any
namespace null 65536 4096
target_start
disks=('')
for host in 1 2 3; do disks+=("/dev/$(attach_from $host $((4419 + host)))n1"); done

# load NAME TOLERANCE WEIGHT_OF_HIGH MEDIUM LOW: all hosts at once, and the table of what they had.
load() {
    local name=$1 tolerance=$2 weights=("$3" "$4" "$5") classes=(high medium low) jobs=() rows=() i watch
    for i in 0 1 2; do
        jobs+=("${classes[i]} ${disks[i + 1]} 8 rw=rand$WAY bs=128k")
    done
    fio_hosts "$name" $TIME "${jobs[@]}" &
    fio=$!
    sleep 2 # fio's own start, and the second that it leaves out
    watch_link "$name"
    watch=$!
    sleep $((TIME - 2))
    kill $watch
    wait $fio || fail "fio"
    for i in 0 1 2; do
        rows+=("${classes[i]} ${weights[i]} $((i + 1)) $(mbits "$name" ${classes[i]} 128)")
    done
    link_shares "$name" "$WAY" "$tolerance" "${rows[@]}"
}

step "plain dctcp"
three_times load plain 5 1 1 1
pass
