#!/bin/bash
# Bulk flows of weights 3:2:1 through the bottleneck of net.sh, for each base of congestion control
# without and with control, in turns; a line for each run. As root, in this kernel or in a user-mode
# one.
#
# usage: rounds.sh BINARY bpf|red WHERE ROUNDS SECONDS BASE...
set -uo pipefail
binary=$1 kind=$2 where=$3 rounds=$4 seconds=$5
shift 5
. "$(dirname "${BASH_SOURCE[0]}")/net.sh"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; net_down; rm -rf "$work"' EXIT
net_up
"bottleneck_$kind"

port=9000
one() { # BASE [OPTIONS FOR send]
    local base=$1 sink watch
    shift
    port=$((port + 1))
    ip netns exec ${NS}c "$binary" sink $SENDER:$port --base "$base" &
    sink=$!
    queue_watch "$work/queue" &
    watch=$!
    ip netns exec ${NS}s timeout $((seconds + 20)) "$binary" send --listen $SENDER:$port --base "$base" \
        --seconds "$seconds" "$@" >"$work/result"
    kill $watch $sink 2>/dev/null
    wait $watch $sink 2>/dev/null
    # What was there while the flows settled (3 s) is not counted.
    echo "where=$where rate=$RATE $(cat "$work/result") queue=$(awk 'NR > 25 { sum += $1; n++ } END { printf "%.1f", sum / (n ? n : 1) / 1000 }' "$work/queue")"
}

for round in $(seq "$rounds"); do
    for base in "$@"; do
        one "$base"
        one "$base" --control
        [ "$base" != sluice_window ] || one "$base" --control --eq5 --interval 1000
    done
done
