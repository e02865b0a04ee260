//! The identity of a file or device, independent of its path.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The identity of a file or device, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// A regular file: the device number of its file system, its inode number.
    File(u64, u64),
    /// A block device: its device number.
    Block(u64),
    /// A character device: its device number.
    Character(u64),
}

impl Identity {
    /// Reads the identity from metadata; `None` for anything but a regular file or a device.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        match () {
            () if kind.is_file() => Some(Self::File(metadata.dev(), metadata.ino())),
            () if kind.is_block_device() => Some(Self::Block(metadata.rdev())),
            () if kind.is_char_device() => Some(Self::Character(metadata.rdev())),
            () => None,
        }
    }

    /// Returns the identity of the file or device at a path.
    pub(super) fn at(path: &Path) -> Option<Self> {
        Self::of(&std::fs::metadata(path).ok()?)
    }
}
