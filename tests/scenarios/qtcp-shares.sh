#!/bin/bash
# qtcp-shares.sh read|write: three hosts of class High, Medium and Low transfer 128 KiB at a time
# over a link that is slower than what they ask for: evenly with plain dctcp, 3:2:1 with classes, and
# no less together.
# kernel: nvme_core.multipath=N ncpus=1
. /run/scenarios/qtcp-lib.sh
qtcp_boot
WAY=$1 TIME=10
three_hosts high medium low

# load NAME WEIGHT_OF_HIGH MEDIUM LOW: all hosts at once, and the table of what they had.
load() {
    local name=$1 weights=("${@:2}") classes=(high medium low) jobs=() rows=() i fio watch
    for i in 0 1 2; do jobs+=("${classes[i]} ${DISKS[i + 1]} 8 rw=rand$WAY bs=128k"); done
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
    link_shares "$name" "$WAY" 5 "${rows[@]}"
}

step "plain dctcp"
three_times load plain 1 1 1
plain=$TOTAL

step "classes"
network_qos --enabled on
classes() {
    load classes 3 2 1 && nearly "the total, for that of plain dctcp" "$TOTAL" "$plain" 95
}
three_times classes
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
pass
