//! Faults that a file or device may get while it is served, with advice for the operator.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Finding;

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
        match finding {
            Some(Finding::Damaged(words)) => words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_that_was_cut_deleted_or_moved_is_found_and_the_words_help() {
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
        let rescue = words.split("--sparse=always ").nth(1).unwrap();
        let from = rescue.split(' ').next().unwrap();
        assert_eq!(fs::read(from).unwrap()[..4096], [7; 4096], "what the words say works");
    }

    #[test]
    fn a_device_without_a_size_is_gone_and_a_smaller_one_is_damaged() {
        let path = Path::new("/dev/x");
        assert_eq!(at_device(path, 8192, 8192), None);
        assert!(damage(at_device(path, 4096, 8192)).contains("4096 bytes now"));
        assert!(matches!(at_device(path, 0, 8192), Some(Finding::Gone(_))));
    }
}
