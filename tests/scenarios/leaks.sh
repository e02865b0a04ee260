#!/bin/bash
# Connecting and disconnecting leaves the target's memory and descriptors where they were.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 64 4096
target_start
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/"$DAEMON"/status; }
descriptors() { find /proc/"$DAEMON"/fd -mindepth 1 | wc -l; }
once() {
    connect $T1 "$@"
    expect "read" dd if="$(disk $T1 1)" of=/dev/null bs=64k count=4 iflag=direct
    disconnect $T1
}

step "some rounds that do not count"
for _ in 1 2 3 4; do once; done
eventually 5 no_controllers || fail "controllers stay"
if target_can process; then
    sleep 0.5
    rss_before=$(rss) descriptors_before=$(descriptors)
fi

step "24 rounds"
for i in $(seq 1 24); do
    case $((i % 3)) in 0) once --hdr-digest --data-digest ;; 1) once -i 1 ;; *) once ;; esac
done
eventually 5 no_controllers || fail "controllers stay"
if target_can process; then
    eventually 5 test "$(descriptors)" -le "$descriptors_before" ||
        fail "descriptors: $descriptors_before, then $(descriptors)"
    grown=$(($(rss) - rss_before))
    echo "resident memory: $rss_before KiB, then $(rss) KiB; descriptors: $(descriptors)"
    [ $grown -le 768 ] || fail "resident memory grew by $grown KiB"
fi

step "connections that are cut, refused or never used"
for i in $(seq 1 24); do
    bash -c "exec 3<>/dev/tcp/$TARGET_IP/4420; head -c $((i * 97)) /dev/urandom >&3" || true
done
bash -c "for i in {1..40}; do eval \"exec \$((i+10))<>/dev/tcp/$TARGET_IP/4420\"; done; sleep 1"
once
if target_can process; then
    eventually 10 test "$(descriptors)" -le "$descriptors_before" || {
        sleep 3
        [ "$(descriptors)" -le "$descriptors_before" ] ||
            fail "descriptors: $descriptors_before, then $(descriptors)"
    }
fi
pass
