# Functions of all scenarios. A scenario is the init process of a user-mode kernel whose root file
# system is the machine's own: everything it writes to is covered with tmpfs first.
#
# A scenario prints `STEP name` as each step begins, and last `RESULT pass` or `RESULT fail reason`.
# Environment: LAB_TARGET, sluiced or nvmet (the kernel's own target: a scenario that fails there
# too is a wrong scenario); LAB_TRANSPORT, tcp or rdma; LAB_TIME, real or virtual. /run/scenarios holds the
# scripts, /run/bin the binaries; /run/figures keeps the files that figures come from.
# shellcheck shell=bash
set -eEuo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/tmp

TRANSPORT=${LAB_TRANSPORT:-tcp}
TARGET_IP=10.0.0.1 HOST_IP=10.0.0.2
HOST_NQN=nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-000000000001
HOST_ID=5b0f4d9c-0000-4000-8000-000000000001
OTHER_NQN=nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-000000000002
OTHER_ID=5b0f4d9c-0000-4000-8000-000000000002
T1=nqn.2026-01.io.sluicegate:t1
T2=nqn.2026-01.io.sluicegate:t2
T3=nqn.2026-01.io.sluicegate:t3
CURRENT_STEP=start

exec 3>&1

# --- reporting ---------------------------------------------------------------------------------

# step NAME: begins a step; a failure is reported under its name.
step() {
    CURRENT_STEP=$1
    echo "STEP $1 (at $SECONDS s)"
}

# fail REASON: prints everything that helps to understand the failure, then ends the machine.
fail() {
    trap - ERR EXIT
    set +eE
    {
        echo "--- the kernel's messages"
        dmesg 2>/dev/null | tail -60
        target_report 2>&1 | tail -60
        echo "RESULT fail $CURRENT_STEP: $*"
    } >&3 # the output is perhaps being captured here
    power_off
}

pass() {
    trap - ERR EXIT
    echo "RESULT pass"
    power_off
}

# power_off: calls reboot(2) itself: small installations have no poweroff command.
power_off() {
    sync
    perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)'
}

# --- the machine -------------------------------------------------------------------------------

boot() {
    trap 'fail "line $LINENO of ${BASH_SOURCE[0]##*/}: $BASH_COMMAND"' ERR
    trap 'fail "the script ended early"' EXIT
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t configfs none /sys/kernel/config
    mount -t debugfs none /sys/kernel/debug
    for dir in /tmp /var/tmp /var/lib /var/log; do mount -t tmpfs tmpfs $dir; done
    mkdir -p /dev/shm /tmp/fs
    mount -t tmpfs tmpfs /dev/shm
    ln -sfn /proc/self/fd /dev/fd
    ulimit -c 0
    dmesg -n 1 # kept for a failure's report; the console shows the steps
    cd /tmp
    network
    target_prepare
}

# The host is in the first network namespace: the kernel's reconnects are made from there.
# The target is in its own, behind a veth pair that a scenario can cut.
network() {
    ip link set lo up
    ip netns add target
    ip link add host0 type veth peer name target0 netns target
    ip addr add $HOST_IP/24 dev host0
    ip link set host0 up
    ip -n target addr add $TARGET_IP/24 dev target0
    ip -n target link set target0 up
    ip -n target link set lo up
    if over rdma; then
        # Soft RoCE over the same wire, whose packets have room for 4 KiB of data.
        ip link set host0 mtu 4200
        ip -n target link set target0 mtu 4200
        rdma_device host host0
        in_target rdma link add rdma_target type rxe netdev target0
    fi
}

# network_down, network_up: cut the wire between host and target, and mend it. Over RDMA packets are lost
# on their way: an interface that is down has no route, and soft RoCE then takes the queue pair of the
# connection manager itself for broken, for ever.
network_down() {
    if over tcp; then
        ip link set host0 down
    else
        tc qdisc add dev host0 root netem loss 100%
        in_target tc qdisc add dev target0 root netem loss 100%
    fi
}
network_up() {
    if over tcp; then
        ip link set host0 up
    else
        tc qdisc del dev host0 root
        in_target tc qdisc del dev target0 root
    fi
}

# on_virtual_time: says whether the machine's clocks show virtual time.
on_virtual_time() { [ "${LAB_TIME:-real}" = virtual ]; }

# over TRANSPORT: says whether the scenario runs over it.
over() { [ "$TRANSPORT" = "$1" ]; }

# rdma_device NAME INTERFACE: makes an RDMA device of a network interface.
rdma_device() { rdma link add "rdma_$1" type rxe netdev "$2"; }

# in_target COMMAND...: runs a command in the target's network namespace. (`ip netns exec` would mount
# another /sys, without configfs.)
in_target() { nsenter --net=/run/netns/target "$@"; }

# eventually SECONDS COMMAND...: waits until the command succeeds: so long on virtual time, and six times as long on
# real time, which passes on a busy machine without anything being done.
eventually() {
    local end=$((SECONDS + $1)) pause=0.1 tries=0
    on_virtual_time || end=$((SECONDS + 6 * $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -le $end ] || return 1
        sleep $pause
        # A process costs 10 to 80 ms of CPU here, so that long waits poll less often.
        [ $((tries += 1)) -lt 10 ] || pause=0.4
    done
}

no_controllers() { [ "$(target_controllers)" = 0 ]; }

# expect WHAT COMMAND...: fails with WHAT and the command's output where the command fails.
expect() {
    local what=$1 out
    shift
    out=$("$@" 2>&1) || fail "$what: $* said: $out"
}

# refuse WHAT COMMAND...: fails with WHAT where the command succeeds.
refuse() {
    local what=$1 out
    shift
    if out=$("$@" 2>&1); then fail "$what: $* succeeded: $out"; fi
}

# same WHAT HAVE WANT: fails where two texts differ.
same() { [ "$2" = "$3" ] || fail "$1: '$2', expected '$3'"; }

# matches TEXT PATTERN: says whether an extended regular expression matches a line, without a process for it.
matches() {
    local line IFS=$'\n' -
    set -f
    for line in $1; do
        [[ ! $line =~ $2 ]] || return 0
    done
    return 1
}

# contains WHAT TEXT PATTERN: fails where the pattern matches no line.
contains() { matches "$2" "$3" || fail "$1: nothing matches '$3' in: $2"; }

# lacks WHAT TEXT PATTERN: fails where it matches one.
lacks() { if matches "$2" "$3"; then fail "$1: '$3' is in: $2"; fi; }

# --- the host ----------------------------------------------------------------------------------

# connect NQN [nvme arguments]: connects as the usual host, and waits for the controller to be live.
connect() {
    local nqn=$1 out
    shift
    out=$(nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n "$nqn" -q $HOST_NQN -I $HOST_ID \
        --reconnect-delay=1 "$@" 2>&1) || fail "nvme connect $nqn $*: $out"
    eventually 5 controller_live "$nqn" || fail "the controller of $nqn is not live"
}

disconnect() {
    expect "disconnect" nvme disconnect -n "$1"
    eventually 10 no_controller "$1" || fail "the controller of $1 stays after disconnect"
}

# holds FILE LINE: says whether the file is there and begins with that line, without a process for it.
holds() {
    local line=''
    read -r line 2>/dev/null <"$1" || [ -n "$line" ] || return 1
    [ "$line" = "$2" ]
}

# controller NQN: prints the host's controller for a subsystem, nvmeX: not one within the machine.
controller() {
    local c
    for c in /sys/class/nvme/nvme*; do
        [ -e "$c/subsysnqn" ] || continue
        if holds "$c/subsysnqn" "$1" && holds "$c/transport" $TRANSPORT; then
            echo "${c##*/}"
            return
        fi
    done
    return 1
}
no_controller() { ! controller "$1"; }
controller_state() { cat "/sys/class/nvme/$(controller "$1")/state"; }
controller_live() { holds "/sys/class/nvme/$(controller "$1")/state" live; }
controller_not_live() { ! controller_live "$1"; }

# namespace_of NQN NSID: prints the block device, nvmeXnY. (nvmeXcYnZ are hidden paths.)
namespace_of() {
    local b
    for b in /sys/block/nvme*n*; do
        [[ $b =~ nvme[0-9]+n[0-9]+$ ]] || continue
        if holds "$b/nsid" "$2" && holds "$b/device/subsysnqn" "$1"; then
            echo "${b##*/}"
            return
        fi
    done
    return 1
}
no_namespace() { ! namespace_of "$1" "$2"; }

# disk NQN NSID: prints /dev/nvmeXnY once it is there and its size is known.
disk() {
    eventually 10 namespace_of "$1" "$2" || fail "namespace $2 of $1 does not appear"
    local name
    name=$(namespace_of "$1" "$2")
    eventually 5 test -b "/dev/$name" || fail "no /dev/$name"
    echo "/dev/$name"
}

size_is() { [ "$(blockdev --getsize64 "$1")" = "$2" ]; }

# Arguments of fio: of each load. fio's own choice of a clock, the CPU's counter, counts real time also on virtual time.
FIO=(--eta=never --ioengine=libaio --direct=1 --clocksource=clock_gettime)

# fio_run NAME [fio arguments]: runs fio; fails on any error that fio counts.
fio_run() {
    local name=$1 out=/tmp/fio-$1.json start=$SECONDS
    shift
    fio "${FIO[@]}" --name="$name" --output-format=json --output="$out" --aux-path=/tmp --group_reporting \
        "$@" >/tmp/fio-"$name".err 2>&1 ||
        fail "fio $name: $(head -c 2000 /tmp/fio-"$name".err) $(grep -vE '[{}:]' "$out" | head -5)"
    if grep -E '"(error|total_err)" : [1-9]' "$out"; then fail "fio $name counts errors"; fi
    echo "fio $name: $((SECONDS - start)) s"
}

# write_verify NAME DISK [fio arguments]: writes, then reads all back and checks CRC-32C.
write_verify() {
    local name=$1 disk=$2
    shift 2
    fio_run "$name" --filename="$disk" --verify=crc32c --verify_fatal=1 --do_verify=1 "$@"
}

# stored DEVICE OFFSET FILE: says whether DEVICE holds FILE's bytes at OFFSET, past the page cache.
stored() {
    local length
    length=$(stat -c %s "$3")
    dd if="$1" of=/tmp/stored bs=64k iflag=direct,skip_bytes,count_bytes skip="$2" count="$length" status=none &&
        cmp /tmp/stored "$3"
}

# zeroes BYTES: makes a file of that many zeroes and prints its path.
zeroes() {
    truncate -s "$1" "/tmp/zeroes-$1"
    echo "/tmp/zeroes-$1"
}

# uevents FILE: collects the kernel's device events in FILE until killed; the process is in $!.
uevents() {
    perl -e 'use Socket; $|=1; socket(S, 16, SOCK_RAW, 15) or die;
        bind(S, pack("SSLL", 16, 0, 0, 1)) or die;
        while (sysread(S, $b, 8192)) { $b =~ tr/\0/ /; print "$b\n" }' >"$1" &
}

# --- devices -----------------------------------------------------------------------------------

# ram_disk NAME SIZE_MIB BLOCK_SIZE: makes a block device in memory that can discard; prints /dev/NAME. On virtual time a
# command takes 1 ms there, or none would ever be in the device when something happens to it.
ram_disk() {
    local dir=/sys/kernel/config/nullb/$1
    mkdir "$dir"
    echo "$2" >"$dir/size"
    echo "$3" >"$dir/blocksize"
    echo 1 >"$dir/memory_backed"
    echo 1 >"$dir/discard"
    if on_virtual_time; then
        echo 2 >"$dir/irqmode" # completes by a timer
        echo 1000000 >"$dir/completion_nsec"
    fi
    echo 1 >"$dir/power"
    echo "/dev/$1"
}

# store FOLDER: mounts an ext4 file system of 256 MiB there, on a disk in memory.
STORES=0
store() {
    local device
    device=$(ram_disk store$STORES 256 512)
    mkfs.ext4 -q -F -m 0 "$device"
    mkdir "$1"
    mount "$device" "$1"
    STORES=$((STORES + 1))
}

DEVICE_NQN=nqn.2026-01.io.sluicegate:device

# nvme_device SIZE_MIB BLOCK_SIZE [tcp]: makes an NVMe namespace with the kernel's own driver: the kernel's
# target on a ram disk, connected inside the machine. Prints its name, nvmeXnY.
nvme_device() { export_device "$(ram_disk nvmedev "$1" "$2")" "${3:-loop}"; }

# export_device PATH TRANSPORT: exports that block device by the kernel's target, and connects this machine to it.
# Prints the namespace's name, nvmeXnY.
export_device() {
    local dir=/sys/kernel/config/nvmet nqn=$DEVICE_NQN
    mkdir $dir/subsystems/$nqn $dir/subsystems/$nqn/namespaces/1 $dir/ports/99
    echo 1 >$dir/subsystems/$nqn/attr_allow_any_host
    echo "$1" >$dir/subsystems/$nqn/namespaces/1/device_path
    echo 1 >$dir/subsystems/$nqn/namespaces/1/enable
    echo "$2" >$dir/ports/99/addr_trtype
    if [ "$2" = tcp ]; then
        echo ipv4 >$dir/ports/99/addr_adrfam
        echo 127.0.0.1 >$dir/ports/99/addr_traddr
        echo 4499 >$dir/ports/99/addr_trsvcid
    fi
    ln -s $dir/subsystems/$nqn $dir/ports/99/subsystems/
    nvme_device_connects "$2"
}

# nvme_device_connects [TRANSPORT]: connects this machine to that device. Prints the namespace's name, nvmeXnY.
nvme_device_connects() {
    local way=(-t "${1:-loop}")
    [ "${1:-}" != tcp ] || way+=(-a 127.0.0.1 -s 4499 --reconnect-delay=1)
    nvme connect "${way[@]}" -n $DEVICE_NQN -q $OTHER_NQN -I $OTHER_ID >/dev/null
    eventually 5 namespace_of $DEVICE_NQN 1
    namespace_of $DEVICE_NQN 1
}

# shellcheck source-path=SCRIPTDIR
. "/run/scenarios/target-$LAB_TARGET.sh"
