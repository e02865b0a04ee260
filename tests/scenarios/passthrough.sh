#!/bin/bash
# A real NVMe namespace behind the target: what the device is shows through to the host.
# time: virtual
# cpus: 1
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
device=$(nvme_device 128 512)
subsystem $T1 any
namespace nvme "/dev/ng${device#nvme}" 512
target_start
connect $T1
c=/dev/$(controller $T1) d=$(disk $T1 1) local=/dev/$device
generic=/dev/ng${d#/dev/nvme}

field() { sed -n "s/^$2 *: *//p" <<<"$1"; }

step "the device's identity shows through"
here=$(nvme id-ns "$local") there=$(nvme id-ns "$d")
for f in nsze ncap nlbaf dlfeat; do
    same "id-ns $f" "$(field "$there" $f)" "$(field "$here" $f)"
done
contains "LBA format" "$there" 'lbads:9 .*in use'
same "block size" "$(blockdev --getss "$d")" 512
if target_can cli; then
    here=$(nvme id-ctrl "$local") there=$(nvme id-ctrl "$c")
    # A volatile write cache of the device must reach the host, which else never flushes.
    same "id-ctrl vwc bit 0" $(($(field "$there" vwc) & 1)) $(($(field "$here" vwc) & 1))
fi
blocks=$(blockdev --getsz "$d")
same "size" "$blocks" "$(blockdev --getsz "$local")"

step "commands that nvme-cli sends by number"
head -c 4096 /dev/urandom >/tmp/data
# Write, then read, 8 blocks of 512 bytes at LBA 64 with a class in CDW13 bits 9:8.
expect "write with a class" nvme io-passthru "$generic" -o 1 -n 1 -l 4096 --cdw10=64 --cdw12=7 --cdw13=0x200 -w -i /tmp/data
nvme io-passthru "$generic" -o 2 -n 1 -l 4096 --cdw10=64 --cdw12=7 --cdw13=0x100 -r -b >/tmp/back 2>/tmp/err ||
    fail "read with a class: $(cat /tmp/err)"
expect "the data read" cmp /tmp/data /tmp/back
expect "the device's data" stored "$local" 32768 /tmp/data
expect "write-zeroes" nvme write-zeroes "$d" -s 64 -c 7
expect "zeroes on the device" stored "$local" 32768 "$(zeroes 4096)"
expect "deallocate" nvme dsm "$d" -n 1 -d -s 1024 -b 64
expect "flush" nvme flush "$d" -n 1

step "the host gets the device's own refusal"
# The device here knows no Compare and no Verify.
status() { sed -n 's/.*status: *\([A-Z_a-z ]*\).*/\1/p' <<<"$1" | tail -1; }
commands=("compare DEV -s 0 -c 0 -z 512 -d /tmp/data" "verify DEV -s 0 -c 0")
for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    here=$(nvme ${command/DEV/$local} 2>&1 || true)
    # shellcheck disable=SC2086
    there=$(nvme ${command/DEV/$d} 2>&1 || true)
    [ -n "$(status "$here")" ] || fail "${command%% *} on the device said: $here"
    same "status of ${command%% *}" "$(status "$there")" "$(status "$here")"
done
if target_can cli; then # the end of the namespace is for the target to know
    out=$(nvme read "$d" -s "$blocks" -c 0 -z 512 2>&1 || true)
    contains "a read past the end" "$out" '(LBA_RANGE|LBA Out of Range)'
fi

step "large transfers are split for the device"
write_verify large "$d" --rw=write --bs=4m --size=64m --iodepth=4
write_verify odd "$d" --rw=randwrite --bs=1031680 --size=32m --iodepth=4

# goes_and_comes NSID: loads that namespace from a host while its device is reset five times, disappears and returns.
goes_and_comes() {
    local disk fio
    disk=$(disk $T1 "$1")
    fio "${FIO[@]}" --name=away --filename="$disk" --rw=randrw --bs=4k --iodepth=8 \
        --size=32m --verify=crc32c --runtime=6 --time_based --rate=2m --output=/tmp/away.out >/dev/null 2>&1 &
    fio=$!
    for _ in 1 2 3 4 5; do
        sleep 0.3
        nvme reset "/dev/${device%n*}"
    done
    contains "the namespace" "$(sluice namespace list --json)" '"ready"'
    nvme disconnect -n $DEVICE_NQN >/dev/null
    sleep 1
    expect "the target still answers" sluice connections
    contains "the namespace" "$(sluice namespace list --json)" '"unavailable"'
    same "state" "$(controller_state $T1)" live
    nvme_device_connects >/dev/null || fail "the device does not come back"
    wait $fio || fail "fio: $(cat /tmp/away.out)"
    refuse "errors at the host" grep -E 'error' <(dmesg | grep nvme1)
}
if target_can process; then
    step "hosts notice neither resets of the device nor that it goes and comes back"
    goes_and_comes 1

    step "nor where it is served as a block device"
    expect "namespace remove" sluice namespace remove $T1 1 --force
    expect "namespace add" sluice namespace add $T1 --nsid 2 --backend block --path "/dev/$device" --block-size 512
    eventually 5 namespace_of $T1 2 || fail "the host does not see the block device"
    goes_and_comes 2
fi
disconnect $T1
pass
