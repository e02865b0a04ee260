//! A probe whether a namespace could be opened. A probe creates, grows and changes nothing.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use pmem::region::device_bytes;

use super::claim::{Claim, Claimant};
use super::nvme::NvmeDisk;
use super::{Backend, BackendError, Opening, direct, file as disk, file_size, pmem_open, seen};

/// A file or device that could be opened. The file or device stays claimed until this is dropped,
/// so that a second namespace on it is noticed.
#[derive(Debug)]
pub struct Probed {
    /// A notice to the operator about the future use of the file or device.
    pub notice: Option<String>,
    _held: Option<Held>,
}

/// The configuration of a file or device, as far as the file or device decides whether it fits.
#[derive(Clone, Copy)]
struct Wanted {
    /// `size` in bytes; `None` where the file or device decides.
    size: Option<u64>,
    create: bool,
    /// Whether the file or device is mapped.
    memory: bool,
    /// `block_size`; `None` where the device decides.
    block_size: Option<u32>,
    /// Whether direct I/O is wanted.
    direct: bool,
}

/// The claim on a file or device.
#[derive(Debug)]
#[expect(dead_code, reason = "a claim holds until it is dropped")]
enum Held {
    Claim(Arc<Claim>),
    Disk(Arc<dyn Backend>),
}

/// Checks that a namespace could be opened.
///
/// # Errors
/// The obstacle, and the remedy.
pub fn probe(
    backend: &sluice_config::Backend,
    read_only: bool,
    opening: &Opening<'_>,
) -> Result<Probed, BackendError> {
    let held = match backend {
        sluice_config::Backend::Null { .. } | sluice_config::Backend::Memory { .. } => (None, None),
        sluice_config::Backend::Nvme { device, forward_class } => {
            let disk = NvmeDisk::open(device, read_only, *forward_class, opening)?;
            (Some(Held::Disk(Arc::new(disk))), None)
        }
        sluice_config::Backend::File { path, size, create, block_size, direct } => {
            let claimant = Claimant { path, namespace: opening.namespace, writes: !read_only };
            let (size, create, block_size, direct) = (*size, *create, *block_size, *direct);
            let wanted = Wanted { size, create, memory: false, block_size, direct };
            let (claim, notice) = file(claimant, opening, wanted)?;
            (claim.map(Held::Claim), notice)
        }
        sluice_config::Backend::Pmem { path, size, create, .. } => {
            let claimant = Claimant { path, namespace: opening.namespace, writes: !read_only };
            let (size, create) = (*size, *create);
            let wanted = Wanted { size, create, memory: true, block_size: None, direct: false };
            let (claim, notice) = file(claimant, opening, wanted)?;
            (claim.map(Held::Claim), notice)
        }
    };
    let (held, notice) = held;
    Ok(Probed { notice, _held: held })
}

/// A claim, if the file or device exists, and a notice to the operator.
type Looked = (Option<Arc<Claim>>, Option<String>);

/// Claims a file or device, and checks that it fits the configuration; a file that opening would create is not
/// claimed.
fn file(
    claimant: Claimant<'_>,
    opening: &Opening<'_>,
    wanted: Wanted,
) -> Result<Looked, BackendError> {
    let (path, size) = (claimant.path, wanted.size);
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| wanted.create && folder.is_dir());
            let folder = folder.ok_or_else(|| seen::missing(path, opening.seen, size))?;
            opening.claims.plan(claimant)?;
            may_write(folder).map_err(|error| BackendError::io(path, &error))?;
            return Ok((None, unnamed(path, folder, wanted)?));
        }
        Err(error) => return Err(BackendError::io(path, &error)),
    };
    let fail = |error: std::io::Error| BackendError::io(path, &error);
    if wanted.memory && !found.is_file() {
        return Ok((Some(memory_device(claimant, opening, &found)?), None));
    }
    if found.file_type().is_block_device() {
        let claim = opening.claims.block(claimant, path, found.rdev())?;
        let device = claim.open(claimant.writes).map_err(fail)?;
        let notice = fits(path, &device, true, wanted)?;
        return Ok((Some(claim), notice));
    }
    if !found.is_file() {
        let why = "neither a regular file nor a block device";
        return Err(BackendError::new(path.display(), why));
    }
    let file = OpenOptions::new().read(true).write(claimant.writes).open(path).map_err(fail)?;
    let claim = opening.claims.file(claimant, &file)?;
    let notice = fits(path, &file, false, wanted)?;
    let bytes = length(file).map_err(fail)?;
    if bytes == 0 && (size.is_none() || !claimant.writes) {
        return Err(BackendError::new(path.display(), "it is empty; give a size"));
    }
    Ok((Some(claim), notice))
}

/// Checks that a file or device can have the wanted size and blocks. Returns a notice to the operator.
///
/// # Errors
/// It cannot.
fn fits(
    path: &Path,
    file: &File,
    is_device: bool,
    wanted: Wanted,
) -> Result<Option<String>, BackendError> {
    if let Some(size) = wanted.size.filter(|_| !is_device) {
        file_size::check(path, file, size)?;
    }
    if wanted.memory {
        return Ok(None);
    }
    let block_size = disk::block_size(file, is_device, wanted.block_size)
        .map_err(|why| BackendError::new(path.display(), why))?;
    let obstacle = match wanted.direct {
        true => direct::turn_on(file, path, block_size)?,
        false => None,
    };
    Ok(obstacle.map(|obstacle| obstacle.to_string()))
}

/// Checks the same of a file that opening would create, by a file without a name in its folder, which
/// goes at once. Some file systems have none: there opening tells.
fn unnamed(path: &Path, folder: &Path, wanted: Wanted) -> Result<Option<String>, BackendError> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder);
    file.map_or(Ok(None), |file| fits(path, &file, false, wanted))
}

/// Claims a device of persistent memory.
fn memory_device(
    claimant: Claimant<'_>,
    opening: &Opening<'_>,
    found: &std::fs::Metadata,
) -> Result<Arc<Claim>, BackendError> {
    if !found.file_type().is_char_device() {
        return Err(pmem_open::no_region(claimant.path, found));
    }
    let device = OpenOptions::new().read(true).write(true).open(claimant.path);
    let device = device.map_err(|error| BackendError::io(claimant.path, &error))?;
    match device_bytes(&device) {
        Some(_) => opening.claims.memory(claimant, &device, found.rdev()),
        None => Err(pmem_open::no_region(claimant.path, found)),
    }
}

fn length(mut file: File) -> std::io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Checks that this process's effective user can create a file in a folder.
fn may_write(folder: &Path) -> std::io::Result<()> {
    let mode = AccessFlags::W_OK | AccessFlags::X_OK;
    Ok(faccessat(AT_FDCWD, folder, mode, AtFlags::AT_EACCESS)?)
}
