# What the benchmarks in a user-mode kernel share.
# shellcheck shell=bash

# inside BINARIES NAME TRANSPORT TIME_LIMIT SCRIPT [ARGUMENT...]: boots the kernel, which runs a script of
# tests/bench, with the scenarios' functions and these binaries; prints what the script does. A kernel that
# hangs is ended after the time, in seconds.
inside() {
    local root binaries=$1 name=$2 transport=$3 limit=$4 kernel init
    shift 4
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    kernel=${SLUICEGATE_UML:-$("$root/tests/lab/build-uml")}
    mkdir -p "$root/build/e2e"
    init=$root/build/e2e/$name.init
    cat >"$init" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /run
mkdir -p /run/scenarios /run/bin /run/bench
mount --bind '$root/tests/scenarios' /run/scenarios
mount --bind '$root/tests/bench' /run/bench
mount --bind '$binaries' /run/bin
export LAB_TARGET=sluiced LAB_TRANSPORT=$transport
exec bash /run/bench/$*
END
    chmod +x "$init"
    timeout -k 5 "$limit" "$root/tests/lab/run-uml" "$kernel" "$init" |
        grep -vE '^(STEP|Powering off|reboot:)' | tr -d '\r'
}
