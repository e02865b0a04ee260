#!/usr/bin/env bash
# nvmet.sh: compares the daemon with the kernel's own target, by instructions. One guest of QEMU with Debian's kernel
# and one processor runs the kernel's host, fio and both targets in turns, over loopback. QEMU counts instructions,
# and each takes 1 ns of the guest's time, so that the load of this machine changes nothing. Neither caches nor waits
# for memory count.
#
# usage: nvmet.sh BINARIES [TIME]     (BINARIES: the folder with sluiced; TIME: fio's, of the guest, as 300ms)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage="usage: nvmet.sh BINARIES [TIME]"
binaries=$(realpath "${1:?$usage}") time=${2:-300ms}
cd "$here/../.."
share=$PWD/build/bench-nvmet
rm -rf "$share"
mkdir -p "$share"
cp "$binaries/sluiced" "$(command -v fio)" "$share"
guest=$(tests/lab/build-guest)
LAB_COUNTED=1 timeout -k 5 1200 tests/lab/run-qemu "$guest" "$share" "$here/inside-nvmet.sh" "$share" "$time" \
    >"$share/console" 2>&1 || true
cat "$share/result" 2>/dev/null || true
if ! grep -qx end "$share/state" 2>/dev/null; then
    tail -20 "$share/console" >&2
    echo "nvmet.sh: the guest ended early: $share/console" >&2
    exit 1
fi
