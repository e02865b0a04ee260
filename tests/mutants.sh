#!/usr/bin/env bash
# Breaks the code in one place after the other, and prints which tests notice: the share of mutants
# that is caught, and those that are not. Works on a copy of the source; mutants.py says how.
#
# usage: mutants.sh [PART...]
#   PART    core, arbitration, link, fabric or rdma; without one, all five. core-alone is core without the
#           worlds, which take long
#   SHARD   k/n: only each n-th mutant of a part, from the k-th (counted from 0)
#   FILES   only mutants of these files: globs, as cargo mutants --file takes them
#   AGAIN   1: only those that survived the last run of the part
#   SECONDS_OF_WORLDS  how long fresh seeds of sluice-world are tried against one mutant (3)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_TARGET_DIR=$PWD/build/mutants/build
# A world that breaks is noticed: the smallest one that does is not looked for.
export SIMULATE_SECONDS=${SECONDS_OF_WORLDS:-3} SHRINK=0
[ $# -gt 0 ] || set -- core arbitration link fabric rdma

# The crates whose tests have to notice the mutants of a part: the first one has the mutants.
crates() {
    case $1 in
    core) echo sluice-core sluice-world ;;
    core-alone) echo sluice-core ;;
    arbitration) echo arbitration ;;
    link) echo qtcp ;;
    fabric | rdma) echo fabric ;;
    *)
        echo "mutants.sh: no part is called $1: core, core-alone, arbitration, link, fabric, rdma" >&2
        exit 2
        ;;
    esac
}

# The files of a part. Models for shuttle are tests, which are not compiled here.
files() {
    case $1 in
    core | core-alone) echo --file 'target/core/src/**' ;;
    arbitration) echo --file 'arbitration/src/**' --exclude '**/interleavings.rs' ;;
    link) echo --file 'qtcp/src/link/**' --exclude '**/*tests.rs' ;;
    fabric) echo --file 'fabric/src/tcp/**' --file 'fabric/src/controller/**' ;;
    rdma) echo --file 'fabric/src/rdma/wire/**' ;;
    esac
}

# survivors_of NAMES LIST: leaves only mutants of these names in a list, wherever their lines are now.
survivors_of() {
    python3 - "$@" <<'PYTHON'
import json
import re
import sys

place = re.compile(r":\d+:\d+:")
names = {place.sub("", name) for name in sys.argv[1].splitlines()}
with open(sys.argv[2]) as listed:
    mutants = json.load(listed)
with open(sys.argv[2], "w") as left:
    json.dump([one for one in mutants if place.sub("", one["name"]) in names], left)
PYTHON
}

# lines FILE...: prints the number of lines.
lines() {
    cat "$@" | wc -l
}

caught=0 missed=0 unviable=0 untried=0 survivors=()
for part; do
    tests=$(crates "$part")
    out=build/mutants/$part
    before=
    if [ "${AGAIN:-}" = 1 ]; then before=$(cat "$out/missed.txt" "$out/unreached.txt"); fi
    rm -rf "$out"
    mkdir -p "$out/tree"
    git ls-files -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C "$out/tree"
    set -f
    chosen=($(files "$part"))
    if [ -n "${FILES:-}" ]; then
        chosen=()
        for file in $FILES; do chosen+=(--file "$file"); done
    fi
    [ -z "${SHARD:-}" ] || chosen+=(--shard "$SHARD" --sharding round-robin)
    cargo mutants --dir "$out/tree" --list --json --package "${tests%% *}" "${chosen[@]}" >"$out/list.json"
    [ -z "$before" ] || survivors_of "$before" "$out/list.json"
    python3 tests/mutants.py "$out/list.json" "$out/tree" "$out" $tests
    set +f
    caught=$((caught + $(lines "$out/caught.txt")))
    missed=$((missed + $(lines "$out/missed.txt" "$out/unreached.txt")))
    unviable=$((unviable + $(lines "$out/unviable.txt")))
    untried=$((untried + $(lines "$out/untried.txt")))
    survivors+=("$out/missed.txt" "$out/unreached.txt")
done
echo
for list in "${survivors[@]}"; do sed 's/^/survived: /' "$list"; done
tried=$((caught + missed))
[ "$tried" -gt 0 ] || { echo "no mutants here"; exit 0; }
echo "$caught of $tried mutants caught: $((caught * 1000 / tried / 10)).$((caught * 1000 / tried % 10)) %" \
    "($unviable more did not compile, $untried were not tried)"
