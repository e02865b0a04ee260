#!/bin/bash
# Urgent is not held back, and its packets carry its DSCP: beside High and Low on a full link its host
# has as much as with plain dctcp, and the others share the rest.
# kernel: nvme_core.multipath=N ncpus=1
. /run/scenarios/qtcp-lib.sh
qtcp_boot
# Long enough for what is looked at meanwhile, on a slow machine too.
TIME=30
# Over RDMA Urgent is a queue pair that nobody bounds: beside it the link is never at rest.
if over rdma; then TOLERANCE=12; else TOLERANCE=5; fi
three_hosts urgent high low

# load NAME WEIGHT_OF_HIGH LOW: prints the shares of High and Low among themselves; sets URGENT to the
# Mbit/s of Urgent.
load() {
    local name=$1 fio watch host eyes=()
    fio_hosts "$name" $TIME "urgent ${DISKS[1]} 8 bs=128k" "high ${DISKS[2]} 8 bs=128k" "low ${DISKS[3]} 8 bs=128k" &
    fio=$!
    sleep 2
    watch_link "$name"
    watch=$!
    sleep 2
    # While there is load: what comes after it is the admin queue's, which is not marked.
    for host in 1 2 3; do
        TRANSPORT=$(transport_of $host) TARGET_IP=$(target_of $host) \
            dscp $((4419 + host)) "$(home $host)" >/tmp/dscp.$host &
        eyes+=($!)
    done
    wait "${eyes[@]}" || fail "the DSCP"
    LIMITS=$(for host in 1 2 3; do flow $host out limit; done | paste -sd' ')
    kill -0 $fio || fail "the load ended before all was seen"
    MARKS=$(cat /tmp/dscp.? | paste -sd' ')
    kill $watch
    wait $fio || fail "fio"
    URGENT=$(mbits "$name" urgent 128)
    printf '    %-20s %8.1f\n' urgent "$URGENT"
    link_shares "$name" read $TOLERANCE "high $2 2 $(mbits "$name" high 128)" "low $3 3 $(mbits "$name" low 128)"
}

step "plain dctcp"
three_times load plain 1 1
plain=$URGENT

step "classes"
network_qos --enabled on
classes() { load classes 3 1 && nearly "Urgent, for what it has with plain dctcp" "$URGENT" "$plain" 95; }
three_times classes
echo "    limits of Urgent, High, Low in bit/s: $LIMITS"
same "the limit of Urgent" "${LIMITS%% *}" null
same "DSCP of Urgent, High, Low" "$MARKS" "46 34 8"
pass
