#!/usr/bin/env bash
# pmem.sh: measures the latency of persistent memory, one I/O at a time, in one boot of a user-mode kernel with
# soft RoCE: by one-sided RDMA, as a namespace over RDMA, and as a namespace over TCP, in turns, by the host of
# `sluice bench`. Times in that kernel mean nothing by themselves, their ratios do.
#
# usage: pmem.sh BINARIES [ROUNDS] [TIME]     (BINARIES: the folder with sluiced and sluice)
set -euo pipefail
binaries=$(realpath "${1:?usage: pmem.sh BINARIES [ROUNDS] [TIME]}")
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/uml.sh"
inside "$binaries" bench-pmem tcp 1800 inside-pmem.sh "${2:-7}" "${3:-1s}"
