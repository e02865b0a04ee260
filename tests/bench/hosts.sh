#!/bin/bash
# hosts.sh BINARIES [LOAD...]: measures the daemon on one core with both kinds of hosts on another: rates, the daemon's
# CPU time for each command, and how many system calls, receives and sends of the daemon a command takes. A LOAD is
# what `sluice bench` takes; namespace 1 is null, namespace 2 in memory. ROUNDS (5) and TIME (500ms) set how often and
# how long. `sluice bench floor` measures the same messages without a target.
set -euo pipefail
ROUNDS=${ROUNDS:-5} TIME=${TIME:-500ms}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
shift
[ $# -gt 0 ] || set -- "--depth 1" "--depth 8" "--depth 32" "--depth 128" "--rw randwrite --depth 128" \
    "--depth 128 --nsid 2" "--rw read --bs 128k --depth 16" "--rw write --bs 128k --depth 16" \
    "--rw write --bs 128k --depth 16 --nsid 2" "--connections 16 --depth 16"
{
    target_table hosts "metrics = \"127.0.0.1:4549\"" "${SETTINGS:-}"
    listener 4542
    subsystem
    namespace 1 'backend = "null"' 'size = "16 GiB"'
    namespace 2 'backend = "memory"' 'size = "64 MiB"'
} >"$DIR/hosts.toml"
start hosts
load 4542 --rw write --bs 1m --depth 4 --nsid 2 --destroy >/dev/null
python3 - "$ROUNDS" "$TIME" "$BIN/sluice" "$NQN" "$PID" "$@" <<'END_OF_PYTHON'
import json, statistics, subprocess, sys, urllib.request
from lib import cpu_ns
rounds, time, sluice, nqn, process, *loads = sys.argv[1:]
COUNTS = ["system_calls", "receives", "received_bytes", "sends", "sent_bytes"]

def counts():
    """The daemon's CPU time in ns, and the counters of its reactor."""
    text = urllib.request.urlopen("http://127.0.0.1:4549/metrics").read().decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    metric = lambda name: float(lines.get(f'sluicegate_reactor_{name}_total{{core="0"}}', 0))
    return [cpu_ns(process), *map(metric, COUNTS)]

print("| load | host | rate | mean | CPU for a command | system calls | bytes a receive | commands a send | bytes a send |")
print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
for load in loads:
    for host in ("batching", "plain"):
        rows = []
        for _ in range(int(rounds)):
            before = counts()
            command = [sluice, "bench", "--json", "--core", "1", "--nqn", nqn, "-a", "127.0.0.1:4542", "--time", time,
                       "--warmup", "0s", "--destroy", "--host", host, *load.split()]
            report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            cpu, calls, receives, received, sends, sent = (b - a for a, b in zip(before, counts()))
            kinds = [job[kind] for job in report["jobs"] for kind in ("reads", "writes") if job[kind]]
            commands = sum(kind["commands"] for kind in kinds)
            rows.append((sum(kind["iops"] for kind in kinds), kinds[0]["mean_ns"] / 1000, cpu / commands, calls / commands,
                         received / max(receives, 1), commands / max(sends, 1), sent / max(sends, 1)))
        rate, mean, cpu, calls, receive, answers, send = map(statistics.median, zip(*rows))
        print(f"| `{load}` | {host} | {rate:,.0f} | {mean:,.1f} us | {cpu:,.0f} ns | {calls:.3f} | {receive:,.0f} | "
              f"{answers:.2f} | {send:,.0f} |", flush=True)
END_OF_PYTHON
