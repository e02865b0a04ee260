#!/bin/sh
# Prints what a command costs in the core, over TCP beside RDMA, in instructions, by callgrind: without
# system calls, without devices, and without moving its data. Needs valgrind.
#
# Usage: target/core/benches/instructions.sh
set -eu
cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CARGO_PROFILE_BENCH_DEBUG=line-tables-only \
    cargo bench -q -p sluice-core --features testing --bench command --no-run --message-format=json >"$work/built"
bench=$(sed -n 's/.*"executable":"\([^"]*\/command-[^"]*\)".*/\1/p' "$work/built" | tail -1)

# counted LOAD COMMANDS: the instructions of so many commands.
counted() {
    # shellcheck disable=SC2086
    valgrind --tool=callgrind --callgrind-out-file="$work/out" --toggle-collect="*Rig*::counted_turn" \
        "$bench" $1 "$2" >"$work/log" 2>&1
    awk '/^(summary|totals):/ { n = $2 } END { printf "%d", n }' "$work/out"
}

# of LOAD: the instructions of one command, by the difference of two runs.
of() { echo $((($(counted "$1" 1600) - $(counted "$1" 320)) / 1280)); }

echo "| device | command | TCP, depth 1 | RDMA, depth 1 | TCP, depth 32 | RDMA, depth 32 |"
echo "|---|---|---:|---:|---:|---:|"
for device in memory queued; do
    for bytes in 4096 131072; do
        for operation in read write; do
            row="| $device | $operation of $((bytes / 1024)) KiB |"
            for depth in 1 32; do
                for transport in tcp rdma; do
                    row="$row $(of "$transport $device $operation $bytes $depth") |"
                done
            done
            echo "$row"
        done
    done
done
