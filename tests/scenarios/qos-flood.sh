#!/bin/bash
# A host with 16 connections at depth 128 beside another at depth 1, on one device: what the second
# one gets with quality of service off and on.
# alone: it measures what each host gets
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
TIME=3

for port in 4420 4421 4422 4423 4424 4425 4426 4427 4428; do listener $TARGET_IP:$port; done
subsystem $T1 any
slow_disk "8 ms" 16 # 2,000 commands a second
configure <<END
[qos]
window = 32
END
target_start

# 8 controllers with 2 I/O queues each: the host has as many for each as it has CPUs.
quiet=$(attach 4420 -q $OTHER_NQN -I $OTHER_ID -i 1)
flood=()
for port in 4421 4422 4423 4424 4425 4426 4427 4428; do
    c=$(attach $port -q $HOST_NQN -I $HOST_ID -i 2 -Q 128)
    for cpu in 0 1; do flood+=("flood /dev/${c}n1 128 cpus_allowed=$cpu"); done
done
connections=$(sluice connections --json | grep -cE '"queue": *[1-9]')
same "I/O connections" "$connections" 17

# measure NAME JOB...: adds a line to the table; sets RATE and P99 (in ms) of the quiet host.
measure() {
    local name=$1 mean device least before after _
    shift
    fio_hosts "$name" $TIME "$@" &
    sleep 2
    before=$(date +%s.%N)" "$(classes_done)
    sleep $((TIME - 1))
    after=$(date +%s.%N)" "$(classes_done)
    wait $! || fail "fio"
    device=$(perl -e 'my ($time, @n) = split " ", $ARGV[0]; my $n = 0; $n += $_ for @n; print $n / $time' "$(since "$before" "$after")")
    read -r RATE mean P99 _ <<<"$(fio_got "$name" quiet)"
    read -r _ _ _ least <<<"$(fio_got "$name" flood)"
    P99=$(perl -e 'print $ARGV[0] / 1000' "$P99")
    TABLE+=("$(printf '    %-24s %10.1f %8.1f ms %8.1f ms %12.1f %12.1f' "$name" "$RATE" "${mean}e-3" "$P99" "$device" "$least")")
}
TABLE=("$(printf '    %-24s %10s %11s %11s %12s %12s' "" "quiet IOPS" mean p99 "device IOPS" "least queue")")

step "the quiet host alone"
measure alone "quiet /dev/${quiet}n1 1"

step "beside the flood, quality of service off"
expect "off" sluice qos set --enabled off
measure off "quiet /dev/${quiet}n1 1" "${flood[@]}"
off=$RATE off_p99=$P99

step "beside the flood, quality of service on"
expect "on" sluice qos set --enabled on
measure on "quiet /dev/${quiet}n1 1" "${flood[@]}"
printf '%s\n' "${TABLE[@]}"
# Off, its command waits behind 2,048 others: a second. On, behind the 32 in the device: 16 ms where
# nothing else disturbs; the machine's two CPUs run 17 busy processes beside the target.
at_least "IOPS of the quiet host, for those with it off" "$RATE" "$(perl -e 'print 5 * ($ARGV[0] || 1)' "$off")"
at_most "p99 of the quiet host, for that with it off" "$P99" "$(perl -e 'print $ARGV[0] / 2' "$off_p99")"
pass
