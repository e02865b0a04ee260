#!/bin/bash
# inside-rdma-queue-pairs.sh COUNT: the part of `rdma.sh BINARIES queue-pairs COUNT` that runs inside the
# user-mode kernel: the daemon's memory with one queue pair of two entries, and with COUNT; and its CPU time
# while they have nothing to do.
count=$1
. /run/scenarios/lib.sh
boot
ulimit -n 65536
listener $TARGET_IP:4420
subsystem $T1 any
namespace null 1024 4096
sed -i '/^\[target\]/a max_queues = 1024\nmax_address_connections = 2048\nio_memory = "16 MiB"' "$CONFIG"
target_start
connected() { [ "$(sluice connections --json | grep -c '"queue"')" -gt "$1" ]; }
for n in 1 "$count"; do
    timeout 100 /run/bin/sluice bench -t rdma -a $TARGET_IP:4420 -n $T1 --connections "$n" --depth 1 --time 10s \
        --warmup 0s >/tmp/bench.out 2>&1 &
    load=$!
    eventually 60 connected "$n" || fail "$n queue pairs do not connect: $(cat /tmp/bench.out)"
    sleep 1
    echo "$n queue pairs: $(sed -n 's/^\(VmRSS\|VmPin\):\s*/\1 /p' /proc/$DAEMON/status | tr '\n' ' ')"
    wait $load || fail "$(cat /tmp/bench.out)"
done
# ticks: prints the daemon's CPU time so far, in hundredths of a second.
ticks() { perl -lane 'print $F[13] + $F[14]' /proc/$DAEMON/stat; }
for n in 0 "$count"; do
    if [ "$n" -gt 0 ]; then
        # One command a second for all of them together.
        timeout 100 /run/bin/sluice bench -t rdma -a $TARGET_IP:4420 -n $T1 --connections "$n" --depth 1 \
            --rate 1 --time 30s --warmup 0s >/tmp/bench.out 2>&1 &
        load=$!
        eventually 60 connected "$n" || fail "$n queue pairs do not connect: $(cat /tmp/bench.out)"
        sleep 5
    fi
    before=$(ticks)
    sleep 10
    echo "$n idle queue pairs: $(perl -e 'printf "%.2f", ($ARGV[1] - $ARGV[0]) / 10' "$before" "$(ticks)") % of a CPU"
done
pass
