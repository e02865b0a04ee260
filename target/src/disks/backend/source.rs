//! Opening of a file or block device by its path, with a claim against other writers.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::claim::{Claim, Claimant};
use super::seen::{self, Present};
use super::sysfs::Presence;
use super::{BackendError, Opening, file_size, look, signature, sysfs};
use crate::sys::{access, files};

/// Settings of a file namespace, as configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileOptions {
    /// The size in bytes: a smaller regular file grows to it, of a larger one only these bytes are
    /// served. `None` stands for the size of the file or device.
    pub(super) size: Option<u64>,
    /// The logical block size in bytes; `None` stands for the device's, and 4096 for a file.
    pub(super) block_size: Option<u32>,
    /// Whether to try O_DIRECT.
    pub(super) direct: bool,
    /// Whether to create a regular file that is missing and was never seen.
    pub(super) create: bool,
    /// Whether the namespace only reads.
    pub(super) read_only: bool,
}

/// An open file or block device.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: File,
    pub(super) is_device: bool,
    /// Size in bytes.
    pub(super) size: u64,
    /// The names that a device reports, as they are kept.
    pub(super) device: Option<String>,
    /// The claim that keeps others from the file or device.
    _claim: Arc<Claim>,
}

impl Source {
    /// Opens a file or block device. A missing regular file is created if the options allow it and it was never
    /// seen; a file that is smaller than the configured size grows.
    ///
    /// # Errors
    /// The path cannot be opened, is neither a regular file nor a block device, is in use, differs from the file or
    /// device seen before, or holds data and was never seen.
    pub(super) fn open(
        path: &Path,
        options: FileOptions,
        opening: &Opening<'_>,
    ) -> Result<Self, BackendError> {
        let writes = !options.read_only;
        let claimant = Claimant { path, namespace: opening.namespace, writes };
        match std::fs::metadata(path) {
            Ok(found) if found.file_type().is_block_device() => {
                Self::device(claimant, &found, opening, options.size)
            }
            Ok(found) if found.is_file() => {
                let file = OpenOptions::new().read(true).write(writes).open(path);
                let file = file.map_err(|error| BackendError::io(path, &error))?;
                Self::regular(claimant, file, opening, options.size)
            }
            Ok(_) => {
                Err(BackendError::new(path.display(), "neither a regular file nor a block device"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let size = options.size.filter(|_| options.create && writes);
                match size.filter(|_| opening.seen.is_none() && has_folder(path)) {
                    Some(size) => Self::make(claimant, opening, size),
                    None => Err(seen::missing(path, opening.seen, options.size)),
                }
            }
            Err(error) => Err(BackendError::io(path, &error)),
        }
    }

    fn device(
        claimant: Claimant<'_>,
        found: &Metadata,
        opening: &Opening<'_>,
        configured: Option<u64>,
    ) -> Result<Self, BackendError> {
        let path = claimant.path;
        let fail = |error: Error| BackendError::io(path, &error);
        let number = found.rdev();
        if sysfs::presence(number) == Presence::NoPath {
            // Reading would wait, or fail.
            let why = "no path leads to the device at present";
            return Err(BackendError::missing(path.display(), why));
        }
        let claim = opening.claims.block(claimant, path, number)?;
        let mut file = claim.open(claimant.writes).map_err(fail)?;
        let size = file.seek(SeekFrom::End(0)).map_err(fail)?;
        let names = sysfs::names(number);
        seen::compare(opening.seen, &Present { path, size, names: &names }, configured)?;
        if claimant.writes {
            signature::check(path, &file, opening)?;
        }
        Ok(Self { file, is_device: true, size, device: seen::kept(&names), _claim: claim })
    }

    /// Checks that a block can be read. A file or device may be there while nothing can be read from it: no path leads to
    /// the device, or its file system has failed. Of several blocks one is enough, since the first may be bad.
    pub(super) fn check_readable(&self, path: &Path) -> Result<(), BackendError> {
        let mut block = [0; 512];
        let last = self.size.saturating_sub(1);
        let mut failed = None;
        for place in [0, last / 2, last] {
            match self.file.read_at(&mut block, place / 512 * 512) {
                Ok(_) => return Ok(()),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), |error| Err(BackendError::io(path, &error)))
    }

    /// Returns whether the disk below has a moving head; `None` if the kernel does not know.
    pub(super) fn seeks(&self) -> Option<bool> {
        sysfs::seeks(&self.file)
    }

    fn regular(
        claimant: Claimant<'_>,
        file: File,
        opening: &Opening<'_>,
        configured: Option<u64>,
    ) -> Result<Self, BackendError> {
        let path = claimant.path;
        if let Some(why) = look::why_failed(&file, claimant.writes) {
            return Err(BackendError::missing(path.display(), why));
        }
        let claim = opening.claims.file(claimant, &file)?;
        let mut size = file.metadata().map_err(|error| BackendError::io(path, &error))?.len();
        seen::compare(opening.seen, &Present { path, size, names: &[] }, configured)?;
        if let Some(wanted) = configured.filter(|&wanted| claimant.writes && wanted > size) {
            grow(path, &file, wanted)?;
            sync_length(path, &file)?;
            size = wanted;
        }
        Ok(Self { file, is_device: false, size, device: None, _claim: claim })
    }

    /// Creates a file. On failure, no file is left behind.
    fn make(
        claimant: Claimant<'_>,
        opening: &Opening<'_>,
        size: u64,
    ) -> Result<Self, BackendError> {
        let path = claimant.path;
        let fail = |error: Error| {
            let why = format!("the file cannot be created: {}", access::explain(&error, path));
            BackendError::new(path.display(), why)
        };
        opening.claims.may_make(path)?;
        let file = files::make(path).map_err(fail)?;
        // The file's entry in the folder outlives a power failure, as its data will.
        let made = Self::regular(claimant, file, opening, Some(size))
            .and_then(|source| files::sync_folder(path).map(|()| source).map_err(fail));
        match &made {
            Ok(_) => tracing::info!(path = %path.display(), size, "a file was created"),
            Err(_) => drop(std::fs::remove_file(path)),
        }
        made
    }
}

/// Returns whether the folder of a file exists.
fn has_folder(path: &Path) -> bool {
    path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir())
}

/// Grows a file. Its new blocks take no space until they are written.
pub(super) fn grow(path: &Path, file: &File, size: u64) -> Result<(), BackendError> {
    file_size::check(path, file, size)?;
    file.set_len(size).map_err(|error| {
        BackendError::new(path.display(), format!("cannot grow it to {size} bytes: {error}"))
    })
}

/// Makes the new length of a grown file survive a power failure. Hosts see it only afterwards: the next start would
/// refuse a file that is shorter than hosts know.
pub(super) fn sync_length(path: &Path, file: &File) -> Result<(), BackendError> {
    sync(file).map_err(|error| {
        BackendError::new(path.display(), format!("its new length cannot be kept: {error}"))
    })
}

#[cfg(not(test))]
fn sync(file: &File) -> Result<(), Error> {
    file.sync_all()
}

#[cfg(test)]
pub(super) use observed::{sync, while_synchronizing};

/// Synchronization that a test observes.
#[cfg(test)]
mod observed {
    use std::cell::RefCell;

    use super::{Error, File};

    type Observer = Box<dyn FnMut(&File) -> Result<(), Error>>;

    thread_local! {
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
    }

    /// Passes each file that is synchronized during `act` to this thread's observer, whose error becomes the
    /// file's.
    pub(in crate::disks::backend) fn while_synchronizing<R>(
        observer: impl FnMut(&File) -> Result<(), Error> + 'static,
        act: impl FnOnce() -> R,
    ) -> R {
        OBSERVER.set(Some(Box::new(observer)));
        let result = act();
        OBSERVER.set(None);
        result
    }

    pub(in crate::disks::backend) fn sync(file: &File) -> Result<(), Error> {
        OBSERVER.with_borrow_mut(|observer| observer.as_mut().map_or(Ok(()), |see| see(file)))?;
        file.sync_all()
    }
}
