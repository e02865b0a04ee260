#!/bin/bash
# A random operator changes the target, slips, and breaks things, beside four hosts with verified I/O: no
# acknowledged write is lost, no host's data reaches another disk, no host resets because the target made it wait.
# The arguments are the seed of all choices, the seconds for which the operator works, and actions to leave out.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
mkdir -p /tmp/aside /tmp/state
mount -t tmpfs -o size=16m tmpfs /tmp/state

# device NAME MIB: makes a device in memory that takes 0.2 ms for a command, and keeps its data while it is off.
device() {
    local dir=/sys/kernel/config/nullb/$1
    mkdir "$dir"
    echo "$2" >"$dir/size"
    echo 4096 >"$dir/blocksize"
    echo 1 >"$dir/memory_backed"
    echo 2 >"$dir/irqmode"
    echo 200000 >"$dir/completion_nsec"
    echo 16 >"$dir/hw_queue_depth"
    echo 1 >"$dir/power"
}

step "four hosts, each on its own wire"
nqns=()
for host in 1 2 3 4; do
    ip link add host$host type veth peer name target$host netns target
    ip addr add 10.1.$host.2/24 dev host$host
    ip link set host$host up
    ip -n target addr add 10.1.$host.1/24 dev target$host
    ip -n target link set target$host up
    device device$host 32
    nqns+=("nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-00000000000$host")
done
for store in a b; do
    device store$store 256
    mkfs.ext4 -q -F -m 0 /dev/store$store
    mkdir /tmp/$store
    mount /dev/store$store /tmp/$store
done

step "a random operator, seed ${1:?seed}, ${2:?seconds} s"
end=none
# The program itself ends only when the hosts' last commands have.
while IFS= read -r line; do
    case $line in
    "END "*)
        end=${line#END }
        break
        ;;
    esac
    echo "$line"
done < <(PYTHONDONTWRITEBYTECODE=1 python3 /run/scenarios/random_operator.py "$1" "$2" "${3:-}" "${nqns[@]}" 2>&1)
[ "$end" = pass ] || {
    cp /run/sluiced-*.log /run/figures/
    dmesg >/run/figures/kernel.log
    for what in status "namespace list" connections; do
        # shellcheck disable=SC2086
        sluice $what || true
    done >/run/figures/target.log 2>&1
    fail "seed $1: see above"
}
pass
