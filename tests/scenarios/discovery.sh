#!/bin/bash
# A host finds what it may use, and nothing else; a persistent discovery controller is told of changes.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
listener $TARGET_IP:4421
listener $TARGET_IP:8009 discovery_only
subsystem $T1 $HOST_NQN $OTHER_NQN
namespace memory 64 4096
subsystem $T2 $HOST_NQN
namespace memory 64 4096
target_start
port=4420 listeners=1
if target_can discovery-port; then port=8009 listeners=2; fi

discover() { # HOSTNQN HOSTID PORT
    nvme discover -t $TRANSPORT -a $TARGET_IP -s "$3" -q "$1" -I "$2" 2>&1 || true
}
entries() { grep -cE "^subnqn: +$2 *$" <<<"$1" || true; }

step "discover on the discovery port"
log=$(discover $HOST_NQN $HOST_ID $port)
same "entries of t1" "$(entries "$log" $T1)" $listeners
same "entries of t2" "$(entries "$log" $T2)" $listeners
contains "port" "$log" '^trsvcid: +4420'
[ $listeners = 1 ] || contains "second port" "$log" '^trsvcid: +4421'
lacks "address" "$log" 'traddr: +0\.0\.0\.0'

step "discover on an I/O port"
log=$(discover $HOST_NQN $HOST_ID 4420)
[ "$(entries "$log" $T1)" -ge 1 ] || fail "t1 is not on port 4420: $log"

step "another host sees what it may use"
log=$(discover $OTHER_NQN $OTHER_ID $port)
same "entries of t1" "$(entries "$log" $T1)" $listeners
same "entries of t2" "$(entries "$log" $T2)" 0

step "a host not allowed sees nothing and cannot connect"
stranger=nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-000000000003
stranger_id=5b0f4d9c-0000-4000-8000-000000000003
log=$(discover $stranger $stranger_id $port)
same "entries of t1" "$(entries "$log" $T1)" 0
same "entries of t2" "$(entries "$log" $T2)" 0
refuse "connect of a stranger" nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n $T1 -q $stranger -I $stranger_id
refuse "connect to t2 of the other host" nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n $T2 -q $OTHER_NQN -I $OTHER_ID
if target_can cli; then
    contains "what lets the host in" "$(cat /run/sluiced-1.log)" "sluice host add $T2 $OTHER_NQN"
fi
refuse "connect to an unknown subsystem" nvme connect -t $TRANSPORT -a $TARGET_IP -s 4420 -n $T3 -q $HOST_NQN -I $HOST_ID
if target_can discovery-port; then
    refuse "an I/O controller on the discovery port" nvme connect -t $TRANSPORT -a $TARGET_IP -s 8009 -n $T1 -q $HOST_NQN -I $HOST_ID
fi

step "connect-all"
expect "connect-all" nvme connect-all -t $TRANSPORT -a $TARGET_IP -s $port -q $HOST_NQN -I $HOST_ID
disk $T1 1 >/dev/null
disk $T2 1 >/dev/null
same "paths of t1" "$(grep -lx $T1 /sys/class/nvme/nvme*/subsysnqn | wc -l)" $listeners
expect "disconnect-all" nvme disconnect-all
eventually 10 no_controller $T1 || fail "t1 stays"
eventually 10 no_controller $T2 || fail "t2 stays"

step "a persistent discovery controller is told of a new subsystem"
uevents /tmp/uevents
expect "persistent discovery" nvme discover -t $TRANSPORT -a $TARGET_IP -s $port -q $HOST_NQN -I $HOST_ID --persistent
disc=$(controller nqn.2014-08.org.nvmexpress.discovery) || fail "no persistent discovery controller"
sleep 0.5
add_subsystem $T3
# Notice (2), information F0h (discovery log page changed), log page 70h.
eventually 5 grep -q 'NVME_AEN=0x70f002' /tmp/uevents ||
    fail "no discovery log change event on $disc: $(grep -a nvme /tmp/uevents | tail -3)"
log=$(discover $HOST_NQN $HOST_ID $port)
[ "$(entries "$log" $T3)" -ge 1 ] || fail "the new subsystem is not in the log: $log"
expect "disconnect-all" nvme disconnect-all

target_can cli || pass
step "a listener on all addresses is shown at those of the machine"
expect "listener add" sluice listener add 0.0.0.0:4430 --transport $TRANSPORT
log=$(discover $HOST_NQN $HOST_ID $port)
contains "the port" "$log" '^trsvcid: +4430'
lacks "addresses that the host cannot reach" "$log" 'traddr: +(0\.0\.0\.0|127\.)'
is_shown() { grep -Eq "^traddr: +$1 *$" <<<"$(discover $HOST_NQN $HOST_ID $port)"; }
ip -n target link add data type dummy
ip -n target addr add 10.8.0.1/24 dev data
refuse "an address of an interface that is down" is_shown 10.8.0.1
ip -n target link set data up
if over tcp; then
    eventually 15 is_shown 10.8.0.1 || fail "an address that came is not shown"
else
    # No RDMA device has this interface.
    sleep 11
    refuse "an address without RDMA" is_shown 10.8.0.1
fi

step "an address of the machine alone is not shown to others"
if over tcp; then
    expect "listener add" sluice listener add 127.0.0.1:4432
    log=$(discover $HOST_NQN $HOST_ID $port)
    lacks "a loopback address" "$log" '^traddr: +127\.|^trsvcid: +4432'
fi

step "a serial number is used once"
serial=$(sluice --json subsystem list | grep -oE '"serial": *"[^"]*"' | head -1 | cut -d'"' -f4)
refuse "a second subsystem with it" sluice subsystem add $T3-b --serial "$serial"

if over tcp; then
    step "a link-local listener is shown on its link"
    address=$(ip -n target -6 -o addr show dev target0 scope link | grep -oE 'fe80::[0-9a-f:]+')
    refuse "an interface that is missing" sluice listener add "[$address%target7]:4431"
    expect "listener add" sluice listener add "[$address%target0]:4431"
    contains "its name" "$(sluice listener list --json)" "\\[$address%target0\\]:4431"
    refuse "the address by another way" is_shown "$address"
    log=$(nvme discover -t tcp -a "$address%host0" -s 4431 -q $HOST_NQN -I $HOST_ID)
    contains "the address without its interface" "$log" "^traddr: +$address *$"
fi
pass
