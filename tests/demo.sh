#!/usr/bin/env bash
# A first look: the daemon with what it runs without a configuration file (memory namespaces on
# the loopback address), our own initiator against it, then a verified read-back.
#
# usage: demo.sh BINARIES     (the folder with sluiced and sluice)
set -euo pipefail
binaries=${1:?usage: demo.sh BINARIES}
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

"$binaries/sluiced" >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 50); do
    "$binaries/sluice" status >/dev/null 2>&1 && break
    kill -0 $daemon 2>/dev/null || {
        echo "sluiced did not start:" >&2
        cat "$work/log" >&2
        exit 1
    }
    sleep 0.1
done

cat <<END
sluiced is running with a memory namespace (1) and a null namespace (2). From this machine:

    nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $nqn

Meanwhile our own initiator, 4 KiB random reads and writes, 70 to 30, queue depth 32:

END
"$binaries/sluice" bench --nqn $nqn --rw randrw --read-share 70 --bs 4k --depth 32 \
    --span 256m --warmup 500ms --time 5s --live
echo
echo "Written, read back and compared, with header and data digests:"
echo
"$binaries/sluice" bench --nqn $nqn --rw randrw --bs 16k --depth 16 --hdgst --ddgst \
    --span 64m --warmup 0s --time 2s --verify
echo
"$binaries/sluice" shutdown
wait $daemon
daemon=''
echo "sluiced ended in order."
