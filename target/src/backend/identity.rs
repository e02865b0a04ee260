//! What a file or device is, however it is called.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What a file or device is, however it is called.
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
    /// Of what is neither a file nor a device: `None`.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        match () {
            () if kind.is_file() => Some(Self::File(metadata.dev(), metadata.ino())),
            () if kind.is_block_device() => Some(Self::Block(metadata.rdev())),
            () if kind.is_char_device() => Some(Self::Character(metadata.rdev())),
            () => None,
        }
    }

    /// Of what a path leads to.
    pub(super) fn at(path: &Path) -> Option<Self> {
        Self::of(&std::fs::metadata(path).ok()?)
    }
}
