//! Faults that a file or device may get while it is served, with advice for the operator.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, fstatvfs};

use super::Finding;
use super::sysfs::{self, Presence};

/// Looks at a block device that has `size` bytes now, of which `served` bytes are a namespace.
pub(super) fn at_device(path: &Path, size: u64, served: u64) -> Option<Finding> {
    let path = path.display();
    if size == 0 {
        return Some(Finding::Gone(format!("{path}: the device is gone")));
    }
    (size < served).then(|| {
        Finding::Damaged(format!(
            "{path}: the device has {size} bytes now, the namespace {served}: blocks beyond the \
             device's end cannot be read or written; grow the device, or resize the namespace"
        ))
    })
}

/// Says why no command can be carried out on an open file, whose file system has failed; `None` where nothing tells of
/// that. `writes` says that it is open for writing.
pub(super) fn why_failed(file: &File, writes: bool) -> Option<String> {
    let found = match file.metadata() {
        Ok(found) => found,
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return None,
        Err(error) => return Some(format!("its file system has failed: {error}")),
    };
    if sysfs::presence(found.dev()) == Presence::Gone {
        return Some("the device of its file system is gone".to_owned());
    }
    let is_read_only = fstatvfs(file).is_ok_and(|told| told.flags().contains(FsFlags::ST_RDONLY));
    (writes && is_read_only).then(|| "its file system has become read-only".to_owned())
}

/// The same of a file whose last commands had errors.
fn why_suspect_failed(file: &File) -> Option<String> {
    let device = file.metadata().ok()?.dev();
    if sysfs::presence(device) == Presence::NoPath {
        return Some("no path leads to the device of its file system".to_owned());
    }
    // A file system that was unmounted while the file is open cannot be repaired under it.
    let descriptor = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let mount = mount_of(&std::fs::read_to_string(descriptor).ok()?)?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    (!is_mounted(&mounts, mount)).then(|| "its file system has failed and was unmounted".to_owned())
}

/// Reads the number of the mount from a file of `/proc/self/fdinfo`.
fn mount_of(descriptor: &str) -> Option<u64> {
    let line = descriptor.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    line.trim().parse().ok()
}

/// Returns whether a mount is in `/proc/self/mountinfo`.
fn is_mounted(mounts: &str, mount: u64) -> bool {
    let mut numbers = mounts.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    numbers.any(|number| number == mount)
}

/// Looks whether the file system of an open file has failed: whether the file is open for writing (`writes`), and whether
/// its last commands had errors.
pub(super) fn at_file_system(
    path: &Path,
    file: &File,
    (writes, is_suspect): (bool, bool),
) -> Option<Finding> {
    let failed = why_failed(file, writes);
    let failed = failed.or_else(|| is_suspect.then(|| why_suspect_failed(file)).flatten());
    failed.map(|why| Finding::Gone(format!("{}: {why}", path.display())))
}

/// Looks at an open file, of which `served` bytes are a namespace.
pub(super) fn at_file(path: &Path, file: &File, served: u64) -> Option<Finding> {
    let now = file.metadata().ok()?;
    let shown = path.display();
    if now.nlink() == 0 {
        return Some(Finding::Damaged(format!(
            "{shown}: the file was deleted; its data exists only until the daemon closes it: \
             stop the hosts' writes, then save it with cp --sparse=always /proc/{}/fd/{} FILE",
            std::process::id(),
            file.as_raw_fd()
        )));
    }
    if now.len() < served {
        return Some(Finding::Damaged(format!(
            "{shown}: the file was cut to {} bytes, the namespace has {served}: data beyond the \
             file's end is lost; restore it from a copy, or resize the namespace",
            now.len()
        )));
    }
    let there = std::fs::metadata(path).ok();
    if there.is_some_and(|there| (there.dev(), there.ino()) == (now.dev(), now.ino())) {
        return None;
    }
    Some(Finding::Damaged(format!(
        "{shown}: the file that is served is no longer there: it was moved, or another file \
         system is mounted over it; move it back before the daemon's next start"
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn damage(finding: Option<Finding>) -> String {
        let Some(Finding::Damaged(words)) = finding else { panic!("{finding:?}") };
        words
    }

    #[test]
    fn cut_deleted_and_moved_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, [7; 8192]).unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(at_file(&path, &file, 8192), None);
        assert_eq!(at_file(&path, &file, 4096), None, "a part of it may be served");
        file.set_len(4096).unwrap();
        let words = damage(at_file(&path, &file, 8192));
        assert!(words.contains("cut to 4096 bytes, the namespace has 8192"), "{words}");
        file.set_len(8192).unwrap();
        let elsewhere = folder.path().join("moved");
        fs::rename(&path, &elsewhere).unwrap();
        assert!(damage(at_file(&path, &file, 8192)).contains("no longer there"));
        fs::write(&path, [8; 8192]).unwrap();
        assert!(damage(at_file(&path, &file, 8192)).contains("no longer there"), "another file");
        fs::remove_file(&elsewhere).unwrap();
        let words = damage(at_file(&path, &file, 8192));
        assert!(words.contains("deleted"), "{words}");
    }

    #[test]
    fn a_device_without_a_size_is_gone_and_a_smaller_one_is_damaged() {
        let path = Path::new("/dev/x");
        assert_eq!(at_device(path, 8192, 8192), None);
        assert!(damage(at_device(path, 4096, 8192)).contains("4096 bytes now"));
        assert!(matches!(at_device(path, 0, 8192), Some(Finding::Gone(_))));
    }

    /// The kernel of the machine that runs the tests is asked.
    #[test]
    fn a_sound_file_is_on_a_file_system_that_is_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, [7; 8192]).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(at_file_system(&path, &file, (true, true)), None);
        let own = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
        assert!(mount_of(&fs::read_to_string(own).unwrap()).is_some());
    }

    #[test]
    fn mounts_are_compared_by_their_numbers() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      129 22 0:45 / /srv rw - nfs4 store:/ rw\n";
        assert_eq!(mount_of("pos:\t0\nflags:\t0100002\nmnt_id:\t129\nino:\t7\n"), Some(129));
        assert_eq!(mount_of("pos:\t0\n"), None);
        let seen = [22, 129, 2, 1, 12].map(|n| is_mounted(mounts, n));
        assert_eq!(seen, [true, true, false, false, false]);
    }

    #[test]
    fn a_file_system_that_takes_no_writes_has_failed_for_a_file_that_is_written() {
        let file = File::open("/proc/self/status").unwrap();
        assert_eq!(why_failed(&file, true), None);
        let Ok(file) = File::open("/sys/fs/cgroup/cgroup.controllers") else { return };
        let flags = fstatvfs(&file).map(|told| told.flags());
        let is_read_only = flags.is_ok_and(|flags| flags.contains(FsFlags::ST_RDONLY));
        assert_eq!(why_failed(&file, true).is_some(), is_read_only);
        assert_eq!(why_failed(&file, false), None);
    }
}
