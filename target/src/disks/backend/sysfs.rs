//! Facts about devices, read from `/sys`.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::identity::Identity;

/// The names that a device reports: words and their values, the best first.
pub(super) type Names = Vec<(&'static str, String)>;

/// Writes a device number as `8:17`.
pub(super) fn text(number: u64) -> String {
    format!("{}:{}", libc::major(number), libc::minor(number))
}

/// Reads a device number from `8:17`.
pub(super) fn number(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the folder of a block device.
pub(super) fn block(number: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(text(number))
}

/// Reads a file's text without surrounding white space; `None` where it is missing or empty.
pub(super) fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads the device number from a device's folder.
pub(super) fn number_of(folder: &Path) -> Option<u64> {
    number(&read(&folder.join("dev"))?)
}

/// Returns the disk that a partition is on.
pub(super) fn whole_disk(device: u64) -> Option<PathBuf> {
    disk_of(&block(device))
}

/// Returns the folder of the disk that a partition with this folder is on.
fn disk_of(partition: &Path) -> Option<PathBuf> {
    let folder = partition.canonicalize().ok()?;
    folder.join("partition").exists().then(|| folder.parent().map(Path::to_owned))?
}

/// The presence of a block device, according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Presence {
    /// The device is there, as far as the kernel tells.
    Here,
    /// The device is there, and no path leads to it at present.
    NoPath,
    /// The device was removed.
    Gone,
}

/// The states of SCSI devices and NVMe controllers (`device/state`) in which no command reaches the device.
const WITHOUT_PATH: [&str; 7] = [
    "blocked",
    "created-blocked",
    "offline",
    "transport-offline",
    "new",
    "resetting",
    "connecting",
];
/// The longest chain of devices upon devices that is looked at.
const DEVICES_DEEP: u8 = 8;

/// Returns the presence of a block device, or of the disk that a partition is on. A device made of others (device
/// mapper, MD) is as present as the best of these.
pub(super) fn presence(number: u64) -> Presence {
    let mut folders = std::fs::read_dir("/sys/dev/block").into_iter().flatten();
    // File systems without a device have numbers of their own, and in a container /sys may be empty.
    match libc::major(number) != 0 && folders.next().is_some() {
        true => presence_of(&block(number), DEVICES_DEEP),
        false => Presence::Here,
    }
}

/// The same by the device's folder.
fn presence_of(folder: &Path, deep: u8) -> Presence {
    let Ok(folder) = folder.canonicalize() else { return Presence::Gone };
    let disk = disk_of(&folder).unwrap_or(folder);
    if read(&disk.join("size")).as_deref() == Some("0") {
        return Presence::Gone;
    }
    if read(&disk.join("device/state")).is_some_and(|state| WITHOUT_PATH.contains(&&*state)) {
        return Presence::NoPath;
    }
    let below = std::fs::read_dir(disk.join("slaves")).into_iter().flatten().flatten();
    let below = below.take_while(|_| deep > 0).map(|entry| presence_of(&entry.path(), deep - 1));
    below.min().unwrap_or(Presence::Here)
}

/// Returns whether the disk that holds a file, or that a block device is part of, has a moving head; `None` if the
/// kernel does not know.
pub(super) fn seeks(file: &File) -> Option<bool> {
    let found = file.metadata().ok()?;
    let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    rotational(&block(number))
}

/// Returns whether the device with this folder has a moving head; a partition has its disk's.
fn rotational(folder: &Path) -> Option<bool> {
    let disk = disk_of(folder).unwrap_or_else(|| folder.to_owned());
    match read(&disk.join("queue/rotational"))?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The sizes that a disk's queue has, in bytes; 0 where the kernel says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    /// The smallest block that the disk addresses.
    pub(super) logical_block: u64,
    /// The smallest block that the disk writes without a read.
    pub(super) physical_block: u64,
    /// The smallest preferred write.
    pub(super) least_io: u64,
    /// The preferred write of an array: a stripe.
    pub(super) optimal_io: u64,
    /// The unit of deallocation.
    pub(super) discard_granularity: u64,
    /// The most zeroes that one command writes without their data; 0: the disk has no such command.
    pub(super) most_zeroes: u64,
    /// The bytes by which the device's start is off the physical blocks.
    pub(super) offset: u64,
}

/// Reads the queue of a block device; a partition has its disk's.
pub(super) fn queue(device: u64) -> Queue {
    queue_of(&block(device))
}

fn queue_of(folder: &Path) -> Queue {
    let disk = disk_of(folder).unwrap_or_else(|| folder.to_owned());
    let number = |path: PathBuf| read(&path).and_then(|text| text.parse().ok()).unwrap_or(0);
    let setting = |key: &str| number(disk.join("queue").join(key));
    Queue {
        logical_block: setting("logical_block_size"),
        physical_block: setting("physical_block_size"),
        least_io: setting("minimum_io_size"),
        optimal_io: setting("optimal_io_size"),
        discard_granularity: setting("discard_granularity"),
        most_zeroes: setting("write_zeroes_max_bytes"),
        offset: number(folder.join("alignment_offset")),
    }
}

/// Returns the logical block size of the disk which a file lies on, or which a block device is part of;
/// `None` where the kernel does not know.
pub(super) fn sector(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let device = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    u32::try_from(queue(device).logical_block).ok().filter(|&bytes| bytes > 0)
}

/// Returns the partitions of a disk.
pub(super) fn partitions(device: u64) -> Vec<u64> {
    let entries = std::fs::read_dir(block(device)).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.join("partition").exists());
    folders.filter_map(|folder| number_of(&folder)).collect()
}

/// Returns the file that a loop device lies on.
pub(super) fn loop_file(device: u64) -> Option<PathBuf> {
    backing_file(&block(device))
}

fn backing_file(folder: &Path) -> Option<PathBuf> {
    let text = std::fs::read(folder.join("loop/backing_file")).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    Some(PathBuf::from(OsStr::from_bytes(text)))
}

/// Returns the loop device that lies on a file.
pub(super) fn loop_on(file: Identity) -> Option<PathBuf> {
    let devices = std::fs::read_dir("/sys/block").ok()?.flatten().map(|entry| entry.path());
    let mut names = devices
        .filter(|folder| backing_file(folder).and_then(|path| Identity::at(&path)) == Some(file));
    Some(Path::new("/dev").join(names.next()?.file_name()?))
}

/// Returns the block device of the namespace behind an NVMe generic character device: its path and
/// device number. `/dev/ng0n1` and `/dev/nvme0n1` are one namespace, even where several paths lead
/// to it.
pub(super) fn block_beside(device: &File, path: &Path) -> Option<(PathBuf, u64)> {
    let own = device.metadata().ok()?.rdev();
    let folder = Path::new("/sys/dev/char").join(text(own)).canonicalize().ok()?;
    let generic = folder.file_name()?.to_str()?.strip_prefix("ng")?;
    let name = format!("nvme{generic}");
    let number = number_of(&Path::new("/sys/class/block").join(&name))?;
    let candidates = [
        Path::new("/dev").join(&name),
        path.with_file_name(&name),
        Path::new("/dev/block").join(text(number)),
    ];
    let found =
        candidates.into_iter().find(|path| Identity::at(path) == Some(Identity::Block(number)));
    Some((found?, number))
}

/// Returns the names that a block device reports. Not all devices report one.
pub(super) fn names(device: u64) -> Names {
    let Ok(folder) = block(device).canonicalize() else { return Vec::new() };
    let partition = read(&folder.join("partition"));
    let disk = match (&partition, folder.parent()) {
        (Some(_), Some(disk)) => disk,
        _ => &folder,
    };
    const FILES: [(&str, &str); 7] = [
        ("wwid", "wwid"),
        ("wwid", "device/wwid"),
        ("dm-uuid", "dm/uuid"),
        ("md-uuid", "md/uuid"),
        ("serial", "device/serial"),
        ("serial", "serial"),
        ("cid", "device/cid"),
    ];
    let mut names = Names::new();
    for (word, file) in FILES {
        if let Some(value) = read(&disk.join(file))
            && names.iter().all(|(known, _)| *known != word)
        {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let part = partition.as_ref().map_or(String::new(), |n| format!(" partition {n}"));
            names.push((word, format!("{value}{part}")));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    /// A `/sys` with a disk that has a partition, each with its link in `dev/block`.
    fn disk(rotational: Option<&str>) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let at = |path: &str| sys.path().join(path);
        create_dir_all(at("dev/block")).unwrap();
        put(at("devices/sda/sda1/partition"), "1\n");
        if let Some(text) = rotational {
            put(at("devices/sda/queue/rotational"), text);
        }
        symlink("../../devices/sda", at("dev/block/8:0")).unwrap();
        symlink("../../devices/sda/sda1", at("dev/block/8:1")).unwrap();
        sys
    }

    /// Writes a file, and the folders above it.
    fn put(path: PathBuf, text: &str) {
        create_dir_all(path.parent().unwrap()).unwrap();
        write(path, text).unwrap();
    }

    #[test]
    fn a_device_is_gone_with_its_disk_and_with_all_that_it_is_made_of() {
        let sys = disk(None);
        let at = |path: &str| sys.path().join(path);
        let presence = |name: &str| presence_of(&at(name), DEVICES_DEEP);
        put(at("devices/sda/size"), "2048\n");
        put(at("devices/sda/sda1/size"), "1024\n");
        for (name, below) in [("dm-0", "sda/sda1"), ("dm-1", "dm-0"), ("dm-2", "sdb")] {
            create_dir_all(at("devices").join(name).join("slaves")).unwrap();
            let link = at("devices").join(name).join("slaves/a");
            symlink(at("devices").join(below), link).unwrap();
        }
        let all = || ["dev/block/8:0", "dev/block/8:1", "devices/dm-1"].map(presence);
        assert_eq!(all(), [Presence::Here; 3]);
        for (state, expected) in [
            ("running", Presence::Here),
            ("live", Presence::Here),
            ("transport-offline", Presence::NoPath),
            ("connecting", Presence::NoPath),
        ] {
            put(at("devices/sda/device/state"), &format!("{state}\n"));
            assert_eq!(all(), [expected; 3], "{state}");
        }
        // A partition keeps its size where its disk has none any more.
        put(at("devices/sda/size"), "0\n");
        assert_eq!(all(), [Presence::Gone; 3]);
        assert_eq!(presence("devices/dm-2"), Presence::Gone, "the link leads nowhere");
        assert_eq!(presence("dev/block/8:2"), Presence::Gone);
        // One of two is enough.
        create_dir_all(at("devices/sdc")).unwrap();
        symlink(at("devices/sdc"), at("devices/dm-2/slaves/b")).unwrap();
        assert_eq!(presence("devices/dm-2"), Presence::Here);
    }

    #[test]
    fn what_is_no_device_is_always_there() {
        let number = |path: &str| std::fs::metadata(path).unwrap().dev();
        for path in ["/proc/self/status", "/", "/dev"] {
            assert_eq!(presence(number(path)), Presence::Here, "{path}");
        }
    }

    #[test]
    fn a_partition_seeks_where_its_disk_does() {
        for (text, expected) in [
            (Some("1\n"), Some(true)),
            (Some("0\n"), Some(false)),
            (Some("?\n"), None),
            (None, None),
        ] {
            let sys = disk(text);
            for (device, expected) in [("8:0", expected), ("8:1", expected), ("8:2", None)] {
                let seen = rotational(&sys.path().join("dev/block").join(device));
                assert_eq!(seen, expected, "{text:?} {device}");
            }
        }
    }

    #[test]
    fn a_partition_has_the_queue_of_its_disk_and_an_offset_of_its_own() {
        let sys = disk(None);
        let at = |path: &str| sys.path().join(path);
        put(at("devices/sda/queue/physical_block_size"), "4096\n");
        put(at("devices/sda/queue/logical_block_size"), "512\n");
        put(at("devices/sda/sda1/alignment_offset"), "3584\n");
        let expected = Queue { logical_block: 512, physical_block: 4096, ..Queue::default() };
        assert_eq!(queue_of(&at("dev/block/8:0")), expected);
        assert_eq!(queue_of(&at("dev/block/8:1")), Queue { offset: 3584, ..expected });
        assert_eq!(queue_of(&at("dev/block/8:2")), Queue::default());
    }

    /// The kernel of the machine that runs the tests is asked too, where its disks are in `/sys`.
    #[test]
    fn a_file_seeks_where_its_disk_does() {
        let file = tempfile::tempfile().unwrap();
        let device = file.metadata().unwrap().dev();
        let text = |folder: PathBuf| std::fs::read_to_string(folder.join("queue/rotational")).ok();
        let told = text(block(device)).or_else(|| text(block(device).join("..")));
        assert_eq!(seeks(&file), told.map(|text| text.trim() == "1"));
        assert_eq!(seeks(&File::open("/proc/self/status").unwrap()), None);
    }
}
