#!/bin/bash
# A host with 16 connections at depth 32 beside another at depth 1, on one device: what the second
# one gets with quality of service off and on.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
TIME=1 CONNECTIONS=16

for ((port = 4420; port <= 4420 + CONNECTIONS; port++)); do listener $TARGET_IP:$port; done
subsystem $T1 any
slow_disk "8 ms" 8 # 1,000 commands a second
configure <<END
[qos]
window = 16
END
target_start

# A controller for each connection: this machine has one CPU, so that one has a single I/O queue.
quiet=$(attach 4420 -q $OTHER_NQN -I $OTHER_ID -i 1)
flood=()
for ((port = 4421; port <= 4420 + CONNECTIONS; port++)); do
    flood+=("flood /dev/$(attach $port -q $HOST_NQN -I $HOST_ID -i 1)n1 32")
done
connections=$(sluice connections --json | grep -cE '"queue": *[1-9]')
same "I/O connections" "$connections" $((CONNECTIONS + 1))

# measure NAME JOB...: adds a line to the table; sets P50 and P99 (in ms) of the quiet host, DEVICE to the device's
# operations in TIME seconds, FLOOD and LEAST to the operations a second of the flood and of its slowest connection.
measure() {
    local name=$1 mean before fio
    shift
    RAMP=800ms fio_hosts "$name" $((TIME + 1)) "$@" &
    fio=$!
    sleep 1
    before=$(classes_done)
    sleep $TIME
    # shellcheck disable=SC2046 # numbers, a word each
    DEVICE=$(sum $(since "$before" "$(classes_done)"))
    wait $fio || fail "fio"
    read -r RATE mean P99 _ P50 <<<"$(fio_got "$name" quiet)"
    read -r FLOOD _ _ LEAST _ <<<"$(fio_got "$name" flood)"
    P99=$(perl -e 'print $ARGV[0] / 1000' "$P99") P50=$(perl -e 'print $ARGV[0] / 1000' "$P50")
    TABLE+=("$(printf '    %-24s %10.1f %8.2f ms %8.2f ms %12.1f %12.1f' "$name" "$RATE" "${mean}e-3" "$P99" "$((DEVICE / TIME))" "$LEAST")")
}
TABLE=("$(printf '    %-24s %10s %11s %11s %12s %12s' "" "quiet IOPS" mean p99 "device IOPS" "least queue")")

step "the quiet host alone"
measure alone "quiet /dev/${quiet}n1 1"
alone=$P50

step "beside the flood, quality of service off"
expect "off" sluice qos set --enabled off
measure off "quiet /dev/${quiet}n1 1" "${flood[@]}"
off_p99=$P99 off_device=$DEVICE

step "beside the flood, quality of service on"
expect "on" sluice qos set --enabled on
measure on "quiet /dev/${quiet}n1 1" "${flood[@]}"
printf '%s\n' "${TABLE[@]}"
within 5 "median of the quiet host alone, ms: one command of the device" "$alone" 8
# Off, a command waits behind the 512 of the flood: half a second at 1,000 a second.
within 5 "p99 of the quiet host with it off, ms" "$off_p99" 513
# On, it waits for the burst of 4 commands that another host has begun, for the 8 that wait in the device's window before
# it, for one that completes, and for itself.
within 5 "p99 of the quiet host with it on, ms" "$P99" 21
within 1 "the device's rate with it off" "$off_device" $((1000 * TIME))
within 1 "the device's rate with it on" "$DEVICE" $((1000 * TIME))
# The connections of a host share what it has, in order of arrival: each of 32 commands at a time, every half second,
# three or four times while fio counts.
nearly "the slowest connection of the flood, for their mean" "$LEAST" "$(perl -e 'print $ARGV[0] / $ARGV[1]' "$FLOOD" $CONNECTIONS)" 80
pass
