#!/bin/bash
# The host of `sluice bench` over verbs: verified data, and a host that sends each command as soon as it
# may, which must find a receive buffer each time.
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 128 4096
namespace null 1024 4096
target_start

# bench ARGUMENTS...: runs it on the target.
bench() { timeout 120 /run/bin/sluice bench -t rdma -a $TARGET_IP:4420 -n $T1 --warmup 0s "$@"; }
# not_ready: prints how often hosts found no receive buffer.
not_ready() { in_target rdma statistic show link rdma_target/1 | sed -n 's/.*send_rnr_err \([0-9]*\).*/\1/p'; }

step "verified data"
for load in "--rw randrw --depth 32" "--rw randrw --bs 128k --depth 8 --connections 3"; do
    # shellcheck disable=SC2086
    out=$(bench --time 1s --verify --span 8m $load 2>&1) || fail "sluice bench $load: $out"
    contains "sluice bench $load" "$out" 'every byte of .* is right'
done

step "commands as fast as they are answered"
[ -n "$(not_ready)" ] || fail "the device does not count: $(in_target rdma statistic show)"
for load in "--depth 2" "--depth 32" "--depth 128 --connections 4" "--rw randwrite --depth 32"; do
    # shellcheck disable=SC2086
    out=$(bench --nsid 2 --time 2s $load 2>&1) || fail "sluice bench $load: $out"
    echo "$load: $out"
done
same "hosts that found no receive buffer" "$(not_ready)" 0

step "a host that is killed in the middle of its load"
(bench --time 60s --depth 32 || true) >/dev/null 2>&1 &
host=$!
sleep 1
pkill -9 -x sluice || true
wait $host || true
none() { [ "$(target_controllers)" = 0 ]; }
eventually 15 none || fail "controllers of a host that is gone: $(target_controllers)"
buffers() { [ "$(sluice status --json | grep -oE '"buffer_used": *[0-9]+' | grep -vc ': *0$')" = 0 ]; }
eventually 5 buffers || fail "buffers are in use"
pass
