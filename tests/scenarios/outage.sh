#!/bin/bash
# The file system under a disk is not mounted for ten minutes (Linux's default ctrl_loss_tmo), over two starts of the
# target: the host's file system waits, and loses nothing. With multipath, nothing else of the host waits for the disk:
# the target starts again in the middle of the outage, and the host has its other disk back within seconds. `single` is
# for a host without multipath (outage-single.sh): its commands are retried, and a reconnect waits for them.
# time: virtual
mode=${1:-multipath}
. /run/scenarios/lib.sh
boot
listener $TARGET_IP:4420
subsystem $T1 any
mkdir /tmp/below /tmp/aside /tmp/mnt
mount -t tmpfs -o size=48m tmpfs /tmp/below
truncate -s 32M /tmp/below/disk
truncate -s 8M /tmp/other
namespace file /tmp/below/disk 4096
namespace file /tmp/other 4096
target_start
connect $T1
d=$(disk $T1 1) o=$(disk $T1 2)
# No thread of the file system reads or writes when the target is killed.
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$d"
mount -o no_prefetch_block_bitmaps "$d" /tmp/mnt
head -c 1M /dev/urandom >/tmp/data
quiet() { lacks "the kernel's messages" "$(dmesg)" 'I/O error|[Rr]emounting|EXT4-fs error|nvme.* timeout'; }

# Seconds within which a host goes on after the disk is there again: a command that came just before is retried
# later, without multipath. The target itself looks for the file every few seconds.
case $mode in
multipath) long=20 short=20 ;;
single) long=160 short=200 ;;
*) fail "no such mode: $mode" ;;
esac

# store FILE: writes a file, which reads the directory first.
store() (
    trap - ERR EXIT
    cp /tmp/data /tmp/mnt/"$1" && sync -f /tmp/mnt
)

# ana_state NSID: prints the state by which the host chooses a path to a namespace.
ana_state() {
    local path
    for path in /sys/class/nvme/"$(controller $T1)"/nvme*c*n*; do
        ! holds "$path/nsid" "$1" || cat "$path/ana_state"
    done
}
is_in_state() { [ "$(ana_state "$1")" = "$2" ]; }

# states STATE: checks what a host with multipath knows of its two disks; STATE is that of the one that goes away.
states() {
    [ $mode = multipath ] || return 0
    eventually 10 is_in_state 1 "$1" || fail "the missing disk is '$(ana_state 1)', expected '$1'"
    same "the state of the other disk" "$(ana_state 2)" optimized
}

# other_disk_works SINCE SECONDS: fails where the host has used its other disk only later than that.
other_disk_works() {
    write_verify other "$o" --rw=randwrite --bs=16k --size=2m --iodepth=4
    printf '    %-30s %10s\n' "seconds until the other disk" $((SECONDS - $1))
    ((SECONDS - $1 <= $2)) || fail "the other disk took $((SECONDS - $1)) s"
}

step "the host writes while the disk is not there"
target_kill
mount --move /tmp/below /tmp/aside
target_start
eventually 60 controller_live $T1 || fail "the host does not reconnect"
store data &
writing=$!
begin=$SECONDS
states inaccessible
other_disk_works $begin 10
sleep 270

if [ $mode = multipath ]; then
    step "the target starts again while the write waits, and the other disk does not"
    target_kill
    eventually 10 controller_not_live $T1 || fail "the host did not notice"
    target_start
    started=$SECONDS
    eventually 20 controller_live $T1 || fail "the host does not reconnect"
    other_disk_works $started 20
    states inaccessible
fi

step "the disk is missing for ten minutes"
sleep $((begin + 605 - SECONDS))
kill -0 $writing 2>/dev/null || fail "the write has ended without a disk"
quiet

step "the disk is there again"
mount --move /tmp/aside /tmp/below
back=$SECONDS
wait $writing || fail "the write failed"
printf '    %-30s %10s\n' "seconds until the write ended" $((SECONDS - back))
((SECONDS - back <= long)) || fail "the write took $((SECONDS - back)) s"
states optimized
contains "the mounts" "$(grep ' /tmp/mnt ' /proc/mounts)" ' ext4 rw'
umount /tmp/mnt
quiet
mount "$d" /tmp/mnt
expect "the data" cmp /tmp/data /tmp/mnt/data

step "a short outage ends soon"
mount --move /tmp/below /tmp/aside
target_kill
target_start
# Without multipath the reconnect waits for commands of the missing disk, each attempt for 30 s.
[ $mode = single ] || eventually 60 controller_live $T1 || fail "the host does not reconnect"
store more &
writing=$!
sleep 5
mount --move /tmp/aside /tmp/below
back=$SECONDS
wait $writing || fail "the write failed"
printf '    %-30s %10s\n' "seconds until the write ended" $((SECONDS - back))
((SECONDS - back <= short)) || fail "the write took $((SECONDS - back)) s"
umount /tmp/mnt
quiet
pass
