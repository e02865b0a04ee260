#!/bin/bash
# churn.sh BINARIES: measures I/O while volumes come and go: the daemon on one core, the load and the
# changes on another. There are NAMESPACES (10000) namespaces of null in subsystems of 100, and one
# that is read: 4 KiB at depth 32, and beside it by another host at depth 1, whose longest wait is the
# longest that a reactor stood still. Runs without changes and with RATE (1000) changes a minute take
# turns: a namespace comes, another goes; and each 20th change is a setting of all (`qos set`).
# ROUNDS (3) and TIME (10s) set how often and how long. STATE=1 keeps the changes in a file.
set -euo pipefail
ROUNDS=${ROUNDS:-3} TIME=${TIME:-10s} NAMESPACES=${NAMESPACES:-10000} RATE=${RATE:-1000}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

{
    target_table churn "${STATE:+state = \"$DIR/state\"}"
    listener 4560
    subsystem
    namespace 1 'backend = "null"' 'size = "1 TiB"'
} >"$DIR/churn.toml"
python3 - "$NAMESPACES" >>"$DIR/churn.toml" <<END
import sys
for n in range(int(sys.argv[1])):
    if n % 100 == 0:
        print(f'[[subsystem]]\nnqn = "$NQN-{n // 100}"\nallow_any_host = true')
    print(f'[[subsystem.namespace]]\nnsid = {n % 100 + 1}\nbackend = "null"\nsize = "1 GiB"')
END

# changes.py: makes changes, and prints how long each took, in us, by kind.
cat >"$DIR/changes.py" <<'END'
import random, sys, time
from lib import Control
path, nqn, subsystems, rate, seconds = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
control = Control(path)
def call(method, **params):
    start = time.perf_counter()
    result = control.call(method, **params)
    print(method, f"{(time.perf_counter() - start) * 1e6:.0f}")
    return result
random.seed(1)
here, n, end = [], 0, time.monotonic() + seconds
while time.monotonic() < end:
    n += 1
    due = time.monotonic() + 60 / rate
    if n % 20 == 0:
        call("qos.set", burst=random.choice([2, 4, 8]))
    elif n % 2 and len(here) < 1000 or not here:
        to = f"{nqn}-{random.randrange(int(subsystems))}"
        here.append((to, call("namespace.add", subsystem=to, backend="null", size="1 GiB")["nsid"]))
    else:
        of, nsid = here.pop(random.randrange(len(here)))
        call("namespace.remove", subsystem=of, nsid=nsid)
    time.sleep(max(0, due - time.monotonic()))
END

start churn

reads() { WARMUP=500ms load 4560 --job name=reads,depth=32 --job name=one,depth=1; }

changes() { exec taskset -c 1 python3 "$DIR/changes.py" "$DIR/churn.sock" $NQN $((NAMESPACES / 100)) "$RATE" $((${TIME%s} + 1)); }

(changes) > "$DIR/took.idle"
for round in $(seq "$ROUNDS"); do
    reads > "$DIR/without.$round"
    (changes) > "$DIR/took.$round" &
    CHANGES=$!
    reads > "$DIR/with.$round"
    wait $CHANGES
done

python3 - "$DIR" "$ROUNDS" "$NAMESPACES" "$RATE" <<'END'
import json, statistics, sys
from lib import Control, pairs
folder, rounds = sys.argv[1], range(1, int(sys.argv[2]) + 1)
def job(which, name):
    found = [json.load(open(f"{folder}/{which}.{n}"))["jobs"] for n in rounds]
    return [next(j["reads"] for j in jobs if j["name"] == name) for jobs in found]
print(f"{sys.argv[3]} namespaces, {sys.argv[4]} changes a minute, {len(rounds)} pairs\n")
print("| | without changes | with changes |\n|---|---|---|")
iops = {which: [j["iops"] for j in job(which, "reads")] for which in ("without", "with")}
print("| 4 KiB reads at depth 32, IOPS | {:,.0f} | {:,.0f} |".format(*map(statistics.median, iops.values())))
for what, key in (("p99", "p99_ns"), ("p99.9", "p999_ns"), ("longest", "max_ns")):
    values = [statistics.median(j[key] for j in job(which, "one")) / 1000 for which in iops]
    print("| a read at depth 1, {}, us | {:,.0f} | {:,.0f} |".format(what, *values))
ratios = [b / a for a, b in zip(*iops.values())]
print(f"\nthroughput with changes, of that without: {pairs(ratios)}\n")
print("| change | | number | p50, us | p99, us | longest, us |\n|---|---|---|---|---|---|")
for when, files in (("no I/O", ["idle"]), ("both cores busy", rounds)):
    took = {}
    for n in files:
        for line in open(f"{folder}/took.{n}"):
            kind, us = line.split()
            took.setdefault(kind, []).append(int(us))
    for kind, all in sorted(took.items()):
        all.sort()
        print(f"| `{kind}` | {when} | {len(all)} | {all[len(all) // 2]:,} | {all[len(all) * 99 // 100]:,} | {all[-1]:,} |")
changes = Control(f"{folder}/churn.sock").changes()
ends = changes["buckets"]
turns = sum(count for _, count in ends)
print(f"\nCPU time of the reactor for changes in one turn: p50 {changes['p50'] / 1000:,.1f} us,"
    f" p99 {changes['p99'] / 1000:,.1f} us, longest {ends[-1][0] / 1000:,.1f} us, of {turns:,} turns;"
    f" {sum(count for end, count in ends if end > 100_000):,} took longer than 100 us")
END
