#!/bin/bash
# qos-classes.sh model|passthrough: three connections of a real host with a class each, named in each
# of the ways there are, share a device that is slower than their load by the weights 3:2:1. The
# device is the daemon's model of one, or a real NVMe namespace that the kernel's driver serves.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
DEPTH=96 TIME=2

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

# measure DISK...: waits until queues have filled, then TIME seconds; sets N to the operations of urgent, high,
# medium and low that the target counted meanwhile, GOT to those that the host counted at each disk.
measure() {
    local before got
    sleep 0.5
    before=$(classes_done) got=$(hosts_done "$@")
    sleep $TIME
    read -ra N <<<"$(since "$before" "$(classes_done)")"
    [ $# = 0 ] || read -ra GOT <<<"$(since "$got" "$(hosts_done "$@")")"
    same "urgent commands" "${N[0]}" 0
    echo "  what the target counted"
    shares 1 "high 3 ${N[1]}" "medium 2 ${N[2]}" "low 1 ${N[3]}"
    within 1 "the device's rate" "$(sum "${N[@]}")" $((1000 * TIME))
}

# three HOW HIGH MEDIUM LOW: loads three controllers at once; shows the shares that the target counted, those
# that the host had, and the mean latency of each: its depth for its rate.
three() {
    local fio i class mean p50
    step "classes by $1"
    shift
    fio_hosts classes $((TIME + 1)) "high /dev/${1}n1 $DEPTH" "medium /dev/${2}n1 $DEPTH" "low /dev/${3}n1 $DEPTH" &
    fio=$!
    measure "${1}n1" "${2}n1" "${3}n1"
    echo "  what the host got"
    shares 1 "high 3 ${GOT[0]}" "medium 2 ${GOT[1]}" "low 1 ${GOT[2]}"
    wait $fio || fail "fio"
    # A queue that is always full waits for its depth at its rate.
    i=3
    for class in high medium low; do
        read -r _ mean _ _ p50 <<<"$(fio_got classes $class)"
        within 5 "mean latency of $class, us" "$mean" $((DEPTH * 6000 / i))
        within 5 "median latency of $class, us" "$p50" $((DEPTH * 6000 / i))
        i=$((i - 1))
    done
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
codes=(0x200 0x100 0x000) processes=()
for i in 0 1 2; do
    # 20 processes for each class.
    commands_with ${codes[i]} "/dev/ng${c#nvme}n1" $((TIME + 1)) 20 >/dev/null &
    processes+=($!)
done
measure
for process in "${processes[@]}"; do wait "$process" || fail "a process with commands of its own"; done
detach "$c"
pass
