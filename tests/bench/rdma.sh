#!/usr/bin/env bash
# rdma.sh: measures NVMe/RDMA on soft RoCE, in one boot of a user-mode kernel: the daemon and the kernel's
# own target in interleaved pairs, both on devices that do nothing, by the host of `sluice bench`. Speeds in
# that kernel mean nothing by themselves, their ratios do.
#
# usage: rdma.sh BINARIES [PAIRS] [TIME]     (BINARIES: the folder with sluiced and sluice)
#        rdma.sh BINARIES queue-pairs COUNT: the daemon's memory with one queue pair, and with COUNT
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
binaries=$(realpath "${1:?usage: rdma.sh BINARIES [PAIRS] [TIME]}")
if [ "${2:-}" = queue-pairs ]; then
    transport=rdma inside="inside-rdma-queue-pairs.sh ${3:-1000}"
else
    transport=tcp inside="inside-rdma.sh ${2:-5} ${3:-1s}"
fi
kernel=${SLUICEGATE_UML:-$("$root/tests/lab/build-uml")}
mkdir -p "$root/build/e2e"
init=$root/build/e2e/bench-rdma.init
cat >"$init" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /run
mkdir -p /run/scenarios /run/bin /run/bench
mount --bind '$root/tests/scenarios' /run/scenarios
mount --bind '$root/tests/bench' /run/bench
mount --bind '$binaries' /run/bin
export LAB_TARGET=sluiced LAB_TRANSPORT=$transport
exec bash /run/bench/$inside
END
chmod +x "$init"
# A bound on the whole, should the kernel hang.
timeout -k 5 1800 "$root/tests/lab/run-uml" "$kernel" "$init" |
    grep -vE '^(STEP|Powering off|reboot:)' | tr -d '\r'
