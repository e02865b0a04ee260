#!/bin/bash
# The class that a host puts into a command (CDW13 9:8) is for the target: a device behind the target
# sees the host's other bits and no class, unless its namespace has forward_class. The device here is
# reached by NVMe/TCP through the loopback, where every command to the device can be read.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
DEVICE=nqn.2026-01.io.sluicegate:device PORT=4421
listener $TARGET_IP:4420

dir=/sys/kernel/config/nvmet
mkdir $dir/subsystems/$DEVICE $dir/ports/99
echo 1 >$dir/subsystems/$DEVICE/attr_allow_any_host
for nsid in 1 2; do
    mkdir $dir/subsystems/$DEVICE/namespaces/$nsid
    ram_disk device$nsid 64 512 >$dir/subsystems/$DEVICE/namespaces/$nsid/device_path
    echo 1 >$dir/subsystems/$DEVICE/namespaces/$nsid/enable
done
for part in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=$PORT; do
    echo "${part#*=}" >"$dir/ports/99/addr_${part%=*}"
done
ln -s $dir/subsystems/$DEVICE $dir/ports/99/subsystems/
nvme connect -t tcp -a 127.0.0.1 -s $PORT -n $DEVICE -q $OTHER_NQN -I $OTHER_ID >/dev/null
subsystem $T1 any
for nsid in 1 2; do
    name=$(disk $DEVICE $nsid)
    namespace nvme "/dev/ng${name#/dev/nvme}" 512
done
echo "forward_class = true" >>$CONFIG # of the second one
target_start
connect $T1

# Prints opcode, NSID, NLB and CDW13 of each command that begins a segment for the device: a
# CapsuleCmd PDU (type 4, 72 bytes) whose SQE begins at byte 8.
perl -e 'use Socket; $| = 1; socket(S, 17, SOCK_RAW, 0x0300) or die "socket: $!";
    while (sysread(S, $b, 65536)) {
        next unless length $b > 34 && unpack("n", substr($b, 12, 2)) == 0x0800 && ord(substr($b, 23, 1)) == 6;
        my $ip = 14 + 4 * (ord(substr($b, 14, 1)) & 15);
        next unless unpack("n", substr($b, $ip + 2, 2)) == $ARGV[0];
        my $pdu = substr($b, $ip + 4 * (ord(substr($b, $ip + 12, 1)) >> 4));
        next unless length $pdu >= 72 && unpack("CxC", $pdu) == 4 && ord(substr($pdu, 2, 1)) == 72;
        my ($op, $nsid, $cdw12, $cdw13) = unpack("x8C x3 V x40 V V", $pdu);
        printf "op %x nsid %d blocks %d cdw13 %08x\n", $op, $nsid, ($cdw12 & 65535) + 1, $cdw13;
    }' $PORT >/tmp/seen &
listens() { [ "$(wc -l </proc/net/packet)" -gt 1 ]; }
eventually 5 listens || fail "nothing listens to the loopback"
sleep 0.2

head -c 2048 /dev/urandom >/tmp/data
# Sends commands of four blocks with this CDW13, which only this scenario sends.
send() {
    local opcode=$1 name
    name=$(disk $T1 "$2")
    shift 2
    nvme io-passthru "/dev/ng${name#/dev/nvme}" -o "$opcode" -l 2048 --cdw10=64 --cdw12=3 --cdw13="$1" "${@:2}" >/tmp/out 2>&1 ||
        fail "opcode $opcode with CDW13 $1: $(cat /tmp/out)"
}
seen() { grep -q "^op $1 nsid $2 blocks 4 cdw13 $3\$" /tmp/seen; }
saw() { eventually 5 seen "$@" || fail "the device saw no op $1 of namespace $2 with CDW13 $3: $(cat /tmp/seen)"; }

step "a device sees the host's other bits and no class"
for class in 1 2 3; do
    # Bits 7:0 are hints: a number that tells the commands apart.
    send 1 1 0x${class}0$class -n 1 -w -i /tmp/data
    saw 1 1 0000000$class
    send 2 1 0x${class}1$class -n 1 -r
    saw 2 1 0000001$class
done
# The other spare bits are no class, and a strict device refuses them all the same.
send 1 1 0xff20 -n 1 -w -i /tmp/data
saw 1 1 00000020
lacks "commands to the device" "$(grep 'nsid 1 blocks 4' /tmp/seen)" 'cdw13 [0-9a-f]{4}[^0]|cdw13 [0-9a-f]{5}[^0]'

step "with forward_class the device sees the class, and no other spare bit"
send 1 2 0xff30 -n 2 -w -i /tmp/data
saw 1 2 00000330
send 2 2 0x231 -n 2 -r
saw 2 2 00000231
disconnect $T1
pass
