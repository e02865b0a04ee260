#!/bin/bash
# What the journal has of the daemon: whole lines for people, fields for programs.
. /run/scenarios/lib.sh
boot
configure <<END
[[subsystem.namespace]]
nsid = 2
backend = "block"
path = "/dev/no-such-disk"
END
expect "start" systemctl start sluiced

step "a namespace that is not served has a line with its name, its path and the reason"
same "fields" "$(journal SLUICEGATE_NSID=2 SLUICEGATE_SUBSYSTEM=$DISK PRIORITY=3 | wc -l)" 1
contains "line" "$(journal SLUICEGATE_NSID=2)" "$DISK.*/dev/no-such-disk.*no such device"

step "a host that connects has a line, and fields that a program can ask for"
connect $DISK
contains "line" "$(journal SLUICEGATE_HOST=$HOST_NQN PRIORITY=6)" "connected .*$HOST_NQN.*$DISK"
contains "fields" "$(OUTPUT=json journal SLUICEGATE_HOST=$HOST_NQN)" '"SLUICEGATE_PEER":"127.0.0.1:[0-9]+"'
disconnect $DISK

step "lines are of the service, in order, without colours"
same "lines of the daemon" "$(journal SYSLOG_IDENTIFIER=sluiced | wc -l)" "$(journal _PID="$(main_pid)" | wc -l)"
lacks "journal" "$(journal)" $'\e'
pass
