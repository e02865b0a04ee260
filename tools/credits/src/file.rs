//! Opening a segment's file, and the checks before it is mapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::Error;
use crate::layout::{MAGIC, Shared, VERSION};
use crate::sys::mapping::Mapping;

/// A file that begins as a segment does.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    /// Version of its layout.
    version: u64,
}

/// Wraps an error of the operating system.
pub(crate) fn unusable(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Unusable { path: path.clone(), source }
}

impl Opened {
    /// Opens a segment of any version.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a segment.
    pub(crate) fn new(path: &Path) -> Result<Self, Error> {
        let unusable = unusable(path);
        let foreign = |fault| Error::Foreign { path: path.to_path_buf(), fault };
        let mut options = OpenOptions::new();
        // A FIFO in the place of the file does not block.
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = options.open(path).map_err(&unusable)?;
        if !file.metadata().map_err(&unusable)?.is_file() {
            return Err(foreign("it is not a regular file"));
        }
        let mut words = [[0; 8]; 2];
        match file.read_exact_at(words.as_flattened_mut(), 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(foreign("it is too short"));
            }
            read => read.map_err(&unusable)?,
        }
        let [magic, version] = words.map(u64::from_ne_bytes);
        if magic != MAGIC {
            return Err(foreign("it begins with other bytes"));
        }
        Ok(Self { file, version })
    }

    /// Maps the segment.
    ///
    /// # Errors
    /// Its version or its length is another one, or the operating system refuses.
    pub(crate) fn map(&self, path: &Path) -> Result<Mapping, Error> {
        let (path, unusable) = (path.to_path_buf(), unusable(path));
        if self.version != VERSION {
            return Err(Error::Version { path, found: self.version, expected: VERSION });
        }
        if self.file.metadata().map_err(&unusable)?.len() != size_of::<Shared>() as u64 {
            return Err(Error::Foreign { path, fault: "it has another length than a segment" });
        }
        Mapping::new(&self.file).map_err(unusable)
    }
}

/// Returns whether a path leads to this file.
pub(crate) fn leads_to(path: &Path, file: &File) -> bool {
    let same = || {
        let (there, here) = (path.symlink_metadata()?, file.metadata()?);
        io::Result::Ok(there.dev() == here.dev() && there.ino() == here.ino())
    };
    same().unwrap_or(false)
}
