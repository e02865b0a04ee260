#!/bin/bash
# The host's network is down for longer than the keep-alive timeout: the target ends the host's
# controller, and the host connects again and goes on. Meanwhile its disk is not taken from it.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 128 4096
target_start
connect $T1 -k 2
d=$(disk $T1 1)

step "the controller is there"
same "controllers at the target" "$(target_controllers)" 1
if target_can metrics; then before=$(metric sluicegate_keep_alive_expired_total); fi
fio_run net --filename="$d" --rw=randwrite --bs=4k --size=16m --iodepth=8 --verify=crc32c \
    --verify_fatal=1 --do_verify=1 --rate=2m &
fio=$!
sleep 2

step "the network goes down"
network_down
eventually 12 no_controllers || fail "the target still has $(target_controllers) controllers"
if target_can metrics; then
    after=$(metric sluicegate_keep_alive_expired_total)
    [ "${after:-0}" -gt "${before:-0}" ] || fail "keep-alive timeouts counted: ${before:-none}, then ${after:-none}"
fi
eventually 5 controller_not_live $T1 || fail "the host did not notice"
kill -0 $fio || fail "fio gave up"

step "the network comes back"
network_up
eventually 20 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
wait $fio || fail "fio"
same "controllers at the target" "$(target_controllers)" 1

step "I/O goes on over a short interruption"
reconnections() { dmesg | grep -c 'Successfully reconnected' || true; }
disconnect $T1
eventually 5 no_controllers || fail "controllers stay at the target"
connect $T1 -k 10
d=$(disk $T1 1)
fio_run short --filename="$d" --rw=randread --bs=4k --iodepth=8 --runtime=4 --time_based --rate_iops=500 &
fio=$!
sleep 1
before=$(reconnections)
network_down
if over tcp; then sleep 1; fi
network_up
wait $fio || fail "fio"
same "state" "$(controller_state $T1)" live
# TCP sends again what was lost, unnoticed by the host. Over soft RoCE a tenth of a second is enough to make
# the host's queue pair fail, so that the host connects again; the controller that it left behind lasts as
# long as its keep-alive timeout.
if over tcp; then same "reconnections" "$(reconnections)" "$before"; fi
disconnect $T1
eventually 20 no_controllers || fail "controllers stay at the target"

target_can cli || pass
# takes_disk STATE: checks that a namespace is not taken from the host, which is in that state.
takes_disk() {
    local out
    for change in "remove $T1 1" "resize $T1 1 64MiB"; do
        # shellcheck disable=SC2086
        if out=$(sluice namespace $change 2>&1); then fail "sluice namespace $change succeeded: $out"; fi
        contains "sluice namespace $change" "$out" "namespace 1 of $T1 is in use by host $HOST_NQN: it $1"
        contains "sluice namespace $change" "$out" "--force"
    done
    contains "sluice host list" "$(sluice --wide host list)" "$HOST_NQN +$HOST_IP"
    same "sluicegate_hosts_lost" "$(metric sluicegate_hosts_lost)" 1
}

step "a disk is not taken from a host that has lost its connection"
same "sluicegate_hosts_lost" "$(metric sluicegate_hosts_lost)" 0
connect $T1 -k 2
d=$(disk $T1 1)
fio_run lost --filename="$d" --rw=randwrite --bs=4k --size=2m --iodepth=8
network_down
eventually 12 no_controllers || fail "the target still has $(target_controllers) controllers"
eventually 15 controller_not_live $T1 || fail "the host did not notice"
takes_disk 'disconnected [0-9]+ (s|min) ago without a shutdown and can reconnect until 10 min after that;'

step "nor after the target was killed"
target_kill
target_start
takes_disk 'was connected before sluiced started [0-9]+ (s|min) ago, did not shut down,'
target_kill
cp $CONFIG /tmp/open
sed -i "s/^nqn = \"$T1\"/&\nrequire_authentication = true/" $CONFIG
target_start
contains "the log" "$(cat /run/sluiced-$STARTS.log)" "authentication is required.*$HOST_NQN|$HOST_NQN.*authentication is required"
cp /tmp/open $CONFIG
target_kill
target_start

step "it is free once the host has shut down"
network_up
eventually 30 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
if out=$(sluice namespace remove $T1 1 2>&1); then fail "the disk is taken from a connected host: $out"; fi
contains "sluice namespace remove" "$out" "1 connected host: $HOST_NQN"
disconnect $T1
eventually 5 no_controllers || fail "controllers stay at the target"
expect "resize" sluice namespace resize $T1 1 64MiB
expect "remove" sluice namespace remove $T1 1
pass
