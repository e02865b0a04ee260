//! The kernel's description of a device of persistent memory (`/dev/daxX.Y`).

use std::fs::{read_link, read_to_string};
use std::path::Path;

/// The properties of a DAX device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DaxDevice {
    /// The size in bytes.
    pub(super) size: u64,
    /// The number of bytes of which a mapping's length must be a multiple.
    pub(super) align: u64,
}

impl DaxDevice {
    /// Looks a character device up by its numbers; `sysfs` is where sysfs is mounted. `None` where it
    /// is no DAX device, or has no size.
    pub(super) fn find(sysfs: &Path, major: u32, minor: u32) -> Option<Self> {
        let folder = sysfs.join(format!("dev/char/{major}:{minor}"));
        let subsystem = read_link(folder.join("subsystem")).ok()?;
        if subsystem.file_name()? != "dax" {
            return None;
        }
        let number = |name: &str| -> Option<u64> {
            read_to_string(folder.join(name)).ok()?.trim().parse().ok()
        };
        // Before Linux 5.10 all devices of a region shared one alignment.
        let align = number("align").or_else(|| number("dax_region/align")).unwrap_or(2 << 20);
        let align = align.max(4096);
        let size = number("size")? / align * align;
        (size > 0).then_some(Self { size, align })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn dax_device_is_identified_and_aligned() {
        let sysfs = tempfile::tempdir().unwrap();
        let folder = |minor: u32, subsystem: &str| {
            let folder = sysfs.path().join(format!("dev/char/252:{minor}"));
            create_dir_all(&folder).unwrap();
            symlink(format!("../../../bus/{subsystem}"), folder.join("subsystem")).unwrap();
            folder
        };
        let device = folder(5, "dax");
        write(device.join("size"), "132120577\n").unwrap();
        write(device.join("align"), "2097152\n").unwrap();
        let found = |minor| DaxDevice::find(sysfs.path(), 252, minor);
        assert_eq!(found(5), Some(DaxDevice { size: 132_120_576, align: 2 << 20 }));
        let old = folder(6, "dax");
        create_dir_all(old.join("dax_region")).unwrap();
        write(old.join("size"), "8192\n").unwrap();
        write(old.join("dax_region/align"), "4096\n").unwrap();
        assert_eq!(found(6), Some(DaxDevice { size: 8192, align: 4096 }));
        let other = folder(7, "tty");
        write(other.join("size"), "8192\n").unwrap();
        assert_eq!(found(7), None, "another device");
        write(folder(8, "dax").join("size"), "0\n").unwrap();
        assert_eq!(found(8), None, "a device that has no memory");
        assert_eq!(found(9), None);
    }
}
