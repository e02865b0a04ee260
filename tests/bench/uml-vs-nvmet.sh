#!/usr/bin/env bash
# uml-vs-nvmet.sh: compares the daemon with the kernel's own target in one boot of a user-mode kernel:
# 4 KiB random and 128 KiB sequential reads and writes by the kernel's host, both targets on memory, in
# interleaved pairs. Speeds in that kernel mean nothing by themselves, their ratios do.
#
# usage: uml-vs-nvmet.sh BINARIES [PAIRS] [SECONDS]     (BINARIES: the folder with sluiced)
set -euo pipefail
binaries=$(realpath "${1:?usage: uml-vs-nvmet.sh BINARIES [PAIRS] [SECONDS]}")
pairs=${2:-5} seconds=${3:-3}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/uml.sh"
inside "$binaries" bench tcp $((120 + pairs * seconds * 20)) inside.sh "$pairs" "$seconds"
