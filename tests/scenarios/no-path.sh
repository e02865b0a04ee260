#!/bin/bash
# A drive without a live controller for a while: commands wait for it, and are dropped when their host's connection ends.
# time: virtual
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
# begin_write FILE: takes the path away, and writes the first 4096 bytes of the disk meanwhile.
begin_write() {
    path_goes
    dd if="$1" of="$d" bs=4096 count=1 oflag=direct >/tmp/out 2>&1 &
    write=$!
}
# end_write FILE: waits for that write, and checks the drive's data.
end_write() {
    wait $write || fail "the write: $(cat /tmp/out)"
    expect "the drive's data" stored "$local" 0 "$1"
}
head -c 4096 /dev/urandom >/tmp/first
head -c 4096 /dev/urandom >/tmp/second

step "a write waits for the drive"
begin_write /tmp/first
sleep 1
path_comes
end_write /tmp/first

step "a write whose host has gone is not carried out later, and the host sends it again"
begin_write /tmp/second
sleep 0.5
network_down
eventually 8 no_controllers || fail "the target still has $(target_controllers) controllers"
path_comes
sleep 1
expect "the drive's data" stored "$local" 0 /tmp/first
network_up
end_write /tmp/second

step "a drive without a path for long is unavailable, and served by itself when it has one"
begin_write /tmp/first
is_unavailable() { sluice namespace list --json | grep -q '"unavailable"'; }
eventually 20 is_unavailable || fail "$(sluice namespace list)"
path_comes
end_write /tmp/first
disconnect $T1
pass
