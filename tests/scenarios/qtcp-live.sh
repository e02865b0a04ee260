#!/bin/bash
# The parts that classes get of the network change while hosts read: shares, a rate, a class of the
# whole listener, off. Each change is seen after a second, and clearly: it moves a host's part by half
# or more, and 15 % of a part, or 20 % of a rate, may be missing. How exactly parts are kept is for
# qtcp-shares.sh and qtcp's own tests.
# time: virtual
# kernel: nvme_core.multipath=N
LINK=200 # ten seconds of load are many packets
. /run/scenarios/qtcp-lib.sh
qos_boot
three_hosts high medium low
network_qos --enabled on

# now: sets N to the Mbit/s of host 1, 2, 3 over a second.
now() {
    local before
    sleep 1
    before=$(link_bytes read)
    sleep 1
    read -ra N <<<"$(since "$before" "$(link_bytes read)" |
        perl -ane 'printf "%.2f " x 3, map { $_ * 8e-6 / $F[3] } @F[0 .. 2]')"
}

# see WEIGHT_OF_HOST1 2 3: prints the hosts' shares as they are now.
see() {
    now
    UNIT=Mbit/s shares 15 "host-1 $1 ${N[0]}" "host-2 $2 ${N[1]}" "host-3 $3 ${N[2]}"
}

fio_hosts live 12 "a ${DISKS[1]} 8 bs=128k" "b ${DISKS[2]} 8 bs=128k" "c ${DISKS[3]} 8 bs=128k" &
fio=$!
sleep 1

step "3:2:1"
see 3 2 1

step "other shares"
network_qos class low --share 8
see 3 2 8

# By shares High would have 46 Mbit/s.
step "a rate"
network_qos class high --rate 80Mbit/s
rate() {
    now
    UNIT=Mbit/s shares 15 "host-2 2 ${N[1]}" "host-3 8 ${N[2]}" &&
        nearly "High, for its rate of 80 Mbit/s" "${N[0]}" 80 80 && nearly "the rate, for High" 80 "${N[0]}" 80
}
rate

step "a listener's class"
expect "listener" sluice qos listener "$(listener_of 1)" low
see 4 2 4

step "off"
network_qos --enabled off
see 1 1 1
kill -0 $fio || fail "the load ended before all was seen"
wait $fio || fail "fio"
lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]esetting controller|timeout|reconnect'
pass
