#!/bin/bash
# Far more than a session may have: hosts are held back and told to retry later, and no I/O
# error reaches them; the target's memory does not grow.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
TIME=60

PORTS=(4420 4421 4422 4423 4424 4425 4426 4427)
for port in "${PORTS[@]}"; do listener $TARGET_IP:$port; done
subsystem $T1 any
namespace null 65536 4096
configure <<END
[[session]]
name = "$T1/1"
iops = 30
queue = 16
END
target_start
jobs=()
for port in "${PORTS[@]}"; do
    c=$(attach $port -q $HOST_NQN -I $HOST_ID -i 1)
    jobs+=("load /dev/${c}n1 64")
done
memory() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$DAEMON/status; }

step "reads, 512 at one time, for a session that may have 16 waiting and 30 a second"
fio_hosts first 2 "${jobs[@]}"
before=$(memory)
fio_hosts second $((TIME + 3)) "${jobs[@]}" &
loading=$!
# counted: prints the commands that the target has done for the session, and the time in seconds.
counted() { echo "$(qos "done(session('$T1/1'))") $(date +%s.%N)"; }
sleep 3
from=$(counted)
sleep $TIME
read -r rate _ <<<"$(since "$from" "$(counted)" | perl -ane 'printf "%.1f", $F[0] / $F[1]')"
wait $loading || fail "fio"
after=$(memory)
refused=$(qos "session('$T1/1')->{refused}")
read -r _ mean p99 _ <<<"$(fio_got second load)"
printf '    %-30s %10s\n' "commands a second" "$rate" "mean latency, ms" $((mean / 1000)) "p99, ms" $((p99 / 1000)) \
    "told to retry" "$refused" "errors that fio saw" 0 "VmRSS before, KiB" "$before" "VmRSS after, KiB" "$after"
at_least "commands that were told to retry later" "$refused" 1
within 1 "commands a second" "$rate" 30
at_most "VmRSS" "$after" $((before + 1024))
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect|Removing ctrl'
pass
