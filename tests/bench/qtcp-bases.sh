#!/bin/bash
# qtcp-bases.sh: measures what flows of weights 3:2:1 get of a bottleneck that marks, by the kernel's
# congestion control under them: without control (off), with limits on their rates (limits), and for
# our own part of the kernel also by windows alone (eq5). Natively the bottleneck is 200 Mbit/s behind
# an exact marker; then, for dctcp, 100 Mbit/s behind red in a user-mode kernel. Needs root: the script
# makes network namespaces, loads BPF programs, and removes all of them.
#
# usage: qtcp-bases.sh BINARIES     (BINARIES: the folder with bottleneck, built with the feature bpf
#                                   for sluice_window)
#
# ROUNDS (3) and TIME (10 seconds) set how often and how long; NATIVE and UML which bases. Medians of
# the rounds are printed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
binary=$(realpath "${1:?usage: qtcp-bases.sh BINARIES}")/bottleneck
rounds=${ROUNDS:-3} time=${TIME:-10}
read -ra native <<<"${NATIVE-cubic reno bbr sluice_window}"
read -ra uml <<<"${UML-dctcp cubic reno}"
lines=$(mktemp)
trap 'rm -f "$lines" "$lines.init"' EXIT

if [ ${#native[@]} -gt 0 ]; then
    "$root/tests/bench/qtcp/rounds.sh" "$binary" bpf native "$rounds" "$time" "${native[@]}" | tee -a "$lines" >&2
fi

if [ ${#uml[@]} -gt 0 ]; then
    kernel=${SLUICEGATE_UML:-$("$root/tests/lab/build-uml")}
    cat >"$lines.init" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /run/bench
mount --bind '$root/tests/bench' /run/bench
cp '$binary' /run/binary
mount -t tmpfs tmp /tmp
RATE=100 BURST=60k bash /run/bench/qtcp/rounds.sh /run/binary red uml $rounds $time ${uml[*]}
poweroff -f
END
    chmod +x "$lines.init"
    # One CPU: with two this kernel's timers are late as soon as something is shaped.
    UML_CPUS=1 timeout -k 5 $((60 + rounds * ${#uml[@]} * 2 * (time + 10))) \
        "$root/tests/lab/run-uml" "$kernel" "$lines.init" | tr -d '\r' | grep '^where=' | tee -a "$lines" >&2
fi

python3 - "$lines" <<'END'
import statistics, sys
runs = {}
for line in open(sys.argv[1]):
    d = dict(word.split("=", 1) for word in line.split())
    if "base" in d:
        runs.setdefault((d["where"], d["base"]), {"off": [], "limits": [], "eq5": []})[d["control"]].append(d)
def median(of, field):
    return statistics.median(float(d[field]) for d in of)
def rates(of):
    return " : ".join(f"{statistics.median(x):.1f}" for x in zip(*([float(r) for r in d["rates"].split(":")] for d in of)))
print("| kernel, base | control | Mbit/s of 3 : 2 : 1 | largest error of a share (rounds) | of the total without control | queue | RTT | marks seen | sent again |")
print("|---|---|---|---|---|---|---|---|---|")
for (where, base), both in runs.items():
    for control, of in both.items():
        if of:
            each = " ".join(f"{float(d['error']):.1f}" for d in of)
            part = median(of, "total") / median(both["off"], "total") * 100 if both["off"] else float("nan")
            print(f"| {where}, {base} | {control} | {rates(of)} | {median(of, 'error'):.1f} % ({each}) | {part:.1f} % "
                  f"| {median(of, 'queue'):.0f} kB | {median(of, 'rtt'):.1f} ms | {median(of, 'marks'):.1f} % | {median(of, 'retrans'):.0f} |")
END
