#!/bin/bash
# The journal has whole lines of the daemon for people, and fields for programs.
# cpus: 1
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

# eventually_says TEXT MATCHES...: waits until the journal has such a line.
eventually_says() {
    local text=$1
    shift
    said() { journal "$@" | grep -qF -- "$text"; }
    eventually 15 said "$@" || fail "no line '$text' for $*: $(journal | tail -5)"
}

step "a host that comes and one that goes have a line each, with fields to ask for"
connect $DISK
eventually_says "a host has connected" SLUICEGATE_HOST=$HOST_NQN SLUICEGATE_SUBSYSTEM=$DISK PRIORITY=6
contains "the line" "$(journal SLUICEGATE_HOST=$HOST_NQN)" "a host has connected .*$HOST_NQN.*$DISK"
disconnect $DISK
eventually_says "a host has left" SLUICEGATE_HOST=$HOST_NQN SLUICEGATE_SUBSYSTEM=$DISK PRIORITY=6

step "a host that was refused has a warning, whose command lets it in"
other() { nvme connect -t tcp -a $TARGET_IP -s 4420 -n $DISK -q $OTHER_NQN -I $OTHER_ID; }
refuse "connect" other
eventually_says "a host was refused" SLUICEGATE_HOST=$OTHER_NQN SLUICEGATE_SUBSYSTEM=$DISK PRIORITY=4
command=$(journal SLUICEGATE_HOST=$OTHER_NQN PRIORITY=4 | grep -o 'sluice host add [^ ]* [^ ]*')
contains "the command" "$command" "$OTHER_NQN"
expect "the command" bash -c "$command"
expect "connect" other

step "lines are of the service, in order, without colours"
# The last line is that of the host above.
eventually_says "a host has connected" SLUICEGATE_HOST=$OTHER_NQN
same "lines of the daemon" "$(journal SYSLOG_IDENTIFIER=sluiced | wc -l)" "$(journal _PID="$(main_pid)" | wc -l)"
lacks "journal" "$(journal)" $'\e'
pass
