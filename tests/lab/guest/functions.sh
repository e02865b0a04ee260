# Functions of scripts that are the first process of a guest of QEMU. Results go to the file `results` in $share, a folder
# outside the guest, as lines that begin with PASS or FAIL; $log is the daemon's log.
# shellcheck shell=bash

result() { echo "$*" | tee -a "$share/results"; }

# check WHAT COMMAND...: runs a command, and says in a line whether it succeeded.
check() {
    local what=$1
    shift
    if "$@" >/run/out 2>&1; then
        result "PASS $what"
    else
        result "FAIL $what: $(tail -n 6 /run/out | tr '\n' ' ')"
        return 1
    fi
}
# need WHAT COMMAND...: as check; without it nothing else can be shown.
need() { check "$@" || power_off; }
power_off() {
    [ ! -e "$log" ] || cat "$log"
    echo o >/proc/sysrq-trigger
    sleep infinity
}

# eventually SECONDS COMMAND...: waits until the command succeeds.
eventually() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -le $end ] || return 1
        sleep 0.1
    done
}

# null_device NUMBER MIB SETTING...: makes the block device /dev/nullbNUMBER.
null_device() {
    local at=/sys/kernel/config/nullb/nullb$1 setting
    mkdir "$at" || return
    for setting in size="$2" blocksize=4096 "${@:3}" power=1; do
        echo "${setting#*=}" >"$at/${setting%%=*}" || return
    done
}

# disk NQN NSID: prints the path of the host's disk of a namespace; fails if there is none.
disk() {
    local at
    for at in /sys/class/nvme-subsystem/*; do
        [ "$(cat "$at/subsysnqn")" = "$1" ] || continue
        for at in "$at"/nvme*n*; do
            at=${at##*/}
            if [ "$(cat "/sys/block/$at/nsid" 2>/dev/null)" = "$2" ] && [ -b "/dev/$at" ]; then
                echo "/dev/$at"
                return
            fi
        done
    done
    return 1
}
