#!/usr/bin/env bash
# rdma.sh: measures NVMe/RDMA on soft RoCE, in one boot of a user-mode kernel: the daemon, the kernel's
# own target, both on devices that do nothing, and the floor in turns, by the host of `sluice bench`. Speeds in
# that kernel mean nothing by themselves, their ratios do.
#
# usage: rdma.sh BINARIES [ROUNDS] [TIME]    (BINARIES: the folder with sluiced and sluice)
#        rdma.sh BINARIES queue-pairs COUNT: the daemon's memory with one queue pair, and with COUNT
set -euo pipefail
binaries=$(realpath "${1:?usage: rdma.sh BINARIES [ROUNDS] [TIME]}")
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/uml.sh"
if [ "${2:-}" = queue-pairs ]; then
    inside "$binaries" bench-rdma rdma 1800 inside-rdma-queue-pairs.sh "${3:-1000}"
else
    inside "$binaries" bench-rdma tcp 1800 inside-rdma.sh "${2:-5}" "${3:-1s}"
fi
