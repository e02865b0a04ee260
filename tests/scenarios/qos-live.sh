#!/bin/bash
# Weights, a limit, a listener's class and a policy change under load: each shows at once, and hosts
# see no error. The answers' DSCP follows the class.
# alone: it measures what each host gets
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot

for port in 4420 4421; do listener $TARGET_IP:$port; done
echo 'class = "high"' | configure
subsystem $T1 any
slow_disk "8 ms" 8 # 1,000 commands a second
configure <<END
[qos]
window = 16
END
target_start
a=$(attach 4420 -q $HOST_NQN -I $HOST_ID -i 1)
b=$(attach 4421 -q $OTHER_NQN -I $OTHER_ID -i 1)

# now: sets N to the operations of urgent, high, medium and low in some 3.1 seconds, and TOOK to the
# exact time. Between reactors a class is some commands ahead, which is some per cent of a second's.
now() {
    local before
    sleep 0.3 # for what was under way before the change
    before="$(classes_done) $(date +%s.%N)"
    sleep 3
    read -ra N <<<"$(since "$before" "$(classes_done) $(date +%s.%N)")"
    TOOK=${N[4]}
}

# see "NAME WEIGHT INDEX_IN_N"...: prints shares as they are now.
see() {
    local row rows=()
    now
    for row in "$@"; do rows+=("${row% *} ${N[${row##* }]}"); done
    shares 5 "${rows[@]}"
}

# limited: succeeds where a limit of 200 a second holds. A reactor that is woken late loses what it may
# not save up (4 ms), so that the rate is less on a busy machine.
limited() {
    local rate
    now
    rate=$(perl -e 'printf "%.0f", ($ARGV[0] + $ARGV[1]) / $ARGV[2]' "${N[1]}" "${N[2]}" "$TOOK")
    echo "    limit 200 a second, seen $rate"
    ((rate >= 140 && rate <= 210))
}

# Long enough for three tries of each step.
fio_hosts live 60 "a /dev/${a}n1 96" "b /dev/${b}n1 96" &
fio=$!
sleep 1.5

step "High and Low"
three_times see "high 3 1" "low 1 3"
same "DSCP of High" "$(dscp 4421)" 34
same "DSCP of one that says nothing" "$(dscp 4420)" 0

step "weights"
expect "weights" sluice qos set --weights 8,2,2
three_times see "high 8 1" "low 2 3"

step "a listener's class"
expect "listener" sluice qos listener "$(endpoint $TARGET_IP:4421)" medium
three_times see "medium 2 2" "low 2 3"
same "commands of High" "${N[1]}" 0
# The network below RDMA keeps the mark that a connection began with.
if over tcp; then same "DSCP of Medium" "$(dscp 4421)" 18; fi

step "a policy"
expect "policy" sluice qos policy --host $HOST_NQN --class high
three_times see "high 8 1" "medium 2 2"
if over tcp; then same "DSCP of the policy's class" "$(dscp 4420)" 34; fi

step "a limit"
expect "limit" sluice qos session set $T1/1 --iops 200
sleep 0.5 # what may still go at once
three_times limited
expect "no limit" sluice qos session set $T1/1 --iops none
wait $fio || fail "fio"
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
pass
