#!/bin/bash
# removal.sh BINARIES: what a reactor spends in one turn on a change where much hangs on it: 300
# connections with 64 commands each wait for 300 slow namespaces of one subsystem. Settings change,
# 99 namespaces are removed one by one, then the subsystem with the rest.
set -euo pipefail
BIN=$(realpath "$1") DIR=$(mktemp -d) NQN=nqn.2026-01.io.sluicegate:bench
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$DIR"' EXIT
ulimit -n 4096

{
    printf '[target]\ncores = [0]\ncontrol = "%s/control"\n' "$DIR"
    printf '[[listener]]\naddress = "127.0.0.1:4562"\n'
    printf '[[subsystem]]\nnqn = "%s"\nallow_any_host = true\n' $NQN
    for nsid in $(seq 300); do
        printf '[[subsystem.namespace]]\nnsid = %s\nbackend = "null"\nsize = "1 GiB"\n' "$nsid"
        printf 'service_time = "1 ms"\nchannels = 8\n'
    done
} >"$DIR/removal.toml"
"$BIN/sluiced" --log-level error --config "$DIR/removal.toml" &
until "$BIN/sluice" --socket "$DIR/control" status >/dev/null 2>&1; do sleep 0.2; done

for host in 0 1 2 3 4; do
    jobs=()
    for nsid in $(seq $((host * 60 + 1)) $((host * 60 + 60))); do
        jobs+=(--job "name=j$nsid,nsid=$nsid,depth=64")
    done
    "$BIN/sluice" bench --core 1 --nqn $NQN -a 127.0.0.1:4562 --time 30s --warmup 1s "${jobs[@]}" \
        --hostnqn nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-00000000000$host >/dev/null 2>&1 &
done
until [ "$("$BIN/sluice" --socket "$DIR/control" connections --json | grep -o '"queue"' | wc -l)" -ge 305 ]; do sleep 0.2; done
sleep 2

python3 - "$DIR/control" $NQN <<'END'
import json, socket, sys, time
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
lines = control.makefile("rw")
def call(method, **params):
    lines.write(json.dumps({"id": 1, "method": method, "params": params}) + "\n")
    lines.flush()
    answer = json.loads(lines.readline())
    assert "result" in answer, answer
    return answer["result"]
seen = {}
def show(what):
    time.sleep(0.3) # until the reactor is through
    (reactor,) = call("statistics", buckets=True)["reactors"]
    buckets = reactor["changes_ns"]["buckets"]
    turns = {end: count - seen.get(end, 0) for end, count in zip(buckets[::2], buckets[1::2])}
    seen.update(zip(buckets[::2], buckets[1::2]))
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
