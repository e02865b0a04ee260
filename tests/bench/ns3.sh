#!/bin/bash
# ns3.sh: measures the simulated network of `sluice sim` beside ns-3 (Debian 12 has 3.37; `make bench-ns3` installs
# it): the same dumbbell (ns3-dumbbell.cc, tools/sim/examples/network_speed.rs), of the same rates, delays, packets, marks
# and flows of DCTCP. The two take turns on one core, CPU (0), ROUNDS (5) times. ns-3 simulates MILLISECONDS (20), and
# ours ten times that, since the time that it takes could not be told otherwise. Prints each run, and the medians
# with their ratio. What has to be built is built first, in build/.
set -euo pipefail
ROUNDS=${ROUNDS:-5} CPU=${CPU:-0} MILLISECONDS=${MILLISECONDS:-20}
cd "$(dirname "$0")/../.."
[ -e /usr/include/ns3/core-module.h ] || {
    echo "ns3.sh: there is no ns-3: install Debian's libns3-dev, or run make bench-ns3" >&2
    exit 1
}
theirs=build/ns3-dumbbell source=tests/bench/ns3-dumbbell.cc
if [ ! "$theirs" -nt "$source" ]; then
    mkdir -p build
    c++ -O2 -std=c++17 -Wall -o "$theirs" "$source" -lns3-core -lns3-network -lns3-internet \
        -lns3-nix-vector-routing -lns3-point-to-point -lns3-traffic-control -lns3-applications
fi
cargo build --quiet --release -p sluice-sim --example network_speed
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for _ in $(seq "$ROUNDS"); do
    echo "ns-3: $(taskset -c "$CPU" "$theirs" "$MILLISECONDS")"
    echo "ours: $(taskset -c "$CPU" build/release/examples/network_speed $((10 * MILLISECONDS)))"
done | tee "$results"
python3 - "$results" <<'END'
import re, statistics, sys
runs = {}
for line in open(sys.argv[1]):
    who, text = line.split(": ", 1)
    number = lambda what: float(re.search(rf"([0-9.]+) {what}", text)[1])
    runs.setdefault(who, []).append([number(r"million hops"), number(r"million events"), number(r"ms of")])
medians = {who: [statistics.median(column) for column in zip(*rows)] for who, rows in runs.items()}
names = ["million hops a second", "million events a second", "simulated ms a second"]
for place, name in enumerate(names):
    ours, theirs = (medians[who][place] for who in ("ours", "ns-3"))
    print(f"{name}: ours {ours:.2f}, ns-3 {theirs:.2f}, {ours / theirs:.0f} times")
END
