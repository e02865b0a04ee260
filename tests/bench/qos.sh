#!/bin/bash
# qos.sh BINARIES: measures what quality of service costs and gives, natively: the daemon on one core,
# the load on another. Runs with and without it take turns, so that ratios mean something.
#   cost     throughput and CPU time of the daemon for each command, all stages on and off
#   urgent   latency of a few Urgent commands alone, and beside three floods
#   flood    a host at depth 1 beside one with 16 connections at depth 128, with QoS off and on
#   shares   three backlogged classes, with one reactor and with two
# ROUNDS (3) and TIME (2s) set how often and how long.
set -euo pipefail
ROUNDS=${ROUNDS:-3} TIME=${TIME:-2s}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

# daemon NAME PORT CORES QOS NAMESPACE [NETWORK]: starts a daemon; its process is in $PID.
daemon() {
    {
        CORES=$3 target_table "$1"
        printf '[qos]\n%s\n' "$4"
        # The same with the stage off: what differs is not the kernel's congestion control.
        printf '[network]\nenabled = %s\nbase = "reno"\n' "${6:-true}"
        listener "$2"
        listener $(($2 + 1)) 'class = "high"'
        listener $(($2 + 2)) 'class = "medium"'
        subsystem
        namespace 1 "$5"
    } >"$DIR/$1.toml"
    start "$1"
}

# ticks PROCESS: prints the CPU time of a process, in ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# field EXPRESSION: prints a value of the JSON on stdin, where d is all of it and j its jobs by name.
field() {
    python3 -c "
import json, sys
d = json.load(sys.stdin)
j = {job['name']: job['reads'] or job['writes'] for job in d['jobs']}
print($1)"
}

# cost KIND NAMESPACE RW [BYTES DEPTH]: prints the cost of all stages; with bytes and depth, that of
# the network's stage alone. Each round starts both daemons: where their memory lies makes some per
# cent of difference.
cost() {
    local kind=$1 namespace=$2 rw=$3 bs=${4:-4k} depth=${5:-128} n=0 on off which before after iops count
    local qos=$(($# == 3 ? 0 : 1))
    : > "$DIR/cost"
    while [ $n -lt "$ROUNDS" ]; do
        daemon on 4510 "[0]" "enabled = true" "$namespace"; on=$PID
        daemon off 4520 "[0]" "enabled = $([ $qos = 1 ] && echo true || echo false)" "${namespace/on.img/off.img}" false; off=$PID
        for which in "on 4510 $on" "off 4520 $off"; do
            set -- $which
            before=$(ticks "$3")
            read -r iops count <<<"$(load "$2" --rw "$rw" --bs "$bs" --depth "$depth" | field "'{iops:.0f} {commands}'.format(**next(iter(j.values())))")"
            after=$(ticks "$3")
            echo "$1 $iops $(((after - before) * 10000000 / (count * 115 / 100)))" >> "$DIR/cost"
        done
        stop "$on" "$off"
        n=$((n + 1))
    done
    python3 - "$kind, $rw $bs" "$DIR/cost" <<'END'
import statistics, sys
from lib import pairs
rows = [line.split() for line in open(sys.argv[2])]
def of(which, column): return [int(row[column]) for row in rows if row[0] == which]
ratios = [a / b for a, b in zip(of("on", 1), of("off", 1))]
print(f"{sys.argv[1]}: {statistics.median(of('on', 1)):,.0f} IOPS on, {statistics.median(of('off', 1)):,.0f} off,"
      f" ratio {pairs(ratios)};"
      f" CPU {statistics.median(of('on', 2))} and {statistics.median(of('off', 2))} ns for a command")
END
}

echo "== cost: all stages on and off, 4 KiB, depth 128, $ROUNDS pairs of $TIME"
NULL='backend = "null"
size = "1 TiB"'
cost null "$NULL" randread
cost null "$NULL" randwrite
FILE="backend = \"file\"
path = \"$DIR/on.img\"
size = \"256 MiB\"
create = true
direct = false"
cost file "$FILE" randread

echo "== cost: the network's stage on and off, nothing congested, $ROUNDS pairs of $TIME"
cost null "$NULL" randread 4k 128
cost null "$NULL" randread 128k 32
cost null "$NULL" randwrite 128k 32

echo "== urgent: 200 commands a second, on a device of 64 channels and 4 ms (16,000 a second)"
daemon urgent 4530 "[0]" "window = 64" 'backend = "null"
size = "1 TiB"
service_time = "4 ms"
channels = 64'
URGENT="name=urgent,class=urgent,rate=200,depth=16"
FLOODS=(--job "name=high,address=127.0.0.1:4531,depth=128,connections=2" --job "name=medium,address=127.0.0.1:4532,depth=128,connections=2" --job "name=low,depth=128,connections=2")
for round in $(seq "$ROUNDS"); do
    alone=$(load 4530 --job "$URGENT" | field "f\"p50 {j['urgent']['p50_ns']/1e6:.2f} ms, p99 {j['urgent']['p99_ns']/1e6:.2f} ms\"")
    beside=$(load 4530 --job "$URGENT" "${FLOODS[@]}" | field "f\"p50 {j['urgent']['p50_ns']/1e6:.2f} ms, p99 {j['urgent']['p99_ns']/1e6:.2f} ms (Low: p50 {j['low']['p50_ns']/1e6:.0f} ms)\"")
    echo "alone: $alone; beside the floods: $beside"
done
stop $PID

echo "== flood: depth 1 beside 16 connections at depth 128 of another host, 4,000 commands a second"
SLOW='backend = "null"
size = "1 TiB"
service_time = "1 ms"
channels = 4'
for enabled in false true; do
    daemon flood 4540 "[0]" "enabled = $enabled
window = 4" "$SLOW"
    load 4540 --job "name=one,depth=1,hostnqn=nqn.2026-01.io.x:one" --job "name=flood,depth=128,connections=16,hostnqn=nqn.2026-01.io.x:flood" |
        field "f\"QoS enabled = $enabled: {j['one']['iops']:.0f} IOPS, p50 {j['one']['p50_ns']/1e6:.1f} ms, p99 {j['one']['p99_ns']/1e6:.1f} ms; the flood {j['flood']['iops']:.0f} IOPS\""
    stop $PID
done

echo "== shares: High, Medium, Low backlogged, weights 3:2:1"
for cores in "[0]" "[0, 1]"; do
    daemon shares 4550 "$cores" "window = 4" "$SLOW"
    load 4550 --job "name=high,address=127.0.0.1:4551,weight=3,depth=64" --job "name=medium,address=127.0.0.1:4552,weight=2,depth=64" --job "name=low,weight=1,depth=64" |
        field "f\"cores $cores: \" + ', '.join(f\"{s['name']} {s['commands']['share']*100:.2f} %\" for s in d['shares']['jobs']) + f\"; largest error {d['shares']['max_error_commands']*100:.2f} %\""
    stop $PID
done
