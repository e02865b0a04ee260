#!/bin/bash
# Whatever ends the daemon, it comes back and hosts with it, unless it was asked to end.
# cpus: 1
. /run/scenarios/lib.sh
boot
configure <<END
[[subsystem]]
nqn = "$T1"
allow_any_host = true
[[subsystem.namespace]]
backend = "file"
path = "$(file_of 128 ns)"
END
expect "enable" systemctl enable --now sluiced
connect $T1 -k 5
d=$(disk $T1 1)

step "a restart under writes is no error to a host"
fio_run restart --filename="$d" --rw=randwrite --bs=16k --size=16m --iodepth=16 --verify=crc32c \
    --verify_fatal=1 --do_verify=1 --rate=2m &
fio=$!
sleep 2
pid=$(main_pid)
expect "restart" systemctl restart sluiced
[ "$(main_pid)" != "$pid" ] || fail "it is the same process"
eventually 20 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"

for signal in TERM KILL; do
    step "after SIG$signal the daemon starts again, and the host connects again"
    kill -0 $fio || fail "fio ended before"
    pid=$(main_pid)
    kill -$signal "$pid"
    eventually 30 another "$pid" || fail "the service is $(property ActiveState)/$(property SubState)"
    eventually 20 controller_live $T1 || fail "the host does not reconnect: $(controller_state $T1)"
done
wait $fio || fail "fio"
same "restarts by systemd" "$(restarts)" 2
disconnect $T1

step "sluice shutdown is for good, and no failure"
expect "shutdown" sluice shutdown
ends_as "after shutdown" "inactive success 150"

step "systemctl stop is for good, and no failure"
expect "start" systemctl start sluiced
expect "stop" systemctl stop sluiced
ends_as "after stop" "inactive success 0"

step "a wrong configuration fails at once, with its line, and is not tried again"
cp $CONFIG /tmp/right.toml
sed -i 's/^cores = .*/cores = "all of them"/' $CONFIG
refuse "start" systemctl start sluiced
ends_as "with a wrong configuration" "failed exit-code 78"
contains "journal" "$(journal)" "sluicegate.toml:[0-9]+:[0-9]+: .*cores"
cp /tmp/right.toml $CONFIG

step "a port that becomes free is taken, however late"
perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1);
    bind(S, sockaddr_in(4420, inet_aton("127.0.0.1")))
    or die; listen(S, 1); sleep 600' &
squatter=$!
eventually 5 bash -c 'ss -ltnH | grep -q :4420'
systemctl start --no-block sluiced
# Six starts are more than systemd's own limit would allow (5 in 10 s).
tried() { [ "$(restarts)" -ge 6 ]; }
eventually 60 tried || fail "after $(restarts) restarts: $(property ActiveState)/$(property SubState)"
kill $squatter
eventually 10 active || fail "the port is free, and the service is $(property ActiveState)"
connect $T1
disk $T1 1 >/dev/null
pass
