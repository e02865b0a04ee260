#!/bin/bash
# qtcp-both.sh ways|queues|connections: three hosts, of class High, Medium and Low with shares 5:3:2, over
# a link that is slower than what they ask for. They read and write at once, over one connection each or
# over queues of their own for writes, and each direction is shared; or they read, the third one over three
# connections.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qtcp-lib.sh
qos_boot
TIME=2
CLASSES=('' high medium low) WEIGHTS=('' 5 3 2) WAYS=(read)
[ "$1" = connections ] || WAYS=(read write)
[ "$1" != queues ] || CONNECT_MORE=--nr-write-queues=1
DEPTH=8

three_hosts high medium low

# again HOST PORT: connects one more controller of a host that has one, and adds its disk to MORE.
# nvme-cli 2.3 refuses that whatever it is told.
again() {
    local before options
    options="transport=$(transport_of "$1"),traddr=$(target_of "$1"),trsvcid=$2,nqn=$T1,hostnqn=${NQNS[$1]}"
    before=$(cd /sys/class/nvme && echo *)
    options+=",hostid=${IDS[$1]},nr_io_queues=1,reconnect_delay=1,duplicate_connect"
    # shellcheck disable=SC2016 # $1 is the shell's inside
    inside "$(home "$1")" sh -c 'echo "$1" >/dev/nvme-fabrics' - "$options" || fail "connect again: $options"
    MORE+=("/dev/$(new_since "$before")n1")
}

MORE=()
if [ "$1" = connections ]; then
    for _ in 1 2; do again 3 4422; done
fi
for host in 1 2 3; do network_qos class "${CLASSES[host]}" --share "${WEIGHTS[host]}"; done

# load NAME: loads all hosts at once, in each direction.
load() {
    local host way disk jobs=()
    for way in "${WAYS[@]}"; do
        for host in 1 2 3; do jobs+=("$way-$host ${DISKS[host]} $DEPTH bs=128k rw=rand$way"); done
    done
    for disk in "${MORE[@]}"; do jobs+=("more-${#jobs[@]} $disk $DEPTH bs=128k"); done
    fio_hosts "$1" $TIME "${jobs[@]}"
}

# got NAME WAY HOST: prints the Mbit/s of payload of a host in one direction.
got() {
    local job all=("$2-$3")
    [ "$3" != 3 ] || [ -z "${MORE[*]}" ] || all+=(more-3 more-4)
    # shellcheck disable=SC2046 # numbers, a word each
    sum $(for job in "${all[@]}"; do mbits "$1" "$job" 128; done)
}

# see NAME WAY TOLERANCE WEIGHT...: prints the table of a direction; sets TOTAL to the Mbit/s of all.
see() {
    local name=$1 way=$2 tolerance=$3 host rows=() all=()
    shift 3
    for host in 1 2 3; do
        all+=("$(got "$name" "$way" $host)")
        rows+=("${CLASSES[host]}-$way ${!host} ${all[-1]}")
    done
    TOTAL=$(sum "${all[@]}")
    UNIT=Mbit/s shares "$tolerance" "${rows[@]}"
}

step "without classes"
load plain
PLAIN=()
for way in "${WAYS[@]}"; do
    see plain "$way" 1000 1 1 1
    PLAIN+=("$TOTAL")
done

step "classes"
network_qos --enabled on
# classes: says whether each direction is shared, and whether as much is carried as without. Over TCP that
# holds of each direction; over RDMA of both together: without classes soft RoCE leaves writes more than half.
classes() {
    # R2Ts wait behind answers: without classes writes have half of what reads have.
    local code=0 at least=70 totals=()
    ! over rdma || least=60
    load classes
    for at in "${!WAYS[@]}"; do
        see classes "${WAYS[at]}" 12 "${WEIGHTS[@]:1}" || code=1
        over rdma || nearly "the total, for that without" "$TOTAL" "${PLAIN[at]}" 85 || code=1
        totals+=("$TOTAL")
    done
    nearly "all, for that without" "$(sum "${totals[@]}")" "$(sum "${PLAIN[@]}")" 85 || code=1
    [ ${#totals[@]} = 1 ] || nearly "writes, for reads" "${totals[1]}" "${totals[0]}" $least || code=1
    return $code
}
classes
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
pass
