#!/bin/bash
# `sluice agent` on the client node (docs/research/sources.md, D6 and F6): four processes of different greed on one node,
# in slices of their own, within the limit of the node's session; a second node of the session; and what is left after
# the agent, or the target, was killed.
# time: virtual
# cpus: 1
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot

LIMIT=40 # MiB/s of the session
listener $TARGET_IP:4420
subsystem $T1 any
slow_disk "2 ms" 64
configure <<END
[[session]]
name = "nodes"
bandwidth = "$LIMIT MiB/s"
[[policy]]
host = "$HOST_NQN"
session = "nodes"
[[policy]]
host = "$OTHER_NQN"
session = "nodes"
END
target_start

mount -t cgroup2 none /sys/fs/cgroup
for slice in small a b c; do mkdir /sys/fs/cgroup/$slice.slice; done

# in_slice SLICE COMMAND...: runs a command in a control group.
in_slice() {
    local slice=$1
    shift
    (
        echo $BASHPID >"/sys/fs/cgroup/$slice.slice/cgroup.procs"
        exec "$@"
    )
}

# load NAME SECONDS RAMP: four processes at once, each in its slice, for both times; the ramp does not count. fio_got
# NAME-SLICE has the results.
load() {
    local name=$1 seconds=$2 job processes=()
    RAMP=$3
    fio_jobs "$name-small" "$seconds" "small $DISK 1 bs=4k"
    fio_jobs "$name-a" "$seconds" "a $DISK 8 bs=64k"
    fio_jobs "$name-b" "$seconds" "b $DISK 64 bs=64k"
    fio_jobs "$name-c" "$seconds" "c $DISK 128 bs=64k"
    for job in small a b c; do
        in_slice $job fio --eta=never --aux-path=/tmp --output-format=json \
            --output="/tmp/fio-$name-$job.json" "/tmp/fio-$name-$job.ini" &
        processes+=($!)
    done
    wait "${processes[@]}" || fail "fio $name"
}

# moved: prints the bytes that each slice has read, small first.
moved() {
    local slice
    for slice in small a b c; do
        echo "$slice $(sed -n 's/.*rbytes=\([0-9]*\).*/\1/p' /sys/fs/cgroup/$slice.slice/io.stat)"
    done
}

# mibs NAME JOB: prints the MiB/s of 64 KiB commands of a job.
mibs() { fio_got "$1-$2" "$2" | awk '{ printf "%.2f\n", $1 / 16 }'; }

step "the target's limit alone"
connect $T1
DISK=$(disk $T1 1)
load alone 6 2
read -r rate_before _ p99_before _ p50_before < <(fio_got alone-small small)
echo "small process: $rate_before/s, p50 $p50_before us, p99 $p99_before us"

step "with the agent"
/run/bin/sluice agent >/run/figures/agent.log 2>&1 &
AGENT=$!
sleep 1
load agent 8 7 &
LOAD=$!
# What the processes had sent before the limits has drained by then.
sleep 8
moved >/tmp/before
sleep 6
moved >/tmp/after
wait $LOAD
read -r rate _ p99 _ p50 < <(fio_got agent-small small)
echo "small process: $rate/s, p50 $p50 us, p99 $p99 us"
# The kernel throttles in slices of 100 ms, so that the slowest commands of a small process wait for one or two of them.
perl -e "exit !($rate >= 4 * $rate_before)" || fail "$rate/s of the small process, and $rate_before/s without the agent"
[ "$p50" -le $((p50_before / 4)) ] || fail "a median of $p50 us, and $p50_before us without the agent"
[ "$p99" -le "$p99_before" ] || fail "p99 of the small process is $p99 us, and $p99_before us without the agent"
total=0 small=0
while read -r slice from to; do
    have=$(perl -e "printf '%.2f', ($to - $from) / 6 / (1 << 20)")
    echo "$slice: $have MiB/s"
    total=$(perl -e "print $total + $have")
    case $slice in
    small) small=$have ;;
    # An equal part of what the small process leaves.
    *) within 12 "share of $slice" "$have" "$(perl -e "print (($LIMIT - $small) / 3)")" ;;
    esac
done < <(paste -d' ' /tmp/before <(cut -d' ' -f2 /tmp/after))
perl -e "exit !($total <= 1.02 * $LIMIT && $total >= 0.9 * $LIMIT)" ||
    fail "$total MiB/s, and the node's credits are $LIMIT MiB/s"

step "the agent undoes what it set"
grep -l "rbps=[0-9]" /sys/fs/cgroup/*/io.max >/dev/null || fail "no limits were set"
kill $AGENT
wait $AGENT || fail "the agent ended with an error: $(cat /run/figures/agent.log)"
! grep -h "bps=[0-9]" /sys/fs/cgroup/*/io.max || fail "limits are left"

step "an agent that was killed"
/run/bin/sluice agent >>/run/figures/agent.log 2>&1 &
AGENT=$!
sleep 2
load killed 3 1 &
LOAD=$!
sleep 3
kill -9 $AGENT
wait $LOAD
grep -l "rbps=[0-9]" /sys/fs/cgroup/*/io.max >/dev/null || fail "no limits were set before"
/run/bin/sluice agent undo
! grep -h "bps=[0-9]" /sys/fs/cgroup/*/io.max || fail "limits are left"

step "a target that was killed"
/run/bin/sluice agent >>/run/figures/agent.log 2>&1 &
AGENT=$!
sleep 2
target_kill
sleep 4
! grep -h "bps=[0-9]" /sys/fs/cgroup/*/io.max || fail "limits outlive the target"
target_start
eventually 20 controller_live $T1 || fail "the host does not come back"
load again 2 1
have=$(mibs again b)
echo "b: $have MiB/s"
kill $AGENT
wait $AGENT || fail "the agent ended with an error"
disconnect $T1
pass
