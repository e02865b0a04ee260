#!/bin/bash
# Reads of persistent memory beside bulk storage on one link (docs/research/sources.md, E12): a client of a region by
# one-sided RDMA, whose packets have Urgent's DSCP both ways, and two hosts that read all they can by TCP.
# Alone; beside the bulk on a router with one queue; beside it with a queue for DSCP 46 that is served first,
# and the network's part of quality of service on.
# time: virtual
# kernel: nvme_core.multipath=N
RDMA_HOSTS="1"
LINK=100 MTU=1500 THRESHOLD=120000
. /run/scenarios/qtcp-lib.sh
qos_boot
cat <<END | configure
[pmem]
address = "$(target_of 1):4430"
capacity = 100000
io_size = "16 KiB"

[[region]]
name = "log"
size = "16 MiB"
hosts = ["nqn.2026-01.io.sluicegate:client"]
END
three_hosts urgent low low

# pm NAME: reads 16 KiB at a time, one read after the other; sets P50 and P99, in us.
pm() {
    timeout 120 /run/bin/sluice bench --blocking -t rdma -a "$(target_of 1):4420" -n $T1 \
        --hostnqn nqn.2026-01.io.sluicegate:client --pmem log --bare --bs 16k --depth 1 \
        --warmup 1s --time 6s --json >"/tmp/pm-$1" 2>&1 || fail "$(cat "/tmp/pm-$1")"
    quantile() { sed -n "s/.*\"p$2_ns\": *\([0-9]*\).*/\1/p" "/tmp/pm-$1" | head -1; }
    P50=$(($(quantile "$1" 50) / 1000)) P99=$(($(quantile "$1" 99) / 1000))
}
# beside NAME: the same beside the bulk; sets BULK, in Mbit/s.
beside() {
    fio_hosts "$1" 11 "bulk ${DISKS[2]} 8 bs=128k" "bulk ${DISKS[3]} 8 bs=128k" &
    local fio=$!
    sleep 3
    pm "$1"
    kill -0 $fio || fail "the load ended before all was seen"
    wait $fio || fail "fio"
    BULK=$(mbits "$1" bulk 128)
}
# priority ROUTER: gives packets with DSCP 46 a queue that is served first. (The kernel has their priority
# from the DSCP: 4, with ECN's bits or without.)
priority() {
    inside "$1" tc qdisc del dev wire parent 1:1 handle 10:
    inside "$1" tc qdisc add dev wire parent 1:1 handle 10: prio bands 2 priomap 1 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1
    marking_queue "$1" 10:2 20:
}

step "alone"
pm alone
alone=$P50
echo "    alone:                     p50 $P50 us, p99 $P99 us"

step "beside bulk, without classes"
beside plain
plain=$P50
echo "    beside bulk, one queue:    p50 $P50 us, p99 $P99 us, bulk $BULK Mbit/s"
[ "$P50" -gt $((alone * 2)) ] || fail "the bulk does not matter: $P50 us beside it, $alone alone"

step "beside bulk, with a queue for Urgent and the network's part on"
for router in r r2; do priority $router; done
network_qos --enabled on
beside classes
echo "    beside bulk, two queues:   p50 $P50 us, p99 $P99 us, bulk $BULK Mbit/s"
# The rest is the packet of the bulk that the link is sending when one of the reader's comes.
[ $(((P50 - alone) * 10)) -le $((plain - alone)) ] || fail "more than a tenth of the wait is left"
[ "${BULK%.*}" -gt $((LINK / 2)) ] || fail "the bulk does not go on: $BULK Mbit/s"
pass
