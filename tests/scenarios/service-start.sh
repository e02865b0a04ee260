#!/bin/bash
# The unit as it is shipped: the service starts as a user of its own, and a host uses it.
. /run/scenarios/lib.sh
boot
configure </dev/null

step "the unit is in order"
same "systemd-analyze verify" "$(systemd-analyze verify sluiced.service 2>&1)" ""
# 10 is without any protection.
exposure=$(systemd-analyze security --no-pager sluiced | sed -n 's/.*Overall exposure level.*: \([0-9.]*\).*/\1/p')
[[ $exposure =~ ^[0-9] ]] || fail "no exposure level"
[ "${exposure%.*}" -le 2 ] || fail "systemd-analyze security: exposure level $exposure"

step "the service starts as its own user"
expect "start" systemctl start sluiced
active || fail "state $(property ActiveState)"
same "user" "$(stat -c %U:%G "/proc/$(main_pid)")" sluicegate:sluicegate
same "state folder" "$(stat -c '%U %a' /var/lib/sluicegate)" "sluicegate 750"
same "control socket" "$(stat -c '%U:%G %a' /run/sluicegate/control.sock)" "sluicegate:sluicegate 660"

step "a host writes and reads back"
connect $DISK
d=$(disk $DISK 1)
write_verify start "$d" --rw=randwrite --bs=4k --size=8m --iodepth=16

step "the service ends in order, and live changes are kept"
expect "namespace add" sluice namespace add $DISK --nsid 9 --backend memory --size 32MiB
disconnect $DISK
expect "stop" systemctl stop sluiced
same "after stop" "$(property ActiveState) $(property Result)" "inactive success"
expect "start" systemctl start sluiced
connect $DISK
size_is "$(disk $DISK 9)" $((32 << 20)) || fail "the namespace that was added has another size"
disconnect $DISK
pass
