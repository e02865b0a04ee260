#!/usr/bin/env bash
# uml-vs-nvmet.sh: compares the daemon with the kernel's own target in one boot of a user-mode kernel:
# 4 KiB random and 128 KiB sequential reads and writes by the kernel's host, both targets on memory, in
# interleaved pairs. Speeds in that kernel mean nothing by themselves, their ratios do.
#
# usage: uml-vs-nvmet.sh BINARIES [PAIRS] [SECONDS]     (BINARIES: the folder with sluiced)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
binaries=$(realpath "${1:?usage: uml-vs-nvmet.sh BINARIES [PAIRS] [SECONDS]}")
pairs=${2:-5} seconds=${3:-3}
kernel=${SLUICEGATE_UML:-$("$root/tests/lab/build-uml")}
mkdir -p "$root/build/e2e"
init=$root/build/e2e/bench.init
cat >"$init" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /run
mkdir -p /run/scenarios /run/bin /run/bench
mount --bind '$root/tests/scenarios' /run/scenarios
mount --bind '$root/tests/bench' /run/bench
mount --bind '$binaries' /run/bin
export LAB_TARGET=sluiced
exec bash /run/bench/inside.sh $pairs $seconds
END
chmod +x "$init"
# A bound on the whole, should the kernel hang.
timeout -k 5 $((120 + pairs * seconds * 20)) "$root/tests/lab/run-uml" "$kernel" "$init" |
    grep -vE '^(STEP|Powering off|reboot:)' | tr -d '\r'
