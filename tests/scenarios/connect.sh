#!/bin/bash
# The administrator's commands against a connected controller.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory 128 4096
namespace memory 64 512
target_start

step "digests: all four combinations"
digests=("")
if over tcp; then digests+=("--hdr-digest" "--data-digest" "--hdr-digest --data-digest"); fi
for digests in "${digests[@]}"; do
    # shellcheck disable=SC2086
    connect $T1 $digests
    d=$(disk $T1 1)
    write_verify digest "$d" --rw=randrw --bssplit=4k/50:64k/30:512k/20 --size=8m --iodepth=8
    disconnect $T1
done

step "list, id-ctrl, id-ns"
connect $T1
c=/dev/$(controller $T1) d=$(disk $T1 1) small=$(disk $T1 2)
contains "nvme list" "$(nvme list)" "^$d "
contains "nvme list-subsys" "$(nvme list-subsys)" "$T1"
id=$(nvme id-ctrl "$c")
contains "subsystem" "$id" "^subnqn +: $T1"
contains "serial" "$id" '^sn +: *[^ ]'
contains "version" "$id" '^ver +: 0x(1|2)0[0-9a-f]{3,4}'
contains "keep alive support" "$id" '^kas +: [1-9]'
contains "command retry" "$id" '^ioccsz +: [1-9]'
nvme id-ctrl "$c" -o binary >/tmp/id && same "identify length" "$(stat -c %s /tmp/id)" 4096
id=$(nvme id-ns "$d")
contains "size" "$id" '^nsze +: 0x8000$'
contains "LBA format" "$id" 'lbaf +[0-9]+ : ms:0 +lbads:12 .*in use'
contains "LBA format" "$(nvme id-ns "$small")" 'lbaf +[0-9]+ : ms:0 +lbads:9 .*in use'
same "block size" "$(blockdev --getss "$small")" 512
list=$(nvme list-ns "$c")
contains "active namespaces" "$list" '\[ +0\]:(0x)?1$'
contains "active namespaces" "$list" '\[ +1\]:(0x)?2$'
uuid=$(nvme ns-descs "$d")
contains "namespace UUID" "$uuid" 'uuid +: [0-9a-f-]{36}'

step "logs"
expect "error log" nvme error-log "$c" -e 4
smart=$(nvme smart-log "$c")
contains "SMART" "$smart" '^critical_warning[[:space:]]+: 0'
expect "firmware log" nvme fw-log "$c"
# Commands supported and effects: 256 dwords of admin commands, then of I/O commands; bit 0 of
# each says that the command is supported. Identify is 06h, Read 02h.
nvme get-log "$c" -i 5 -l 4096 -b >/tmp/effects 2>/tmp/err || fail "effects log: $(cat /tmp/err)"
supported() { [ $(($(od -An -tu1 -j "$1" -N 1 /tmp/effects) & 1)) = 1 ]; }
supported $((6 * 4)) || fail "Identify is not in the effects log"
supported $((1024 + 2 * 4)) || fail "Read is not in the effects log"
if target_can cli; then
    # The tool reads as much as there may be of the log, 4 KiB at a time.
    ana=$(nvme ana-log "$c" 2>&1) || fail "nvme ana-log: $ana"
    contains "the group of the namespaces" "$ana" '(optimized|0x1)'
    contains "the group of missing disks" "$ana" '(inaccessible|0x3)'
fi
expect "changed namespace list" nvme changed-ns-list-log "$c"
expect "get-log by number" nvme get-log "$c" -i 2 -l 512
if target_can cli; then
    expect "supported log pages" nvme supported-log-pages "$c"
    expect "get-log with an offset" nvme get-log "$c" -i 2 -l 256 -o 256
fi

step "features"
for f in 7 0xb 0xf; do expect "get-feature $f" nvme get-feature "$c" -f $f; done
if target_can cli; then
    for f in 1 2 4 6; do expect "get-feature $f" nvme get-feature "$c" -f $f; done
    # Weights are the operator's: a host that sets its own is told that it cannot.
    before=$(nvme get-feature "$c" -f 1)
    refuse "other weights" nvme set-feature "$c" -f 1 -v 0x0a060203
    same "the weights" "$(nvme get-feature "$c" -f 1)" "$before"
fi
refuse "an unknown feature" nvme get-feature "$c" -f 0xbf
refuse "an unknown log page" nvme get-log "$c" -i 0xbe -l 512

step "compare and verify"
head -c 8192 /dev/urandom >/tmp/data
expect "write" nvme write "$d" -s 16 -c 1 -z 8192 -d /tmp/data
expect "read" nvme read "$d" -s 16 -c 1 -z 8192 -d /tmp/back
expect "same data" cmp /tmp/data /tmp/back
if target_can compare; then
    expect "compare" nvme compare "$d" -s 16 -c 1 -z 8192 -d /tmp/data
    refuse "compare of other data" nvme compare "$d" -s 17 -c 1 -z 8192 -d /tmp/data
    expect "verify" nvme verify "$d" -s 16 -c 1
fi
if target_can cli; then # nvmet says Capacity Exceeded
    out=$(nvme read "$d" -s 32767 -c 1 -z 8192 2>&1 || true)
    contains "a read past the end" "$out" '(LBA_RANGE|LBA Out of Range)'
fi

step "reset"
fio "${FIO[@]}" --name=r --filename="$d" --rw=randrw --bs=4k --iodepth=8 \
    --runtime=4 --time_based --rate_iops=500 --output=/tmp/reset.out &
fio=$!
sleep 1
expect "reset" nvme reset "$c"
eventually 10 controller_live $T1 || fail "not live after a reset"
sleep 0.5
echo 1 >/sys/class/nvme/"$(controller $T1)"/reset_controller
eventually 10 controller_live $T1 || fail "not live after a reset by sysfs"
wait $fio || fail "fio over a reset: $(cat /tmp/reset.out)"
expect "I/O after the reset" dd if="$d" of=/dev/null bs=1M count=4 iflag=direct

step "disconnect"
disconnect $T1
eventually 5 no_namespace $T1 1 || fail "the namespace stays"
if target_can cli; then
    step "the log has a line for each connection of the host that comes and goes"
    log=/run/sluiced-1.log
    left() { [ "$(grep -c "a host has left" $log)" = "$(grep -c "a host has connected" $log)" ]; }
    eventually 5 left || fail "a line for each that comes and goes: $(grep "a host" $log)"
    contains "how it left" "$(grep "a host has left" $log | tail -1)" "it shut the controller down"
    contains "its queues" "$(grep "a host has left" $log | tail -1)" "queues=[1-9]"
fi
pass
