#!/bin/bash
# SIGTERM ends the target in order, also under I/O; the host's data is whole and it comes back.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
store /tmp/store
truncate -s 128M /tmp/store/ns
subsystem $T1 any
namespace file /tmp/store/ns 4096
if target_can process; then
    namespace null 64 4096
    echo 'service_time = "5 s"' >>$CONFIG
fi
target_start
connect $T1 -k 5
d=$(disk $T1 1)

step "SIGTERM under I/O, and a restart"
fio_run drain --filename="$d" --rw=randwrite --bs=16k --size=24m --iodepth=32 --verify=crc32c \
    --verify_fatal=1 --do_verify=1 --rate=4m &
fio=$!
sleep 2
start=$SECONDS
target_stop || fail "exit code $? on SIGTERM"
[ $((SECONDS - start)) -le 12 ] || fail "the drain took $((SECONDS - start)) s"
sleep 1
target_start
eventually 20 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
wait $fio || fail "fio"

step "SIGTERM without I/O is quick"
disconnect $T1
start=$SECONDS
target_stop || fail "exit code $? on SIGTERM"
[ $((SECONDS - start)) -le 3 ] || fail "the drain took $((SECONDS - start)) s"

if target_can process; then
    step "a second SIGTERM ends at once"
    target_start
    connect $T1 -k 5
    # The first one waits for commands that are in the device for 5 s.
    fio "${FIO[@]}" --name=two --filename="$(disk $T1 2)" --rw=randwrite --bs=4k --iodepth=64 \
        --runtime=60 --time_based --output=/tmp/two.out >/dev/null 2>&1 &
    fio=$!
    sleep 1
    kill -TERM $DAEMON
    sleep 0.05
    kill -TERM $DAEMON 2>/dev/null || true
    gone() { ! kill -0 $DAEMON; }
    eventually 2 gone || fail "still there 2 s after the second SIGTERM"
    DAEMON=0
    kill -9 $fio

    step "changes made live survive a restart"
    target_start
    add_subsystem $T2
    add_namespace $T2 1 32
    target_stop || fail "exit code $? on SIGTERM"
    target_start
    connect $T2
    size_is "$(disk $T2 1)" $((32 << 20)) || fail "the added namespace has another size"

    step "shutdown by the command line"
    expect "shutdown" sluice shutdown
    eventually 12 gone || fail "still there after sluice shutdown"
fi
pass
