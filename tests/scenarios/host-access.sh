#!/bin/bash
# What hosts may do: a disk that is read only for one of them, namespaces that it sees and does not see
# any more, a class that it may not have, an address that it may not come from; all of it changed while
# it is connected.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
target_can cli || pass # nvmet has no such rights
MIB=$((1 << 20))
listener $TARGET_IP:4420
subsystem $T1 $HOST_NQN
namespace memory 64 4096
namespace memory 32 4096
target_start

# rights ARGUMENTS...: changes what the host may do.
rights() { expect "host set" sluice host set $T1 $HOST_NQN "$@"; }
read_only() { [ "$(blockdev --getro "$1")" = "$2" ]; }
write_to() { dd if=/tmp/data of="$1" bs=4k count=16 oflag=direct conv=notrunc; }
head -c $((16 * 4096)) /dev/urandom >/tmp/data

connect $T1 -i 2
d=$(disk $T1 1)
expect "a write" write_to "$d"

step "the disk of a connected host becomes read only"
refuse "without force" sluice host set $T1 $HOST_NQN --read-only on
read_only "$d" 0 || fail "a change that was refused was made"
rights --read-only on --force
eventually 5 read_only "$d" 1 || fail "the host still takes its disk for one that it may write to"
refuse "a write" write_to "$d"
cmp -n $((16 * 4096)) /tmp/data "$d" || fail "what was written before is not there"
# Past the block layer, which refuses by itself: Write, Write Zeroes, Dataset Management with AD.
for command in "1" "8" "9 --cdw11=4"; do
    # shellcheck disable=SC2086 # a number and perhaps an option
    said=$(nvme io-passthru "/dev/ng${d#/dev/nvme}" -n 1 -l 4096 -w -i /tmp/data -o $command 2>&1) &&
        fail "opcode $command: $said"
    contains "opcode $command" "$said" '[Ww]rite [Pp]rotected'
done
contains "NSATTR" "$(nvme id-ns "$d")" '^nsattr +: 0x1$|nsattr.*: *(0x)?1$'

step "the disk is writable again"
rights --read-only off
eventually 5 read_only "$d" 0 || fail "the host still takes its disk for read only"
expect "a write" write_to "$d"

step "a namespace goes and comes"
eventually 5 namespace_of $T1 2 || fail "the host does not see namespace 2"
rights --namespaces 1 --force
eventually 5 no_namespace $T1 2 || fail "the host still has namespace 2"
expect "the other namespace" dd if="$d" of=/dev/null bs=1M count=8 iflag=direct
refuse "descriptors of a namespace that is not seen" nvme ns-descs "/dev/$(controller $T1)" -n 2
rights --all-namespaces
eventually 5 namespace_of $T1 2 || fail "the host does not see namespace 2 again"
eventually 5 size_is "$(disk $T1 2)" $((32 * MIB)) || fail "namespace 2 has another size"

step "a class is lowered"
# High, in bits 9:8 of CDW13.
high() {
    nvme io-passthru "/dev/ng${d#/dev/nvme}" -n 1 -o 2 -l 4096 --cdw10=0 --cdw12=0 --cdw13=0x200 -r
}
reads() { metric "sluicegate_class_operations_total{class=\"$1\",operation=\"read\"}"; }
lowered() {
    metric "sluicegate_host_lowered_operations_total{host=\"$HOST_NQN\",subsystem=\"$T1\",class=\"high\"}"
}
expect "a read" high
same "reads as High" "$(reads high)" 1
rights --max-class medium
expect "a read" high
same "reads as High" "$(reads high)" 1
same "reads as Medium" "$(reads medium)" 1
same "commands that were lowered" "$(lowered)" 1
contains "what the host may do" "$(sluice --wide host list $T1)" "$HOST_NQN .*at most medium"
rights --max-class none
expect "a read" high
same "reads as High" "$(reads high)" 2

step "a host leaves when it may not come from its address any more"
refuse "without force" sluice host set $T1 $HOST_NQN --address 10.9.0.0/16
rights --address 10.9.0.0/16 --force
eventually 10 controller_not_live $T1 || fail "the host is still connected"
nvme disconnect -n $T1 >/dev/null 2>&1 || true
eventually 10 no_controller $T1 || fail "the controller stays"
start=$SECONDS
refuse "a connection from another address" nvme connect -t "$TRANSPORT" -a $TARGET_IP -s 4420 -n $T1 \
    -q $HOST_NQN -I $HOST_ID
[ $((SECONDS - start)) -lt 10 ] || fail "the refusal took $((SECONDS - start)) s"
contains "the log" "$(cat /run/sluiced-*.log)" 'a host was refused: .*address'
rights --address $HOST_IP
connect $T1
disconnect $T1

step "rights outlive a kill and a restart"
rights --read-only on --namespaces 1
target_kill
target_start
connect $T1
d=$(disk $T1 1)
read_only "$d" 1 || fail "the disk may be written to after a restart"
no_namespace $T1 2 || fail "the host sees namespace 2 after a restart"
disconnect $T1
pass
