#!/bin/bash
# Files of namespaces on a file system of their own: the sandbox lets the daemon there by a drop-in,
# and where the file system is not mounted no empty disk takes the place of the one that was served.
# cpus: 1
. /run/scenarios/lib.sh
boot
store /srv/disks
chown sluicegate: /srv/disks
configure <<END
[[subsystem.namespace]]
nsid = 2
backend = "file"
path = "/srv/disks/disk.img"
create = true
size = "64 MiB"
END

step "without a drop-in the journal says why the daemon cannot open the file"
expect "start" systemctl enable --now sluiced
contains "journal" "$(journal)" '/srv/disks.*ReadWritePaths=/srv/disks'
same "files" "$(ls /srv/disks)" lost+found

step "with the drop-in of docs/use/operating.md the file is served"
mkdir -p /etc/systemd/system/sluiced.service.d
grep -B1 '^    ReadWritePaths=/srv/disks$' /usr/share/doc/sluicegate/use/operating.md | sed 's/^    //' \
    >/etc/systemd/system/sluiced.service.d/override.conf
expect "reload of units" systemctl daemon-reload
contains "the drop-in" "$(systemctl cat sluiced)" '^ReadWritePaths=/srv/disks$'
expect "restart" systemctl restart sluiced
connect $DISK
d=$(disk $DISK 2)
write_verify before "$d" --rw=write --bs=64k --size=16m
disconnect $DISK

step "without the mount no empty disk takes its place, and the others are served"
expect "stop" systemctl stop sluiced
umount /srv/disks
chown sluicegate: /srv/disks
expect "start" systemctl start sluiced
connect $DISK
disk $DISK 1 >/dev/null
same "files below the place" "$(ls /srv/disks)" ""
contains "journal" "$(journal)" 'disk.img: .*is its file system mounted'
disconnect $DISK

step "mounted again the disk is as it was"
mount /dev/ram0 /srv/disks
expect "restart" systemctl restart sluiced
connect $DISK
d=$(disk $DISK 2)
fio_run after --filename="$d" --rw=write --bs=64k --size=16m --verify=crc32c --verify_fatal=1 --verify_only=1
pass
