#!/bin/bash
# An operator's year: a wrong configuration, a full disk, a dead disk, a daemon that is killed, and a lost state file. Each
# step ends with the host's data verified, and with the message that named the remedy (docs/use/operating.md, "When
# something goes wrong"). Upgrades and their rollback are in tests/lab/packages and operator.sh.
# cpus: 1
. /run/scenarios/lib.sh
boot
store /srv/disks
chown sluicegate: /srv/disks
mkdir -p /etc/systemd/system/sluiced.service.d
printf '[Service]\nReadWritePaths=/srv/disks\n' >/etc/systemd/system/sluiced.service.d/override.conf
systemctl daemon-reload
free=$(($(stat -f -c '%a * %S' /srv/disks) >> 20))
configure <<END
[[subsystem.namespace]]
nsid = 2
backend = "file"
path = "/srv/disks/disk.img"
create = true
size = "$((free + 64)) MiB"

[[subsystem.namespace]]
nsid = 3
backend = "block"
path = "/dev/late"
END
ram_disk late 64 4096 >/dev/null
expect "start" systemctl enable --now sluiced
connect $DISK
FILE_DISK=$(disk $DISK 2) BLOCK_DISK=$(disk $DISK 3)
write_verify first "$FILE_DISK" --rw=write --bs=64k --size=16m
# verified: says whether the host's first data is as it was written.
verified() {
    fio_run verify --filename="$FILE_DISK" --rw=write --bs=64k --size=16m --verify=crc32c --verify_fatal=1 --verify_only=1
}
all_well() { sluice status >/dev/null; }
# says PATTERN: says whether `sluice status` reports it.
says() { (sluice status || true) | grep -Eq -- "$1"; }

step "a wrong configuration changes nothing, and the message has the line and the remedy"
cp $CONFIG /tmp/right.toml
sed -i 's/^window = .*/window = "many"/' $CONFIG
refuse "check" sluiced --check $CONFIG
contains "check" "$(sluiced --check $CONFIG 2>&1 || true)" "sluicegate.toml:[0-9]+:[0-9]+: .*window"
refuse "reload" systemctl reload sluiced
contains "journal" "$(journal PRIORITY=3)" "reload failed: .*sluicegate.toml:[0-9]+:[0-9]+: .*window"
cp /tmp/right.toml $CONFIG
expect "reload" systemctl reload sluiced
verified

step "a full disk: writes fail as on a local disk, the overcommitment was told, and space makes it well"
contains "status" "$(sluice status)" "^/srv/disks .* [1-9][0-9.]* MiB$"
contains "journal" "$(journal PRIORITY=4)" "file system /srv/disks is overcommitted: .*add space"
fallocate -l $((free - 24))M /srv/disks/ballast
if fio --name=full --ioengine=libaio --direct=1 --filename="$FILE_DISK" --rw=write --bs=1m --offset=16m --size=32m \
    --aux-path=/tmp >/tmp/full 2>&1; then
    fail "32 MiB were written to a file system with 8 MiB"
fi
contains "the host's error" "$(cat /tmp/full)" "No space left on device"
contains "journal" "$(journal PRIORITY=3)" "ENOSPC|no space"
rm /srv/disks/ballast
verified
write_verify again "$FILE_DISK" --rw=write --bs=1m --offset=16m --size=32m

step "a dead disk: its namespace alone waits, and is served when the disk is back"
write_verify block "$BLOCK_DISK" --rw=write --bs=64k --size=4m
echo 0 >/sys/kernel/config/nullb/late/power
eventually 30 says "/dev/late" || fail "status: $(sluice status)"
contains "journal" "$(journal PRIORITY=3)" 'device is gone: hosts are asked to retry.* nsid=3 reason="/dev/late'
verified
echo 1 >/sys/kernel/config/nullb/late/power
eventually 90 bash -c "! /usr/bin/sluice status | grep -q /dev/late" || fail "status: $(sluice status)"
write_verify back "$BLOCK_DISK" --rw=write --bs=64k --size=4m

step "a daemon that is killed comes back under the host's load"
fio_run load --filename="$FILE_DISK" --rw=randwrite --bs=4k --offset=16m --size=16m --iodepth=8 --time_based=1 --runtime=8 \
    --rate_iops=200 &
fio=$!
sleep 2
pid=$(main_pid)
kill -9 "$pid"
eventually 20 another "$pid" || fail "the service is $(property ActiveState)"
wait $fio || fail "fio"
verified

step "a lost state file: hosts see no old disk with other data, and a line of the configuration brings it back"
uuid=$(cat "/sys/block/${FILE_DISK#/dev/}/uuid")
disconnect $DISK
expect "stop" systemctl stop sluiced
rm -rf /var/lib/sluicegate/state*
expect "start" systemctl start sluiced
connect $DISK
FILE_DISK=$(disk $DISK 2)
[ "$(cat "/sys/block/${FILE_DISK#/dev/}/uuid")" != "$uuid" ] || echo "    the disk kept its UUID"
disconnect $DISK
sed -i "/^path = \"\/srv\/disks\/disk.img\"/a uuid = \"$uuid\"" $CONFIG
expect "restart" systemctl restart sluiced
connect $DISK
FILE_DISK=$(disk $DISK 2)
same "the disk's UUID" "$(cat "/sys/block/${FILE_DISK#/dev/}/uuid")" "$uuid"
verified
all_well || fail "status: $(sluice status)"
pass
