//! The origin of a file's or device's data, which distinguishes it from other data after a restart.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::identity::Identity;
use super::sysfs;

/// Returns a text that distinguishes a file or device from others, independent of its path, and stays the same
/// after a restart; `None` if there is no such text. A file has its inode number and its creation time, since a
/// file system reuses the inode number of a deleted file. (The identifier of the file system is left out: some
/// derive it from a device number.)
pub(super) fn origin(file: &File) -> Option<String> {
    let found = file.metadata().ok()?;
    match Identity::of(&found)? {
        Identity::File(..) => Some(of_file(&found)),
        Identity::Block(number) => match sysfs::names(number).first() {
            Some((word, name)) => Some(format!("{word} {name}")),
            None => {
                let below = std::fs::metadata(sysfs::loop_file(number)?).ok()?;
                Some(format!("loop on {}", of_file(&below)))
            }
        },
        Identity::Character(_) => None,
    }
}

fn of_file(found: &Metadata) -> String {
    // Not all file systems keep the time.
    let made = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map(|made| format!(" made {}.{:09}", made.as_secs(), made.subsec_nanos()));
    format!("inode {}{}", found.ino(), made.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_origin_and_another_one_in_its_place_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let look = || origin(&File::open(&path).unwrap()).unwrap();
        std::fs::write(&path, [1; 4096]).unwrap();
        let first = look();
        std::fs::write(&path, [2; 8192]).unwrap();
        let moved = folder.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!(origin(&File::open(&moved).unwrap()).unwrap(), first, "content and path change");
        // An inode number may be used again at once.
        std::fs::remove_file(&moved).unwrap();
        std::fs::write(&path, [1; 4096]).unwrap();
        assert_ne!(look(), first);
        assert_eq!(origin(&File::open("/dev/null").unwrap()), None);
    }
}
