#!/bin/bash
# The configuration is read again while hosts go on; a wrong one changes nothing and says why; and
# signals that mean nothing to the daemon harm nobody.
# cpus: 1
. /run/scenarios/lib.sh
boot
configure </dev/null
more() { # NSID SIZE_MIB
    printf '[[subsystem.namespace]]\nnsid = %s\nbackend = "memory"\nsize = "%s MiB"\n' "$1" "$2" >>$CONFIG
}
expect "start" systemctl start sluiced
pid=$(main_pid)
connect $DISK
fio_run going --filename="$(disk $DISK 1)" --rw=randwrite --bs=4k --size=16m --iodepth=4 --rate=1m \
    --verify=crc32c --verify_fatal=1 --do_verify=1 &
fio=$!

step "systemctl reload serves what the file has now"
more 2 32
expect "reload" systemctl reload sluiced
size_is "$(disk $DISK 2)" $((32 << 20)) || fail "the namespace that was added has another size"

step "a wrong file: systemctl reload fails, the reason is in the journal, all goes on"
cp $CONFIG /tmp/right.toml
echo 'frobnicate = true' >>$CONFIG
refuse "reload" systemctl reload sluiced
active || fail "the service is $(property ActiveState)"
contains "journal" "$(journal)" "sluicegate.toml:[0-9]+:[0-9]+: .*frobnicate"
namespace_of $DISK 2 >/dev/null || fail "the namespace that was added is gone"
cp /tmp/right.toml $CONFIG

step "a file without a disk that a host uses: systemctl reload fails, the journal names the host"
head -n -4 /tmp/right.toml >$CONFIG
refuse "reload" systemctl reload sluiced
contains "journal" "$(journal)" "namespace 2 of $DISK is in use by 1 connected host: $HOST_NQN"
namespace_of $DISK 2 >/dev/null || fail "the namespace is gone"
cp /tmp/right.toml $CONFIG

step "SIGHUP reads the file again, too"
more 3 64
kill -HUP "$pid"
size_is "$(disk $DISK 3)" $((64 << 20)) || fail "the namespace that was added has another size"

step "SIGUSR1, SIGUSR2 and their like harm nobody"
for signal in USR1 USR2 ALRM IO; do
    kill -$signal "$pid"
    said() { journal _PID="$pid" | grep -q "SIG$signal"; }
    eventually 10 said || fail "no line about SIG$signal"
done
wait $fio || fail "fio"
same "the process" "$(main_pid)" "$pid"
same "restarts" "$(restarts)" 0
pass
