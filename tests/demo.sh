#!/usr/bin/env bash
# Shows the daemon at work, in two parts of 10 and 20 seconds:
#   plain I/O   the daemon without a configuration file (memory on the loopback address), our own
#               initiator against it, then a verified read-back
#   tenants     a small tenant beside three hosts that flood a slow device, without and with
#               quality of service; the sums of the table are compared with the device's rate
#
# usage: demo.sh BINARIES     (the folder with sluiced and sluice)
set -euo pipefail
binaries=$(realpath "${1:?usage: demo.sh BINARIES}")
work=$(mktemp -d)
export SLUICEGATE_CONTROL=$work/control.sock
nqn=nqn.2026-01.io.sluicegate:demo
daemon=''
finish() {
    local code=$?
    [ $code = 0 ] || tail -5 "$work/log" >&2
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# start ARGUMENTS...: starts the daemon and waits until it answers.
start() {
    "$binaries/sluiced" "$@" >"$work/log" 2>&1 &
    daemon=$!
    for _ in $(seq 50); do
        "$binaries/sluice" status >/dev/null 2>&1 && return
        kill -0 $daemon 2>/dev/null || break
        sleep 0.1
    done
    echo "sluiced did not start:" >&2
    exit 1
}

# stop: ends the daemon in order.
stop() {
    "$binaries/sluice" shutdown >/dev/null
    local status=0
    wait $daemon || status=$?
    daemon=''
    # What the daemon ends with when it was asked to (docs/use/operating.md).
    [ $status = 150 ] || { echo "sluiced ended with status $status" >&2; exit 1; }
}

# change ARGUMENTS...: makes a live change; sluice notes that it ends with the daemon, which is meant.
change() { "$binaries/sluice" "$@" >/dev/null 2>"$work/change" || { cat "$work/change" >&2; exit 1; }; }

plain_io() {
    start
    cat <<END
sluiced is running with a memory namespace (1) and a null namespace (2). From this machine:

    nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $nqn

Meanwhile our own initiator, 4 KiB random reads and writes, 70 to 30, queue depth 32:

END
    "$binaries/sluice" bench --nqn $nqn --rw randrw --read-share 70 --bs 4k --depth 32 \
        --span 256m --warmup 500ms --time 3s --live
    echo
    echo "Written, read back and compared, with header and data digests:"
    echo
    "$binaries/sluice" bench --nqn $nqn --rw randrw --bs 16k --depth 16 --hdgst --ddgst \
        --span 64m --warmup 0s --time 2s --verify
    stop
}

# The commands per second that the device does.
device=4000
# The rows of the table whose sums are off.
wrong=0

# row LABEL SUM JOBS...: prints one line of the table, of three seconds of load. Counts the row in
# `wrong` where tenant and flood together are more than 5 % off SUM commands a second.
row() {
    local label=$1 sum=$2
    shift 2
    "$binaries/sluice" bench -a 127.0.0.1:4420 --nqn $nqn --time 3s --warmup 500ms --json "$@" \
        >"$work/load.json"
    # One key on a line; each job has its totals once, in "jobs".
    awk -v label="$label" -v sum="$sum" -v verdict="$work/verdict" '
        /^  "jobs"/ { jobs = 1 }
        /^  \]/ { jobs = 0 }
        jobs && /"name"/ { tenant = /"tenant"/ }
        jobs && /"iops"/ { if (tenant) iops = $2 + 0; else flood += $2 }
        jobs && /"p50_ns"/ && tenant { p50 = $2 / 1e6 }
        jobs && /"p99_ns"/ && tenant { p99 = $2 / 1e6 }
        END {
            printf "%-46s %8.0f/s %9.1f ms %9.1f ms %8.0f/s\n", label, iops, p50, p99, flood
            off = (iops + flood) / sum - 1
            found = off < -0.05 || off > 0.05 ? "off" : "right"
            print found >verdict
        }
    ' "$work/load.json"
    [ "$(cat "$work/verdict")" = right ] || wrong=$((wrong + 1))
}

# verify: says whether the rows add up to what the device does.
verify() {
    echo
    if [ $wrong = 0 ]; then
        echo "Checked: each row adds up to what was asked of the device, or to all it does, within 5 %."
    else
        cat <<END
The machine was busy: in $wrong of 5 rows the sum is more than 5 % off what the device does ($device/s; the
tenant alone: 2,000/s). The pretended device is a program too and rested meanwhile, so that this table does
not show what quality of service costs. Run it again when nothing else runs.
END
    fi
}

tenants() {
    local tenant=nqn.2026-01.io.example:tenant n
    local small=(--job "name=tenant,rate=2k,depth=32,hostnqn=$tenant") flood=()
    for n in 1 2 3; do
        flood+=(--job "name=flood$n,depth=128,connections=4,hostnqn=nqn.2026-01.io.example:flood$n")
    done
    cat >"$work/tenants.toml" <<END
[target]
control = "$SLUICEGATE_CONTROL"
[qos]
enabled = false
window = 16                         # 4 ms of the device's work: it has work while the daemon waits for a CPU
[[listener]]
address = "127.0.0.1:4420"
[[subsystem]]
nqn = "$nqn"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
backend = "null"
size = "1 TiB"
service_time = "1 ms"               # a pretended device: 4,000 commands a second
channels = 4
END
    start --config "$work/tenants.toml"
    cat <<END

What it is for. A pretended device does 4,000 commands a second. A small tenant asks for 2,000 of
them; beside it three hosts keep 512 commands each outstanding. (20 seconds)

                                                   the tenant                         the flood
                                                   has         p50           p99           has
END
    row "alone" 2000 "${small[@]}"
    row "beside the flood, without quality of service" $device "${small[@]}" "${flood[@]}"
    change qos set --enabled on
    row "with it: each host in its turn" $device "${small[@]}" "${flood[@]}"
    change qos policy --host $tenant --class high
    row "the tenant's class is high" $device "${small[@]}" "${flood[@]}"
    change qos policy --host $tenant --remove
    change qos session add tenant
    change qos policy --host $tenant --session tenant
    change qos reserve tenant --commands 2100 --namespace $nqn/1
    row "no class, but 2,100 a second reserved" $device "${small[@]}" "${flood[@]}"
    stop
    verify
}

plain_io
tenants
echo
echo "sluiced ended in order. docs/use/qos.md is the guide to classes, limits and reservations."
