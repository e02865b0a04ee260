#!/bin/bash
# removal.sh BINARIES: measures the CPU time that a reactor spends in one turn on a change that concerns
# much: 300 connections with 64 commands each wait for 300 slow namespaces of one subsystem. Settings
# change, 99 namespaces are removed one by one, then the subsystem with the rest.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
ulimit -n 4096

{
    target_table removal
    listener 4562
    subsystem
    for nsid in $(seq 300); do
        namespace "$nsid" 'backend = "null"' 'size = "1 GiB"' 'service_time = "1 ms"' 'channels = 8'
    done
} >"$DIR/removal.toml"
LOG_LEVEL=error start removal

for host in 0 1 2 3 4; do
    jobs=()
    for nsid in $(seq $((host * 60 + 1)) $((host * 60 + 60))); do
        jobs+=(--job "name=j$nsid,nsid=$nsid,depth=64")
    done
    "$BIN/sluice" bench --core 1 --nqn "$NQN" -a 127.0.0.1:4562 --time 30s --warmup 1s "${jobs[@]}" \
        --hostnqn nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-00000000000$host >/dev/null 2>&1 &
done
until [ "$("$BIN/sluice" --socket "$DIR/removal.sock" connections --json | grep -o '"queue"' | wc -l)" -ge 305 ]; do sleep 0.2; done
sleep 2

python3 - "$DIR/removal.sock" $NQN <<'END'
import sys, time
from lib import Control
control = Control(sys.argv[1])
call = control.call
seen = {}
def show(what):
    time.sleep(0.3) # until the reactor is through
    buckets = control.changes()["buckets"]
    turns = {end: count - seen.get(end, 0) for end, count in buckets}
    seen.update(buckets)
    ends = sorted(end for end, count in turns.items() for _ in range(count))
    if ends:
        print(f"| {what} | {len(ends)} | {ends[len(ends) // 2] / 1000:.1f} | {ends[-1] / 1000:.1f} |")
print("| changes | turns | p50, us of CPU | longest |\n|---|---|---|---|")
show("earlier")
for n in range(8):
    call("qos.set", enabled=n % 2 == 1)
show("`qos.set --enabled` off and on, 4 times")
for n in range(8):
    call("qos.set", mark=n % 2 == 0)
show("`qos.set --mark` on and off, 4 times")
for nsid in range(1, 100):
    call("namespace.remove", subsystem=sys.argv[2], nsid=nsid, force=True)
show("`namespace.remove` of 99")
call("subsystem.remove", nqn=sys.argv[2], force=True)
show("`subsystem.remove` of the other 201")
END
