#!/bin/bash
# The pool of credits of a client node (docs/research/sources.md, D6): three programs of the client library take 16
# operations of the node's session together, in their order; the credits of a killed one return to the others.
# time: virtual
# cpus: 1
# kernel: nvme_core.multipath=N
# shellcheck disable=SC2016 # the expressions in single quotes are perl's
. /run/scenarios/qos-lib.sh
qos_boot

CREDITS=16
listener $TARGET_IP:4420
subsystem $T1 any
slow_disk "8 ms" 64
target_start
sluice qos set --credits $CREDITS >/dev/null
connect $T1
/run/bin/sluice agent --no-cgroups >/run/figures/agent.log 2>&1 &
AGENT=$!
pools() { ls /run/sluice-agent/*.credits; }
eventually 10 pools || fail "no pool"

# bench NAME DEPTH SECONDS: starts a program that takes credits; its report is in /tmp/NAME.json.
bench() {
    /run/bin/sluice bench -a $TARGET_IP:4420 --nqn $T1 --hostnqn $HOST_NQN --credits /run/sluice-agent \
        --rw randread --bs 4k --depth "$2" --time "$3" --warmup 500ms --blocking --json >"/tmp/$1.json" &
}
iops() { perl -MJSON::PP -0777 -ne 'printf "%.0f\n", JSON::PP->new->decode($_)->{jobs}[0]{reads}{iops}' "/tmp/$1.json"; }

# most SECONDS: prints the most commands that the session had at the target in that time.
most() {
    local until=$((SECONDS + $1)) most=0 have
    while [ $SECONDS -lt $until ]; do
        have=$(qos '(grep { !defined $_->{parent} } @{$q->{sessions}})[0]{commands}{used} + class("low")->{waiting}')
        [ "$have" -le $most ] || most=$have
        sleep 0.05
    done
    echo $most
}

step "three programs"
bench small 2 3s
small=$!
bench middle 16 3s
middle=$!
bench large 64 3s
large=$!
sleep 1
have=$(most 2)
wait $small $middle $large
echo "$have commands at the target at most; small $(iops small)/s, middle $(iops middle)/s, large $(iops large)/s"
[ "$have" -le $CREDITS ] || fail "$have commands at the target, and the node has $CREDITS credits"
[ "$have" -ge $((CREDITS - 2)) ] || fail "$have commands at the target: credits stay unused"
within 10 "programs with a backlog share equally" "$(iops large)" "$(iops middle)"
# Without a queue for credits it would have 2 * 125: it waits in turn.
[ "$(iops small)" -ge 180 ] || fail "the small program has $(iops small)/s of 250"

step "a program that is killed"
bench middle 16 6s
middle=$!
bench large 64 6s
large=$!
sleep 2
kill -9 $large
wait $large || true
sleep 2
have=$(most 1)
wait $middle
echo "$have commands at the target"
# Its credits are back, so that the other one has all.
[ "$have" = $CREDITS ] || fail "$have commands at the target of $CREDITS"

step "an agent that is killed"
bench middle 32 6s
middle=$!
sleep 1
kill -9 $AGENT
wait $AGENT || true
# Its credits expire after two seconds, and the program is bounded by the target alone.
sleep 3
have=$(most 1)
wait $middle
echo "$have commands at the target"
[ "$have" -gt $CREDITS ] || fail "$have commands at the target: the program is still held back"
pass
