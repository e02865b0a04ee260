#!/bin/bash
# qtcp-unlike.sh ways|rate: three unlike hosts read over a link that is slower than what they ask for,
# each as its class says: 5:3:2 with round trips of 0, 3 and 8 ms beside the queue; or two with equal
# weights beside one with a rate.
# time: virtual
# kernel: nvme_core.multipath=N
DELAY=
. /run/scenarios/qtcp-lib.sh
qos_boot
TIME=2
CLASSES=('' high medium low) WEIGHTS=('' 5 3 2) DELAYS=('' 0ms 3ms 8ms)
[ "$1" != rate ] || WEIGHTS=('' 1 1 '') DELAYS=('' 1ms 1ms 1ms)

# load NAME: loads all hosts at once; sets GOT to the Mbit/s of each, and TOTAL to those of all.
load() {
    local host jobs=()
    for host in 1 2 3; do jobs+=("${CLASSES[host]} ${DISKS[host]} 8 bs=128k"); done
    fio_hosts "$1" $TIME "${jobs[@]}"
    GOT=('')
    for host in 1 2 3; do GOT+=("$(mbits "$1" "${CLASSES[host]}" 128)"); done
    TOTAL=$(sum "${GOT[@]:1}")
}

# see TOLERANCE WEIGHT...: prints the table of the hosts that have a weight.
see() {
    local tolerance=$1 host rows=()
    shift
    for host in 1 2 3; do
        [ -z "${!host:-}" ] || rows+=("${CLASSES[host]} ${!host} ${GOT[host]}")
    done
    UNIT=Mbit/s shares "$tolerance" "${rows[@]}"
}

three_hosts high medium low
for host in 1 2 3; do
    inside "$(home $host)" tc qdisc replace dev "$(wire $host)" root netem delay "${DELAYS[host]}" limit 10000
    if [ -n "${WEIGHTS[host]}" ]; then
        network_qos class "${CLASSES[host]}" --share "${WEIGHTS[host]}"
    else
        network_qos class "${CLASSES[host]}" --rate "$((LINK * 28 / 100))Mbit/s"
    fi
done

step "without classes"
load plain
plain=$TOTAL
see 1000 1 1 1

step "classes"
network_qos --enabled on
load classes
see 10 "${WEIGHTS[@]:1}"
[ -n "${WEIGHTS[3]}" ] || nearly "Low, for its rate" "${GOT[3]}" $((LINK * 28 / 100)) 80
nearly "the total, for that without" "$TOTAL" "$plain" 85
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
pass
