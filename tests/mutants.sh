#!/usr/bin/env bash
# Breaks the code in one place after the other (cargo-mutants), and prints which tests notice: the
# share of mutants that is caught, and those that are not. Works on a copy of the source.
#
# usage: mutants.sh [PART...]
#   PART    core, arbitration, link or fabric; without one, all four
#   SHARD   k/n: only each n-th mutant of a part, from the k-th (counted from 0)
#   FILES   only mutants of these files: globs, as cargo mutants --file takes them
#   SECONDS_OF_WORLDS  how long fresh seeds of sluice-world are tried against one mutant (3)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
# The copy has a build folder of its own.
unset CARGO_TARGET_DIR
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
# A world that breaks is noticed: the smallest one that does is not looked for.
export SIMULATE_SECONDS=${SECONDS_OF_WORLDS:-3} SHRINK=0
[ $# -gt 0 ] || set -- core arbitration link fabric

# The mutants of a part, and the crates whose tests have to notice them.
options() {
    case $1 in
    core) echo --package sluice-core --test-package sluice-core,sluice-world ;;
    arbitration) echo --package arbitration --test-package arbitration ;;
    link) echo --package qtcp --test-package qtcp --file 'qtcp/src/link/**' \
        --exclude '**/*tests.rs' ;;
    fabric) echo --package fabric --test-package fabric --file 'fabric/src/tcp/**' \
        --file 'fabric/src/controller/**' ;;
    *)
        echo "mutants.sh: no part is called $1: core, arbitration, link, fabric" >&2
        exit 2
        ;;
    esac
}

# lines FILE: how many there are, none where there is no file.
lines() {
    [ -e "$1" ] && wc -l <"$1" || echo 0
}

caught=0 missed=0 unviable=0 survivors=()
for part; do
    out=build/mutants/$part
    rm -rf "$out"
    mkdir -p "$out"
    set -f
    chosen=($(options "$part"))
    if [ -n "${FILES:-}" ]; then
        # These take the place of the part's own.
        chosen=("${chosen[@]:0:4}")
        for file in $FILES; do chosen+=(--file "$file"); done
    fi
    set +f
    [ -z "${SHARD:-}" ] || chosen+=(--shard "$SHARD" --sharding round-robin)
    # A folder called target holds source here: it is copied. Documentation examples, which take
    # long to build, are left out.
    # Time that is too short would count as a mutant that was noticed: where the machine has much to
    # do, the world's tests take a minute, those of other parts 10 seconds.
    patience=60
    [ "$part" != core ] || patience=300
    code=0
    cargo mutants "${chosen[@]}" --copy-target true --output "$out" --minimum-test-timeout $patience \
        --no-shuffle --colors never -- --lib --tests || code=$?
    # 2: some were not noticed; 3: some did not end, which is noticed.
    case $code in 0 | 2 | 3) ;; *) exit "$code" ;; esac
    of=$out/mutants.out
    caught=$((caught + $(lines "$of/caught.txt") + $(lines "$of/timeout.txt")))
    missed=$((missed + $(lines "$of/missed.txt")))
    unviable=$((unviable + $(lines "$of/unviable.txt")))
    survivors+=("$of/missed.txt")
done
echo
for list in "${survivors[@]}"; do sed 's/^/survived: /' "$list"; done
tried=$((caught + missed))
[ "$tried" -gt 0 ] || { echo "no mutants here"; exit 0; }
echo "$caught of $tried mutants caught: $((caught * 1000 / tried / 10)).$((caught * 1000 / tried % 10)) %" \
    "($unviable more did not compile)"
