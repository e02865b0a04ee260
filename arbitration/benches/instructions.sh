#!/bin/sh
# Prints what a command costs in the arbiter in instructions, by callgrind: for numbers of
# sessions (rows) and of commands queued (columns). Needs valgrind.
#
# Usage: arbitration/benches/instructions.sh ["SESSIONS..." ["QUEUED..."]]
set -eu
cd "$(dirname "$0")/../.."
sessions=${1:-1 10 100 1000}
queued=${2:-0 64 1000 10000 100000}
times=4000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CARGO_PROFILE_BENCH_DEBUG=line-tables-only \
    cargo bench -q -p arbitration --bench cost --no-run --message-format=json >"$work/built"
bench=$(sed -n 's/.*"executable":"\([^"]*\/cost-[^"]*\)".*/\1/p' "$work/built" | tail -1)

# instructions WHAT SESSIONS QUEUED: for one command.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" \
        --toggle-collect="*Scene::$1" "$bench" "$1" "$2" "$3" "$times" 2>"$work/log"
    awk -v times="$times" '/^(summary|totals):/ { n = $2 } END { printf "%d", n / times }' "$work/out"
}

nothing=$(instructions nothing 10 0)
echo "instructions for one command to be enqueued, dispatched and completed"
echo "(the benchmark's own $nothing are taken off)"
echo
printf 'sessions \\ queued '
for q in $queued; do printf '%9s' "$q"; done
echo
for s in $sessions; do
    printf '%17s ' "$s"
    for q in $queued; do printf '%9s' "$(($(instructions turns "$s" "$q") - nothing))"; done
    echo
done
echo "pass and complete: $(instructions passes 1 0) instructions (1 session)"
