#!/bin/bash
# A drive that no controller leads to for a while: what waits for it waits, unless its host has gone.
# cpus: 1
. /run/scenarios/lib.sh
boot
ip link set lo up
device=$(nvme_device 32 512 tcp)
port=/sys/kernel/config/nvmet/ports/99/subsystems/$DEVICE_NQN
listener $TARGET_IP:4420
subsystem $T1 any
namespace nvme "/dev/ng${device#nvme}" 512
target_start
connect $T1 -k 2
d=$(disk $T1 1) local=/dev/$device

# path_goes, path_comes: the drive's controller loses its connection, and has it again.
path_goes() {
    rm "$port"
    eventually 10 grep -q connecting "/sys/class/nvme/${device%n*}/state" || fail "the path is still there"
}
path_comes() {
    ln -s "/sys/kernel/config/nvmet/subsystems/$DEVICE_NQN" "$port"
    eventually 20 grep -q live "/sys/class/nvme/${device%n*}/state" || fail "the path does not come back"
}
# writes FILE: writes the first 4096 bytes of the disk.
writes() { dd if="$1" of="$d" bs=4096 count=1 oflag=direct 2>&1; }
head -c 4096 /dev/urandom >/tmp/first
head -c 4096 /dev/urandom >/tmp/second

step "a write waits for the drive"
path_goes
writes /tmp/first >/tmp/out &
write=$!
sleep 1
path_comes
wait $write || fail "the write: $(cat /tmp/out)"
expect "the drive's data" stored "$local" 0 /tmp/first

step "a write whose host has gone is not carried out later, and the host sends it again"
path_goes
writes /tmp/second >/tmp/out &
write=$!
sleep 0.5
network_down
eventually 8 no_controllers || fail "the target still has $(target_controllers) controllers"
path_comes
sleep 1
expect "the drive's data" stored "$local" 0 /tmp/first
network_up
wait $write || fail "the write: $(cat /tmp/out)"
expect "the drive's data" stored "$local" 0 /tmp/second

step "a drive without a path for long is unavailable, and served by itself when it has one"
path_goes
writes /tmp/first >/tmp/out &
write=$!
is_unavailable() { sluice namespace list --json | grep -q '"unavailable"'; }
eventually 20 is_unavailable || fail "$(sluice namespace list)"
path_comes
wait $write || fail "the write: $(cat /tmp/out)"
expect "the drive's data" stored "$local" 0 /tmp/first
disconnect $T1
pass
