#!/bin/bash
# Weights of classes and tenants, a limit, a listener's class and a policy change under load: each shows at once,
# and hosts see no error. The answers' DSCP follows the class.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
TIME=1

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

# now: sets N to the operations of urgent, high, medium and low in TIME seconds.
now() {
    local before
    sleep 1 # a class that has more or fewer hosts is some ten commands off for half a second
    before="$(classes_done)"
    sleep $TIME
    read -ra N <<<"$(since "$before" "$(classes_done)")"
}

# see "NAME WEIGHT INDEX_IN_N"...: prints shares as they are now.
see() {
    local row rows=()
    now
    for row in "$@"; do rows+=("${row% *} ${N[${row##* }]}"); done
    shares 1 "${rows[@]}"
    within 1 "the device's rate" "$(sum "${N[@]}")" $((1000 * TIME))
}

fio_hosts live 24 "a /dev/${a}n1 96" "b /dev/${b}n1 96" &
fio=$!
sleep 0.5

step "High and Low"
see "high 3 1" "low 1 3"
same "DSCP of High" "$(dscp 4421)" 34
same "DSCP of one that says nothing" "$(dscp 4420)" 0

step "weights"
expect "weights" sluice qos set --weights 8,2,2
see "high 8 1" "low 2 3"

step "a listener's class"
expect "listener" sluice qos listener "$(endpoint $TARGET_IP:4421)" medium
see "medium 2 2" "low 2 3"
same "commands of High" "${N[1]}" 0
# The network below RDMA keeps the mark that a connection began with.
if over tcp; then same "DSCP of Medium" "$(dscp 4421)" 18; fi

step "a policy"
expect "policy" sluice qos policy --host $HOST_NQN --class high
see "high 8 1" "medium 2 2"
if over tcp; then same "DSCP of the policy's class" "$(dscp 4420)" 34; fi

# see_hosts WEIGHT WEIGHT: prints what the two hosts got.
see_hosts() {
    local before
    sleep 1
    before="$(hosts_done "${a}n1" "${b}n1")"
    sleep $TIME
    read -ra N <<<"$(since "$before" "$(hosts_done "${a}n1" "${b}n1")")"
    shares 1 "gold $1 ${N[0]}" "silver $2 ${N[1]}"
}

step "weights of two tenants of one class"
expect "listener" sluice qos listener "$(endpoint $TARGET_IP:4421)" low
for tenant in gold silver; do expect "session $tenant" sluice qos session add $tenant; done
expect "policy of gold" sluice qos policy --host $HOST_NQN --class low --session gold
expect "policy of silver" sluice qos policy --host $OTHER_NQN --class low --session silver
see_hosts 1 1
expect "weight of gold" sluice qos session set gold --weight 300
see_hosts 3 1
expect "weight of silver" sluice qos session set silver --weight 600
see_hosts 1 2
for host in $HOST_NQN $OTHER_NQN; do expect "policy" sluice qos policy --host $host --remove; done

step "a limit"
expect "limit" sluice qos session set $T1/1 --iops 200
sleep 0.5 # what may still go at once
now
within 1 "a limit of 200 a second" "$(sum "${N[@]}")" $((200 * TIME))
expect "no limit" sluice qos session set $T1/1 --iops none
kill -0 $fio || fail "the load ended before all was seen"
wait $fio || fail "fio"
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
pass
