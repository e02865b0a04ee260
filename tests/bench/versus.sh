#!/bin/bash
# versus.sh BINARIES OTHER [LOAD...]: compares two builds of the daemon side by side on one core, with
# the load on another one, in turns: the ratios of their rates and of their CPU time for each command.
# OTHER is a folder with the sluiced of another build, for instance of a commit before:
#   git worktree add /tmp/before COMMIT && cd /tmp/before && cargo build --release -p sluiced
# A LOAD is what `sluice bench` takes; namespace 1 is null, namespace 2 in memory; namespace 3 is there
# where DISKS names two files or block devices of one kind, one for each daemon. ROUNDS (9) and TIME
# (300ms) set how often and how long; SETTINGS is a line of [target] for the first daemon, which the
# other one may not know. As root, daemons and load run with real-time priority, which a busy machine
# disturbs less.
set -euo pipefail
ROUNDS=${ROUNDS:-9} TIME=${TIME:-300ms}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
OTHER=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- "--depth 128" "--rw randwrite --depth 128" "--depth 1" "--rw randwrite --depth 1" \
    "--rw read --bs 128k --depth 8" "--rw write --bs 128k --depth 8" "--rw write --bs 128k --depth 8 --nsid 2"
first=()
[ "$(id -u)" != 0 ] || first=(chrt -f 1)

# daemon NAME PORT FOLDER [DISK]: starts the daemon of a folder; its process is in $PID.
daemon() {
    {
        target_table "$1" 'poll = "never"' 'max_queues = 1024' "$([ "$1" = other ] || echo "${SETTINGS:-}")"
        listener "$2"
        subsystem
        namespace 1 'backend = "null"' 'size = "16 GiB"'
        namespace 2 'backend = "memory"' 'size = "64 MiB"'
        [ -z "${4:-}" ] || namespace 3 'backend = "file"' "path = \"$4\""
    } >"$DIR/$1.toml"
    SLUICED=$3/sluiced start "$1" "${first[@]}"
}

read -r disk other_disk <<<"${DISKS:-}"
daemon this 4540 "$BIN" "$disk"; this=$PID
daemon other 4541 "$OTHER" "$other_disk"; other=$PID
python3 - "$ROUNDS" "$TIME" "$BIN/sluice" "$NQN" "$this" "$other" "${first[*]}" "$@" <<'END_OF_PYTHON'
import json, statistics, subprocess, sys
from lib import cpu_ns
rounds, time, sluice, nqn, this, other, first, *loads = sys.argv[1:]
daemons = {"this": (this, 4540), "other": (other, 4541)}

print("| load | rate | CPU for a command | rate, ratio (pairs) | CPU, ratio (pairs) |")
print("|---|---|---|---|---|")
for load in loads:
    seen = {name: [] for name in daemons}
    for turn in range(int(rounds)):
        for name in sorted(daemons, reverse=turn % 2 == 0):
            process, port = daemons[name]
            before = cpu_ns(process)
            command = [*first.split(), sluice, "bench", "--json", "--core", "1", "--nqn", nqn,
                       "-a", f"127.0.0.1:{port}", "--time", time, "--warmup", "0s", *load.split()]
            report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            kinds = [job[kind] for job in report["jobs"] for kind in ("reads", "writes") if job[kind]]
            commands = sum(kind["commands"] for kind in kinds)
            seen[name].append((sum(kind["iops"] for kind in kinds), (cpu_ns(process) - before) / commands))
    def of(name, at): return statistics.median(one[at] for one in seen[name])
    def ratio(at):
        ratios = sorted(a[at] / b[at] for a, b in zip(seen["this"], seen["other"]))
        return f"{statistics.median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    print(f"| `{load}` | {of('this', 0):,.0f} and {of('other', 0):,.0f} | {of('this', 1):,.0f} and "
          f"{of('other', 1):,.0f} ns | {ratio(0)} | {ratio(1)} |", flush=True)
END_OF_PYTHON
