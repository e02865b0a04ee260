#!/bin/sh
# Prints what an I/O costs in the engine, and a check in the monitor, in instructions, by callgrind. Needs
# valgrind.
#
# Usage: pmem/benches/instructions.sh
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CARGO_PROFILE_BENCH_DEBUG=line-tables-only \
    cargo bench -q -p pmem --bench cost --no-run --message-format=json >"$work/built"
bench=$(sed -n 's/.*"executable":"\([^"]*\/cost-[^"]*\)".*/\1/p' "$work/built" | tail -1)

# counted FUNCTION WHAT...: the instructions of a run in a function.
counted() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" --toggle-collect="*Scene::$1" \
        "$bench" "$2" "$3" ${4:+"$4"} 2>"$work/log"
    awk '/^(summary|totals):/ { n = $2 } END { printf "%d", n }' "$work/out"
}
# ios WHAT, checks CLIENTS: the instructions of one, by the difference of two runs.
ios() { echo $((($(counted ios "$1" 24000) - $(counted ios "$1" 4000)) / 20000)); }
checks() { echo $((($(counted checks checks "$1" 240) - $(counted checks checks "$1" 40)) / 200)); }

echo "engine, an I/O with reserved tokens: $(ios reserved) instructions"
echo "engine, an I/O with global tokens: $(ios global) instructions"
for clients in 10 100 1000; do
    echo "monitor, a check of $clients clients: $(checks $clients) instructions"
done
