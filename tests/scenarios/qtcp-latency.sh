#!/bin/bash
# A host that reads 4 KiB at a time and waits for each, beside two that fill the link with large
# reads: the latency that it sees alone, with plain dctcp, and with a latency to keep.
# time: virtual
# kernel: nvme_core.multipath=N
# A slow link: one host alone, with a command at a time, would have 14,000 a second on a faster one.
LINK=100 MTU=1500 THRESHOLD=80000
DELAY= # three packets, 0.4 ms of the link, are an answer
. /run/scenarios/qtcp-lib.sh
qos_boot
TIME=2 RAMP=2 # until the queue that large reads begin with is gone
three_hosts high medium low
quiet="quiet ${DISKS[1]} 1"
bulk=("bulk ${DISKS[2]} 8 bs=128k" "bulk ${DISKS[3]} 8 bs=128k")

# measure NAME JOB...: adds a line to the table; sets MEAN (in ms) of the quiet host and TOTAL (Mbit/s)
# of all hosts. Nothing else runs meanwhile: a process that takes the CPU for a millisecond would show.
measure() {
    local name=$1 rate bulk p99
    shift
    fio_hosts "$name" $TIME "$@"
    read -r rate MEAN p99 _ <<<"$(fio_got "$name" quiet)"
    bulk=$(mbits "$name" bulk 128)
    TOTAL=$(perl -e 'printf "%.1f", $ARGV[0] * 0.032768 + $ARGV[1]' "$rate" "$bulk")
    MEAN=$(perl -e 'print $ARGV[0] / 1000' "$MEAN") p99=$(perl -e 'print $ARGV[0] / 1000' "$p99")
    TABLE+=("$(printf '    %-20s %8.0f %9.2f ms %9.2f ms %12.1f %12.1f' "$name" "$rate" "$MEAN" "$p99" "$bulk" "$TOTAL")")
}
TABLE=("$(printf '    %-20s %8s %12s %12s %12s %12s' "" IOPS mean p99 "bulk Mbit/s" "all Mbit/s")")

step "alone"
measure alone "$quiet"

step "plain dctcp"
measure plain "$quiet" "${bulk[@]}"
plain=$MEAN plain_total=$TOTAL

step "classes that share"
network_qos --enabled on
measure shares "$quiet" "${bulk[@]}"

step "a latency to keep"
network_qos class high --latency 2ms
# The smoothed round trip is what is kept. The 99th percentile is only shown: bursts of the others make it.
measure latency "$quiet" "${bulk[@]}"
printf '%s\n' "${TABLE[@]}"
nearly "the mean with plain dctcp, for that with a latency to keep" "$plain" "$MEAN" 200
nearly "a mean of 2 ms, for that" 2 "$MEAN" 65
nearly "the total, for that of plain dctcp" "$TOTAL" "$plain_total" 80
pass
