#!/bin/bash
# Urgent is not held back, and its packets carry its DSCP: beside High and Low on a full link its host
# has as much as with plain dctcp, and the others share the rest.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qtcp-lib.sh
qos_boot
TIME=2
# Over RDMA Urgent is a queue pair that nobody bounds: beside it the link is never at rest.
if over rdma; then TOLERANCE=12; else TOLERANCE=5; fi
three_hosts urgent high low

# jobs: prints what fio_jobs takes for the three hosts.
jobs() { printf '%s\n' "urgent ${DISKS[1]} 8 bs=128k" "high ${DISKS[2]} 8 bs=128k" "low ${DISKS[3]} 8 bs=128k"; }

# load NAME TOLERANCE WEIGHT_OF_HIGH LOW: prints the shares of High and Low among themselves; sets URGENT to the
# Mbit/s of Urgent.
load() {
    local name=$1 fio watch jobs
    mapfile -t jobs < <(jobs)
    fio_hosts "$name" $TIME "${jobs[@]}" &
    fio=$!
    sleep 1
    watch_link "$name"
    watch=$!
    wait $fio || fail "fio"
    kill $watch
    URGENT=$(mbits "$name" urgent 128)
    printf '    %-20s %8.1f\n' urgent "$URGENT"
    link_shares "$name" read "$2" "high $3 2 $(mbits "$name" high 128)" "low $4 3 $(mbits "$name" low 128)"
}

# look: sets MARKS to the DSCP of the hosts' packets, and LIMITS to what their connections may send in
# bit/s. The load lasts until all is seen: what comes without it is the admin queue's, which is not marked.
look() {
    local fio host jobs eyes=()
    mapfile -t jobs < <(jobs)
    fio_jobs look 8 "${jobs[@]}"
    fio --eta=never --aux-path=/tmp --output=/tmp/fio-look.json /tmp/fio-look.ini &
    fio=$!
    sleep 1.5
    for host in 1 2 3; do
        TRANSPORT=$(transport_of $host) TARGET_IP=$(target_of $host) \
            dscp $((4419 + host)) "$(home $host)" >/tmp/dscp.$host &
        eyes+=($!)
    done
    wait "${eyes[@]}" || fail "the DSCP"
    LIMITS=$(for host in 1 2 3; do flow $host out limit; done | paste -sd' ')
    kill $fio || fail "the load ended before all was seen"
    wait $fio || :
    MARKS=$(cat /tmp/dscp.? | paste -sd' ')
}

step "plain dctcp"
# Which share each connection has is the host's.
load plain 40 1 1
plain=$URGENT

step "classes"
network_qos --enabled on
load classes $TOLERANCE 3 1
nearly "Urgent, for what it has with plain dctcp" "$URGENT" "$plain" 95
look
echo "    limits of Urgent, High, Low in bit/s: $LIMITS"
same "the limit of Urgent" "${LIMITS%% *}" null
same "DSCP of Urgent, High, Low" "$MARKS" "46 34 8"
pass
