//! A probe whether a namespace could be opened. A probe creates, grows and changes nothing.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use pmem::region::device_bytes;

use super::claim::{Claim, Claimant};
use super::nvme::NvmeDisk;
use super::{Backend, BackendError, Opening, pmem_open, seen};
use crate::config;

/// A file or device that could be opened. The file or device stays claimed until this is dropped,
/// so that a second namespace on it is noticed.
#[derive(Debug)]
pub struct Probed {
    _held: Option<Held>,
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
    backend: &config::Backend,
    read_only: bool,
    opening: &Opening<'_>,
) -> Result<Probed, BackendError> {
    let held = match backend {
        config::Backend::Null { .. } | config::Backend::Memory { .. } => None,
        config::Backend::Nvme { device, forward_class } => {
            let disk = NvmeDisk::open(device, read_only, *forward_class, opening)?;
            Some(Held::Disk(Arc::new(disk)))
        }
        config::Backend::File { path, size, create, .. }
        | config::Backend::Pmem { path, size, create, .. } => {
            let claimant = Claimant { path, namespace: opening.namespace, writes: !read_only };
            let memory = matches!(backend, config::Backend::Pmem { .. });
            file(claimant, opening, *size, *create, memory)?.map(Held::Claim)
        }
    };
    Ok(Probed { _held: held })
}

/// Claims a file or device; `None` stands for a file that opening would create. `memory` says that it
/// is mapped.
fn file(
    claimant: Claimant<'_>,
    opening: &Opening<'_>,
    size: Option<u64>,
    create: bool,
    memory: bool,
) -> Result<Option<Arc<Claim>>, BackendError> {
    let path = claimant.path;
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| create && folder.is_dir());
            let folder = folder.ok_or_else(|| seen::missing(path, opening.seen, size))?;
            opening.claims.plan(claimant)?;
            may_write(folder).map_err(|error| BackendError::io(path, &error))?;
            return Ok(None);
        }
        Err(error) => return Err(BackendError::io(path, &error)),
    };
    let fail = |error: std::io::Error| BackendError::io(path, &error);
    if memory && !found.is_file() {
        return memory_device(claimant, opening, &found).map(Some);
    }
    if found.file_type().is_block_device() {
        let claim = opening.claims.block(claimant, path, found.rdev())?;
        claim.open(claimant.writes).map_err(fail)?;
        return Ok(Some(claim));
    }
    if !found.is_file() {
        let why = "neither a regular file nor a block device";
        return Err(BackendError::new(path.display(), why));
    }
    let file = OpenOptions::new().read(true).write(claimant.writes).open(path).map_err(fail)?;
    let claim = opening.claims.file(claimant, &file)?;
    let bytes = length(file).map_err(fail)?;
    if bytes == 0 && (size.is_none() || !claimant.writes) {
        return Err(BackendError::new(path.display(), "it is empty; give a size"));
    }
    Ok(Some(claim))
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
