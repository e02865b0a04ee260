#!/bin/bash
# A device that is missing at the start is served by itself once udev has it, to hosts that are
# connected already; until then the service says what is missing, and serves the rest.
# cpus: 1
. /run/scenarios/lib.sh
boot
configure <<END
[[subsystem.namespace]]
nsid = 2
backend = "block"
path = "/dev/late"
END
# status: prints the output of sluice status, and its exit code.
status() { sluice status && echo "code 0" || echo "code $?"; }
all_well() { [ "$(status | tail -1)" = "code 0" ]; }

step "without the device the service starts, serves the rest and says what is missing"
expect "start" systemctl enable --now sluiced
connect $DISK
write_verify rest "$(disk $DISK 1)" --rw=write --bs=64k --size=8m
out=$(status)
contains "status" "$out" "code 8"
contains "status" "$out" "$DISK.*/dev/late"
contains "journal" "$(journal PRIORITY=3)" "$DISK.*/dev/late.*no such device"
no_namespace $DISK 2 || fail "the host has a disk that is not there"

step "the device appears, and the host has it"
ram_disk late 64 4096
d=$(disk $DISK 2)
size_is "$d" $((64 << 20)) || fail "$d has another size: $(blockdev --getsize64 "$d")"
write_verify late "$d" --rw=randwrite --bs=4k --size=4m --iodepth=8
eventually 10 all_well || fail "status: $(status)"
same "restarts" "$(restarts)" 0

step "the device goes away and comes back"
echo 0 >/sys/kernel/config/nullb/late/power
eventually 30 bash -c '! /usr/bin/sluice status' || fail "status: $(status)"
contains "status" "$(status)" "code 8"
echo 1 >/sys/kernel/config/nullb/late/power
eventually 60 all_well || fail "status: $(status)"
write_verify back "$(disk $DISK 2)" --rw=randwrite --bs=4k --size=4m --iodepth=8
same "restarts" "$(restarts)" 0
pass
