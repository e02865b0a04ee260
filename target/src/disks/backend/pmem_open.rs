//! Opening of a namespace on persistent memory: the file or device, its region, and the block
//! translation table there, which is made where there is nothing yet.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use nix::unistd::{Whence, lseek64};
use pmem::btt::{BlockSize, Btt, OpenError, region_bytes};
use pmem::medium::Medium;
use pmem::region::{Access, AfterPowerCut, Kind, Region, RegionError, device_bytes};
use sluice_config::format_size;
use uuid::Uuid;

use super::claim::{Claim, Claimant};
use super::seen::{self, Present};
use super::source::{FileOptions, Source};
use super::{BackendError, OnSignature, Opening};

/// Settings of a namespace on persistent memory, as configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct PmemOptions {
    /// The size in bytes that hosts get; `None` stands for the table's whole size.
    pub(super) size: Option<u64>,
    /// The logical block size; `None` stands for the table's, and 4096 bytes where one is made.
    pub(super) block_size: Option<BlockSize>,
    /// Whether to create a regular file that is missing and was never seen.
    pub(super) create: bool,
    /// Whether the namespace only reads.
    pub(super) read_only: bool,
}

/// The claim that keeps others from the file or device.
#[derive(Debug)]
#[expect(dead_code, reason = "a claim holds until it is dropped")]
pub(super) enum Held {
    File(Source),
    Device(Arc<Claim>),
}

/// An open table.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) table: Btt<Region>,
    /// The number of blocks that hosts get.
    pub(super) blocks: u64,
    pub(super) held: Held,
}

/// Opens a device of persistent memory or a regular file, and the table on it. A missing file is created if the
/// options allow it and it was never seen; a table is made if there are only zeroes, or if the operator forces it.
///
/// # Errors
/// The path cannot be opened or mapped, is in use, or differs from the file or device seen before; it holds
/// something else; its table is damaged, has another block size, or is smaller than the configured size.
pub(super) fn open(
    path: &Path,
    options: PmemOptions,
    opening: &Opening<'_>,
) -> Result<Opened, BackendError> {
    let fail = |error: &dyn std::fmt::Display| BackendError::new(path.display(), error);
    let block = options.block_size.unwrap_or(BlockSize::B4096);
    let bytes = |size: u64| region_bytes(size / u64::from(block.bytes()), block);
    // A file that is there keeps its size: its table was made for that.
    let is_missing = std::fs::metadata(path).is_err();
    let made = FileOptions {
        size: options.size.filter(|_| is_missing).map(bytes),
        block_size: None,
        direct: false,
        create: options.create,
        read_only: options.read_only,
    };
    let (file, held) = claimed(path, made, options.size, opening)?;
    let table = table(path, &file, options, opening)?;
    let block = table.block_size();
    if options.block_size.is_some_and(|wanted| wanted != block) {
        let why = format!(
            "its block translation table has blocks of {block} bytes, which cannot change: give \
             block_size = {block}, or leave it out"
        );
        return Err(fail(&why));
    }
    let (all, size) = (table.blocks(), u64::from(block.bytes()));
    let blocks = options.size.map_or(all, |wanted| wanted / size);
    if blocks > all {
        let why = format!(
            "its block translation table was made for {} and cannot grow: give at most that as \
             size, or leave it out",
            format_size(all * size)
        );
        return Err(fail(&why));
    }
    warn(path, table.medium(), options);
    Ok(Opened { table, blocks, held })
}

/// Opens the file or device, and claims it. `made` describes how a file is made or grows; `configured` is the size
/// that a device should have.
///
/// # Errors
/// The path cannot be opened, is neither a regular file nor a device of persistent memory, is in use, or differs
/// from the file or device seen before.
pub(super) fn claimed(
    path: &Path,
    made: FileOptions,
    configured: Option<u64>,
    opening: &Opening<'_>,
) -> Result<(File, Held), BackendError> {
    let claimant = Claimant { path, namespace: opening.namespace, writes: !made.read_only };
    let found = std::fs::metadata(path);
    let fail = |error: io::Error| BackendError::io(path, &error);
    match &found {
        Ok(found) if found.file_type().is_char_device() => {
            // The kernel maps these devices for writing only.
            let file = OpenOptions::new().read(true).write(true).open(path).map_err(fail)?;
            let size = device_bytes(&file).ok_or_else(|| no_region(path, found))?;
            let claim = opening.claims.memory(claimant, &file, found.rdev())?;
            let present = Present { path, size, names: &[] };
            seen::compare(opening.seen, &present, configured)?;
            Ok((file, Held::Device(claim)))
        }
        Ok(found) if !found.is_file() => Err(no_region(path, found)),
        _ => {
            let source = Source::open(path, made, opening)?;
            let file = source.file.try_clone().map_err(fail)?;
            Ok((file, Held::File(source)))
        }
    }
}

/// Makes the error of a path that is neither a regular file nor a device of persistent memory.
pub(super) fn no_region(path: &Path, found: &std::fs::Metadata) -> BackendError {
    if !found.file_type().is_block_device() {
        return BackendError::new(path.display(), RegionError::Other);
    }
    let why = "a block device is not mapped: make it a device of persistent memory (`ndctl \
               create-namespace --mode=devdax`), put a file system with DAX on it and give a file, \
               or write backend = \"block\"";
    BackendError::new(path.display(), why)
}

/// Maps a file or device.
fn map(path: &Path, file: &File, options: PmemOptions) -> Result<Region, BackendError> {
    let access = if options.read_only { Access::Read } else { Access::Write };
    let file = file.try_clone().map_err(|error| BackendError::io(path, &error))?;
    Region::open(file, access).map_err(|error| BackendError::new(path.display(), error))
}

/// Opens the table on a file or device, or makes one.
fn table(
    path: &Path,
    file: &File,
    options: PmemOptions,
    opening: &Opening<'_>,
) -> Result<Btt<Region>, BackendError> {
    let fail = |error: &dyn std::fmt::Display| BackendError::new(path.display(), error);
    let is_empty = file.metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
    if !is_empty || options.size.is_none() {
        let region = map(path, file, options)?;
        let cuts = region.kind().cuts();
        match Btt::open(region, cuts) {
            Ok((table, found)) => {
                report(path, found);
                return Ok(table);
            }
            Err(OpenError::NoTable) => may_make(path, file, opening)?,
            Err(OpenError::Unfinished) => {}
            Err(error) => return Err(fail(&error)),
        }
    }
    if options.read_only {
        return Err(fail(&"it holds no block translation table, and read_only makes none"));
    }
    make(path, file, options)
}

/// Refuses to make a table in place of what hosts had, or of something else.
fn may_make(path: &Path, file: &File, opening: &Opening<'_>) -> Result<(), BackendError> {
    if opening.seen.is_some() {
        let why = "it holds no block translation table any more: restore it from a copy; for a new, \
                   empty one remove the namespace, erase the file or device, and add it again";
        return Err(BackendError::changed(path.display(), why));
    }
    let held = first_byte(file).map_err(|error| BackendError::io(path, &error))?;
    let Some(place) = held.filter(|_| opening.signature != OnSignature::Ignore) else {
        return Ok(());
    };
    let why = format!(
        "it holds something that is no block translation table (a byte at {place} is not zero), and \
         all of it would be lost: give another file or device, erase this one, or if nothing on it \
         is of use, add it with --force (in the configuration file: force = true)"
    );
    Err(BackendError::holds_data(path.display(), why))
}

/// Makes a table, in a file that is as large as the configured size needs.
fn make(path: &Path, file: &File, options: PmemOptions) -> Result<Btt<Region>, BackendError> {
    let fail = |error: &dyn std::fmt::Display| BackendError::new(path.display(), error);
    let block = options.block_size.unwrap_or(BlockSize::B4096);
    let found = file.metadata().map_err(|error| BackendError::io(path, &error))?;
    if let Some(size) = options.size.filter(|_| found.is_file()) {
        let bytes = region_bytes(size / u64::from(block.bytes()), block);
        if bytes > found.len() {
            file.set_len(bytes).map_err(|error| BackendError::io(path, &error))?;
        }
    }
    let region = map(path, file, options)?;
    Btt::format(&region, block, unique()).map_err(|error| fail(&error))?;
    region.sync().map_err(|error| BackendError::io(path, &error))?;
    let cuts = region.kind().cuts();
    let (table, _) = Btt::open(region, cuts).map_err(|error| fail(&error))?;
    tracing::info!(
        path = %path.display(), block_size = block.bytes(),
        size = table.blocks() * u64::from(block.bytes()),
        "a block translation table was made"
    );
    Ok(table)
}

/// Returns an identifier that no other table has.
fn unique() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    // Nothing depends on it: it tells people which table this is.
    Uuid::parse_str(text.trim()).unwrap_or_default().into_bytes()
}

/// Returns the place of the first byte that is not zero. Holes of files are skipped.
fn first_byte(file: &File) -> io::Result<Option<u64>> {
    const STEP: usize = 1 << 20;
    const ZEROES: [u8; 4096] = [0; 4096];
    let found = file.metadata()?;
    if !found.is_file() {
        let region = Region::open(file.try_clone()?, Access::Read).map_err(io::Error::other)?;
        let mut words = (0..region.bytes()).step_by(8);
        return Ok(words.find(|at| region.load(*at) != 0));
    }
    let mut buffer = vec![0; STEP];
    let mut at = 0;
    while at < found.len() {
        let from = i64::try_from(at).map_err(io::Error::other)?;
        at = match lseek64(file, from, Whence::SeekData) {
            Ok(data) => u64::try_from(data).map_err(io::Error::other)?,
            // No data follows.
            Err(nix::errno::Errno::ENXIO) => return Ok(None),
            // A file system that knows no holes.
            Err(_) => at,
        };
        let read = file.read_at(&mut buffer, at)?;
        if read == 0 {
            return Ok(None);
        }
        let bytes = buffer.iter().take(read);
        // Blocks are compared whole, which takes a fraction of the time that single bytes take.
        let blocks = buffer.chunks(ZEROES.len()).take_while(|block| ZEROES.starts_with(block));
        let zeroes = blocks.map(<[u8]>::len).sum();
        if let Some(place) = bytes.skip(zeroes).position(|byte| *byte != 0) {
            return Ok(Some(at + (zeroes + place) as u64));
        }
        at += read as u64;
    }
    Ok(None)
}

/// Logs the findings of opening a table.
fn report(path: &Path, found: pmem::btt::OpenReport) {
    let path = path.display();
    if found.restored > 0 {
        tracing::warn!(
            %path, count = found.restored,
            "info blocks of the block translation table were damaged, and restored from their copies"
        );
    }
    if found.parted > 0 {
        tracing::warn!(
            %path, count = found.parted,
            "after a power cut: blocks that were written since the hosts' last Flush may have old or \
             wrong data; all others are as they were"
        );
    }
    if found.settled > 0 {
        tracing::info!(%path, count = found.settled, "writes that were cut off have been settled");
    }
}

/// Logs which failures a region survives, with a warning if they are fewer than for persistent memory.
fn warn(path: &Path, region: &Region, options: PmemOptions) {
    let (path, kind) = (path.display(), region.kind());
    let flush = region.instruction().map(tracing::field::display);
    match kind.after_power_cut() {
        AfterPowerCut::Flushed => {
            tracing::info!(%path, region = %kind, flush, "persistent memory is open");
        }
        _ if options.read_only => tracing::info!(%path, region = %kind, "a region is open to read"),
        AfterPowerCut::Synchronized => tracing::warn!(
            %path, region = %kind,
            "this is no persistent memory: after a power cut it has what hosts flushed, and of later \
             writes any part; for more put the file on a file system with DAX, or serve it with \
             backend = \"file\""
        ),
        AfterPowerCut::Nothing => tracing::warn!(
            %path, region = %kind,
            "this is no persistent memory: after a power cut or a restart of the machine nothing is \
             left of it"
        ),
    }
    debug_assert!(kind != Kind::Anonymous, "a namespace has a file or device");
}
