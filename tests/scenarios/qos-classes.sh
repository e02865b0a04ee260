#!/bin/bash
# qos-classes.sh model|passthrough: three connections of a real host with a class each, named in each
# of the ways there are, share a device that is slower than their load by the weights 3:2:1. The
# device is the daemon's model of one, or a real NVMe namespace that the kernel's driver serves.
# alone: it measures what each host gets
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
DEPTH=96 TIME=3

# nvme-cli takes a second connection to the same address and port for a mistake.
for port in 4420 4425 4426; do listener $TARGET_IP:$port; done
port=4421
for class in high medium low; do
    listener $TARGET_IP:$port
    echo "class = \"$class\"" | configure
    port=$((port + 1))
done
subsystem $T1 any
# Both complete 1,000 commands a second.
case $1 in
model) slow_disk "8 ms" 8 ;;
passthrough)
    device=$(slow_nvme_device 8 8)
    namespace nvme "/dev/ng${device#nvme}" 4096
    ;;
esac
configure <<END
[qos]
weights = [3, 2, 1]
window = 16
[[policy]]
host = "$HOST_NQN"
class = "high"
[[policy]]
host = "$OTHER_NQN"
class = "medium"
END
target_start

# load HIGH MEDIUM LOW: loads three controllers at once; prints the shares that the target counted for
# each class, and those that fio saw at each disk. fio counts all that came in the end, too.
load() {
    local before after n rows=() i good=0
    fio_hosts classes $TIME "high /dev/${1}n1 $DEPTH" "medium /dev/${2}n1 $DEPTH" "low /dev/${3}n1 $DEPTH" &
    sleep 1.5
    before=$(classes_done)
    sleep $((TIME - 1))
    after=$(classes_done)
    wait $! || fail "fio"
    read -ra n <<<"$(since "$before" "$after")"
    same "urgent commands" "${n[0]}" 0
    echo "  what the target counted"
    shares 5 "high 3 ${n[1]}" "medium 2 ${n[2]}" "low 1 ${n[3]}" || good=1
    echo "  what fio saw"
    for i in "high 3" "medium 2" "low 1"; do rows+=("$i $(fio_got classes "${i% *}" | cut -d' ' -f1)"); done
    shares 5 "${rows[@]}" || good=1
    return $good
}

# three HOW HIGH MEDIUM LOW: shows the shares of three controllers.
three() {
    step "classes by $1"
    shift
    three_times load "$@"
    detach "$@"
}

same_host=(-q $HOST3_NQN -I $HOST3_ID -i 1)
high=$(attach 4421 "${same_host[@]}")
medium=$(attach 4422 "${same_host[@]}")
low=$(attach 4423 "${same_host[@]}")
three "the listener" "$high" "$medium" "$low"
[ "$1" = model ] || pass

# The byte that --tos sets is four times the DSCP: 34, 18 and 8 by default. The connection's mark
# counts before the host's policy, which says something else here.
high=$(attach 4420 "${same_host[@]}" --tos=136)
medium=$(attach 4425 -q $HOST_NQN -I $HOST_ID -i 1 --tos=72)
low=$(attach 4426 -q $OTHER_NQN -I $OTHER_ID -i 1 --tos=32)
three "nvme connect --tos" "$high" "$medium" "$low"

high=$(attach 4420 -q $HOST_NQN -I $HOST_ID -i 1)
medium=$(attach 4425 -q $OTHER_NQN -I $OTHER_ID -i 1)
low=$(attach 4426 "${same_host[@]}")
three "the host's NQN" "$high" "$medium" "$low"

step "classes by each command"
# The same host on the same connection: CDW13 bits 9:8.
c=$(attach 4420 "${same_host[@]}")
commands_have_classes "$c"
# loop: 20 processes for each class.
loop() {
    local codes=(0x200 0x100 0x000) processes=() process before n i
    for i in 0 1 2; do
        commands_with ${codes[i]} "/dev/ng${c#nvme}n1" $((TIME + 1)) 20 >/dev/null &
        processes+=($!)
    done
    sleep 1.5
    before=$(classes_done)
    sleep $((TIME - 1))
    read -ra n <<<"$(since "$before" "$(classes_done)")"
    for process in "${processes[@]}"; do wait "$process" || fail "a process with commands of its own"; done
    echo "  what the target counted"
    shares 5 "high 3 ${n[1]}" "medium 2 ${n[2]}" "low 1 ${n[3]}"
}
three_times loop
detach "$c"
pass
