#!/bin/bash
# The daemon restarts while a host's queue holds 64 s of its limit: the reconnect succeeds at once, and the limit
# holds over time.
# time: virtual
. /run/scenarios/qos-lib.sh
qos_boot

listener $TARGET_IP:4420
store /tmp/store
truncate -s 192M /tmp/store/ns
subsystem $T1 any
namespace file /tmp/store/ns 4096
configure <<END
[[session]]
name = "$T1/1"
bandwidth = "1 MiB/s"
END
target_start
connect $T1
d=$(disk $T1 1)
job=(--filename="$d" --rw=write --bs=1M --size=160M --iodepth=64 --verify=crc32c)
# written: prints the MiB that the disk has completed.
written() { awk '{ print int($7 / 2048) }' /sys/block/"${d#/dev/}"/stat; }

step "the daemon is killed under 64 writes of 1 MiB, at 1 MiB a second"
begin=$SECONDS
fio_run resent "${job[@]}" --do_verify=0 &
fio=$!
sleep 40
kill -0 $fio 2>/dev/null || fail "fio ended before the kill"
target_kill
eventually 10 controller_not_live $T1 || fail "the host did not notice"
target_start
restarted=$SECONDS
eventually 15 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
live=$((SECONDS - restarted))
at_live=$(written)

step "the limit holds over time"
sleep 60
first=$(($(written) - at_live))
wait $fio || fail "fio"
took=$((SECONDS - begin))
printf '    %-40s %10s\n' "seconds until the controller was live" "$live" "MiB written then" "$at_live" \
    "MiB in the minute after it" "$first" "seconds for 160 MiB" "$took"
# The host sends a full queue, 128 commands, past the limit: 168 MiB at most in the first 40 s, and then none.
at_most "MiB written when the controller was live" "$at_live" 169
at_most "MiB in the minute after the reconnect" "$first" 62
at_least "seconds for 160 MiB" "$took" 155
at_most "seconds for 160 MiB" "$took" 210
lacks "the kernel's messages" "$(dmesg)" 'I/O error|Failed reconnect|timeout|Removing ctrl'

step "the data is complete"
expect "session set" sluice qos session set "$T1/1" --bandwidth none
fio_run check "${job[@]}" --verify_only=1
disconnect $T1
pass
