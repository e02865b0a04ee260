#!/bin/bash
# One target over TCP and RDMA at once: the same address and port over both, discovery, multipath between
# them, listeners that come and go, IPv6, and a device that is taken away and comes back under I/O.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
LISTENER=$TARGET_IP:4420
ip addr add fd00::2/64 dev host0 nodad
ip -n target addr add fd00::1/64 dev target0 nodad
listener $LISTENER
TRANSPORT=tcp listener $LISTENER
subsystem $T1 any
namespace memory 128 4096
target_start

# path_of TRANSPORT: prints the controller over it.
path_of() {
    local c
    for c in /sys/class/nvme/nvme*; do
        if holds "$c/transport" "$1" && holds "$c/state" live; then
            echo "${c##*/}"
            return
        fi
    done
    return 1
}
no_path_of() { ! path_of "$1"; }
# closed, not_closed: say whether the RDMA listener is closed. (`sluice status` fails where something is
# not right.)
closed() { grep -q "listener rdma:.*closed" <<<"$(sluice status || true)"; }
not_closed() { ! closed; }

step "discovery lists both"
found=$(nvme discover -t tcp -a $TARGET_IP -s 4420 -q $HOST_NQN -I $HOST_ID)
contains "discovery over TCP" "$found" 'trtype: +rdma'
contains "discovery over TCP" "$found" 'trtype: +tcp'
contains "discovery over TCP" "$found" 'rdma_qptype: +connected'
contains "discovery over TCP" "$found" 'rdma_cms: +rdma-cm'
found=$(nvme discover -t rdma -a $TARGET_IP -s 4420 -q $HOST_NQN -I $HOST_ID)
contains "discovery over RDMA" "$found" 'trtype: +tcp'

step "a host has paths over both to one disk"
connect $T1 -k 5
TRANSPORT=tcp connect $T1 -k 5
d=$(disk $T1 1)
eventually 5 path_of rdma || fail "no path over RDMA"
eventually 5 path_of tcp || fail "no path over TCP"
same "disks" "$(lsblk -dno NAME | grep -c '^nvme')" 1
same "optimized paths" "$(cat /sys/class/nvme/nvme*/nvme*/ana_state | sort -u)" optimized
contains "connections" "$(sluice connections --json)" "\"listener\": *\"rdma:$LISTENER\""

step "the RDMA device goes away under I/O, and comes back"
fio_run device --filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=21m --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --rate=2m &
fio=$!
sleep 1
in_target rdma link del rdma_target
eventually 15 no_path_of rdma || fail "the host has a path over a device that is gone"
eventually 5 closed || fail "the listener is not said to be closed"
kill -0 $fio || fail "fio gave up, though TCP has a path"
in_target rdma link add rdma_target type rxe netdev target0
eventually 10 not_closed || fail "the listener does not open again"
eventually 20 path_of rdma || fail "the host does not reconnect over RDMA"
wait $fio || fail "fio"

step "devices that go leave nothing behind in the daemon"
# kept: prints what the daemon has: descriptors, locked memory, mappings of RDMA devices.
kept() {
    echo "$(find /proc/$DAEMON/fd -type l | wc -l) descriptors," \
        "$(sed -n 's/^VmPin:[[:space:]]*//p' /proc/$DAEMON/status) locked," \
        "$(grep -c uverbs /proc/$DAEMON/maps || true) mappings"
}
# keeps FIRST: says whether it has no more than at first. (A connection of before may end meanwhile.)
keeps() {
    local now
    now=$(kept)
    [ "${now#* }" = "${1#* }" ] && [ "${now%% *}" -le "${1%% *}" ]
}
first=''
for round in 1 2; do
    fio_run gone-$round --filename="$d" --rw=randwrite --bssplit=4k/70:64k/30 --size=64m --iodepth=16 \
        --time_based --runtime=3 --rate=8m &
    fio=$!
    sleep 1
    in_target rdma link del rdma_target
    eventually 15 no_path_of rdma || fail "the host has a path over a device that is gone"
    wait $fio || fail "fio"
    if [ $round = 1 ]; then
        # What is freed late is freed by now: fio has run for two seconds more.
        first=$(kept)
        echo "without a device: $first"
        contains "without a device" "$first" ' 0 kB locked, 0 mappings$'
    else
        eventually 5 keeps "$first" || fail "round $round: $(kept), at first $first"
    fi
    in_target rdma link add rdma_target type rxe netdev target0
    eventually 10 not_closed || fail "the listener does not open again"
    eventually 20 path_of rdma || fail "the host does not reconnect over RDMA"
    echo "with a device: $(kept)"
done
contains "the daemon's log" "$(cat /run/sluiced-$STARTS.log)" \
    'an RDMA device is gone or has failed device="rdma_target"'

step "the TCP listener goes, and its host goes on over RDMA"
fio_run tcp --filename="$d" --rw=randwrite --bs=4k --size=10m --iodepth=16 --verify=crc32c \
    --verify_fatal=1 --do_verify=1 --rate=2m &
fio=$!
sleep 1
refuse "removing without force" sluice listener remove $LISTENER
expect "remove" sluice listener remove $LISTENER --force
eventually 15 no_path_of tcp || fail "the host has a path through a listener that is gone"
wait $fio || fail "fio"
nvme disconnect -n $T1 >/dev/null

step "IPv6, live"
expect "add" sluice listener add '[fd00::1]:4421' --transport rdma
nvme connect -t rdma -a fd00::1 -s 4421 -n $T1 -q $HOST_NQN -I $HOST_ID || fail "connect over IPv6"
d=$(disk $T1 1)
write_verify ipv6 "$d" --rw=randwrite --bs=16k --size=16m --iodepth=8
nvme disconnect -n $T1 >/dev/null
expect "remove" sluice listener remove 'rdma:[fd00::1]:4421'
refuse "connect to a listener that is gone" \
    nvme connect -t rdma -a fd00::1 -s 4421 -n $T1 -q $HOST_NQN -I $HOST_ID

step "addresses without a device"
ip -n target link add plain type dummy
ip -n target addr add 10.8.0.1/24 dev plain
ip -n target link set plain up
refuse "an address of no RDMA device" sluice listener add 10.8.0.1:4430 --transport rdma
contains "the refusal" "$(sluice listener add 10.8.0.1:4430 --transport rdma 2>&1 || true)" 'rdma link show'
expect "TCP there" sluice listener add 10.8.0.1:4430

step "ports that go down and come up are told"
in_target rdma link add rdma_plain type rxe netdev plain
expect "a device there" sluice listener add 10.8.0.1:4430 --transport rdma
ip -n target link set plain down
logged() { grep -q "$1" /run/sluiced-$STARTS.log; }
eventually 5 logged 'a port of an RDMA device is down device="rdma_plain" port=1' || fail "no line of a port that is down"
ip -n target link set plain up
eventually 5 logged 'a port of an RDMA device is up device="rdma_plain" port=1' || fail "no line of a port that is up"
pass
