//! `file` and `block`: a regular file or a block device, read and written through the ring, with
//! O_DIRECT where the file system supports it.

use std::fs::File;
use std::io::{Error, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabric::controller::UsedBlocks;
use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use nix::fcntl::{FallocateFlags, fallocate};
use sluice_core::ZEROES;

use super::queued::{is_transient, modifies, split, synchronizes};
use super::source::{FileOptions, Source};
use super::sysfs::Presence;
use super::{
    Abilities, Answer, Backend, BackendError, Description, DeviceError, Finding, Health, Job,
    Memory, Opening, Outcome, Place, Queued, Style, Unit, direct, look, origin, preferred, source,
    sysfs,
};
use crate::sys::sync::lock;

/// Largest read or write submitted as one entry, in bytes.
const UNIT_MAX: u64 = super::SCRATCH_MAX as u64;

/// Ways to write zeroes, best first.
const ZERO_RANGE: u8 = 0;
const PUNCH_HOLE: u8 = 1;
const WRITE: u8 = 2;

/// `at` of a unit that is a fallocate in Write Zeroes: this number plus the way's.
const FALLOCATE: u32 = 1;

/// A file or a block device.
#[derive(Debug)]
pub(super) struct FileDisk {
    description: Description,
    health: Health,
    source: Source,
    /// Whether units may have memory in registered buffers: with O_DIRECT.
    registered: AtomicBool,
    /// The best way to write zeroes that the file system has not refused: [`ZERO_RANGE`],
    /// [`PUNCH_HOLE`] or [`WRITE`].
    zero_with: AtomicU8,
    /// Whether the file system refused to punch holes.
    no_holes: AtomicBool,
    /// Whether it goes through the page cache.
    cached: bool,
    /// Whether the namespace only reads.
    read_only: bool,
    /// The device's presence as the kernel last reported it, and when: after many errors the kernel is not asked
    /// for each.
    presence: Mutex<Option<(Instant, Presence)>>,
}

/// The time for which the kernel's word on a device counts.
const PRESENCE_FOR: Duration = Duration::from_millis(100);

impl FileDisk {
    /// Opens a file or device, as [`Source::open`].
    ///
    /// # Errors
    /// As for [`Source::open`]; or it has no size, or a larger block size than configured.
    pub(super) fn open(
        path: &Path,
        options: FileOptions,
        opening: &Opening<'_>,
    ) -> Result<Self, BackendError> {
        let fail = |why: &dyn std::fmt::Display| BackendError::new(path.display(), why);
        let source = Source::open(path, options, opening)?;
        let (is_device, size) = (source.is_device, source.size);
        let block_size =
            block_size(&source.file, is_device, options.block_size).map_err(|why| fail(&why))?;
        let format = BlockFormat::plain(u64::from(block_size)).map_err(|e| fail(&e))?;
        let blocks = format.blocks(options.size.map_or(size, |s| s.min(size)));
        if blocks == 0 {
            return Err(fail(&format!("its {size} bytes hold no whole block; give a size")));
        }
        let obstacle = match options.direct {
            true => direct::turn_on(&source.file, path, block_size)?,
            false => None,
        };
        let is_direct = options.direct && obstacle.is_none();
        if !is_direct {
            // Direct I/O has read a block.
            source.check_readable(path)?;
        }
        let notice = obstacle.map(|obstacle| obstacle.to_string());
        if let Some(notice) = &notice {
            tracing::warn!(path = %path.display(), "{notice}");
        }
        let can_punch = can_punch(&source, options.read_only);
        let used = (!is_device && can_punch).then(UsedBlocks::default);
        if let Some(used) = &used {
            used.set(used_blocks(&source.file, format));
        }
        let description = Description {
            kind: if is_device { "block" } else { "file" },
            path: Some(path.to_owned()),
            device: source.device.clone(),
            region: None,
            seeks: source.seeks(),
            format,
            abilities: Abilities {
                volatile_cache: true,
                deallocate: true,
                // A hole that is punched reads as zeroes, on a device too.
                zeroes_after_deallocate: can_punch,
                write_zeroes_deallocates: can_punch,
                write_zeroes: true,
                compare: true,
                verify: true,
            },
            preferred: preferred::sizes(preferred::limits(&source.file), block_size),
            used,
            notice,
            identify: None,
            controller: None,
        };
        Ok(Self {
            description,
            health: Health::new(blocks),
            source,
            registered: AtomicBool::new(is_direct),
            zero_with: AtomicU8::new(ZERO_RANGE),
            no_holes: AtomicBool::new(!can_punch),
            cached: !is_direct,
            read_only: options.read_only,
            presence: Mutex::default(),
        })
    }

    fn format(&self) -> BlockFormat {
        self.description.format
    }

    fn name(&self) -> String {
        self.description.path.as_deref().unwrap_or(Path::new("?")).display().to_string()
    }

    /// Returns the size in bytes that the file or device has now.
    fn present_size(&self) -> Result<u64, BackendError> {
        (&self.source.file).seek(SeekFrom::End(0)).map_err(|e| BackendError::new(self.name(), e))
    }

    /// Makes the length that a file has now outlive a power failure.
    fn sync_length(&self) -> Result<(), BackendError> {
        if self.source.is_device {
            return Ok(());
        }
        let path = self.description.path.as_deref().unwrap_or(Path::new("?"));
        source::sync_length(path, &self.source.file).inspect_err(|_| {
            // The error may be an earlier write-back's, which the kernel reports once.
            if self.cached {
                self.health.lose_cached();
            }
        })
    }

    /// Plans Write Zeroes. Punches a hole if the host allows it. Writes zeroes if no better way is left, or if they
    /// must be on media (fallocate knows no FUA).
    fn plan_zeroes(
        &self,
        range: LbaRange,
        (deallocate, fua): (bool, bool),
        units: &mut Vec<Unit>,
    ) -> Memory {
        let (offset, length) = (range.offset(self.format()), range.bytes(self.format()));
        let best = self.zero_with.load(Relaxed);
        let punch = deallocate && best == ZERO_RANGE && !self.no_holes.load(Relaxed);
        let way = if punch { PUNCH_HOLE } else { best };
        if way == WRITE || fua {
            split(units, offset, length, ZEROES as u64);
            for unit in units {
                unit.at = 0;
            }
            return Memory::Zeroes;
        }
        // `at` tells `entry` and `finish_fallocate` the way.
        units.push(Unit { offset, length, at: FALLOCATE + u32::from(way) });
        Memory::None
    }

    fn plan_holes(&self, data: &[u8], units: &mut Vec<Unit>) -> Result<Memory, Status> {
        let limits = self.health.limits(self.format());
        for range in limits.dsm_ranges(data) {
            self.plan_hole(range?, units);
        }
        Ok(Memory::None)
    }

    fn plan_hole(&self, range: LbaRange, units: &mut Vec<Unit>) {
        if !self.no_holes.load(Relaxed) {
            let length = range.bytes(self.format());
            units.push(Unit { offset: range.offset(self.format()), length, at: 0 });
        }
    }

    /// Returns the kernel's view of the device's presence. Commands to a device that was removed fail with any
    /// error (reads end at once, writes find no space).
    #[cold]
    fn presence(&self) -> Presence {
        if !self.source.is_device {
            return Presence::Here;
        }
        if self.present_size().is_ok_and(|size| size == 0) {
            return Presence::Gone;
        }
        let (now, mut known) = (Instant::now(), lock(&self.presence));
        match *known {
            Some((at, presence)) if now.duration_since(at) < PRESENCE_FOR => presence,
            _ => {
                let number = self.source.file.metadata().map_or(0, |found| found.rdev());
                let presence = sysfs::presence(number);
                *known = Some((now, presence));
                presence
            }
        }
    }

    /// Returns whether a command ends with an `fdatasync` of cached writes. Its error may be an earlier
    /// write-back's, which the kernel reports once: a second `fdatasync` could succeed although writes are lost.
    fn reports_write_back(&self, command: &IoCommand) -> bool {
        self.cached && synchronizes(command)
    }

    /// Returns whether a command may succeed if it is submitted again a little later. EBUSY and ENOMEM may be the
    /// errors of an earlier write-back; EAGAIN and EINTR are not.
    fn is_transient(&self, command: &IoCommand, errno: i32) -> bool {
        let is_of_write_back = matches!(errno, libc::EBUSY | libc::ENOMEM);
        is_transient(errno) && !(is_of_write_back && self.reports_write_back(command))
    }

    /// Returns the outcome of a negative result.
    #[cold]
    fn failure(&self, job: &Job<'_>, unit: &Unit, errno: i32, status: Status) -> Outcome {
        let loses = self.reports_write_back(job.command);
        if loses {
            self.health.lose_cached();
        }
        // A retried Flush could succeed although earlier writes are lost.
        let is_final = loses || matches!(job.command, IoCommand::Flush);
        let status = if is_final { status.dnr() } else { status };
        let answer = Answer::Errno(errno);
        let gone = |why: &str| {
            self.health.fail(format!("{}: {why}", self.name()));
            Outcome::Done(0, if loses { status } else { Status::NAMESPACE_NOT_READY })
        };
        let presence = self.presence();
        match errno {
            libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM => return gone("the device is gone"),
            _ if presence == Presence::Gone => return gone("the device is gone"),
            libc::ENOLINK | libc::ETIMEDOUT if self.source.is_device && !is_final => {
                return Outcome::NoPath;
            }
            libc::EIO if presence == Presence::NoPath && !is_final => {
                return Outcome::NoPath;
            }
            libc::EIO | libc::ENOLINK | libc::ETIMEDOUT if self.source.is_device => {
                return Outcome::Doubtful(answer, status);
            }
            // The file was opened for writing; no command reaches the open file any more.
            libc::EROFS | libc::ESTALE | libc::ENOTCONN if !self.source.is_device => {
                let why = Error::from_raw_os_error(errno);
                return gone(&format!("its file system has failed: {why}"));
            }
            libc::EIO | libc::ETIMEDOUT | libc::EUCLEAN if !self.source.is_device => {
                // A bad block, or the whole file system: the keeper finds out.
                if let Some(why) = self.health.fault() {
                    return gone(&why);
                }
                self.health.suspect();
                return Outcome::Doubtful(answer, status);
            }
            _ => {}
        }
        self.note(job, unit, answer);
        let status = match errno {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Status::CAPACITY_EXCEEDED.dnr(),
            libc::EROFS | libc::EPERM => Status::WRITE_PROTECTED.dnr(),
            _ => status,
        };
        Outcome::Done(0, status)
    }

    fn note(&self, job: &Job<'_>, unit: &Unit, answer: Answer) {
        let lba = self.format().blocks(unit.offset);
        self.health.note(DeviceError::new(job.command, lba, answer));
    }

    /// Returns the outcome of a read or write that moved nothing: the file has become shorter than its namespace,
    /// or the device is gone.
    #[cold]
    fn ended_early(&self, job: &Job<'_>, unit: &Unit) -> Outcome {
        if self.presence() == Presence::Gone {
            return self.failure(job, unit, libc::ENXIO, Status::INTERNAL_ERROR);
        }
        self.note(job, unit, Answer::EndOfFile);
        Outcome::Done(0, Status::INTERNAL_ERROR)
    }

    /// Returns the outcome of fallocate. If a file system refuses a way, the next one is tried.
    fn finish_fallocate(&self, job: &Job<'_>, unit: &Unit, errno: i32) -> Outcome {
        let refused = matches!(errno, libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS);
        match job.command {
            IoCommand::DatasetManagement { .. } | IoCommand::Deallocate { .. } if refused => {
                self.no_holes.store(true, Relaxed);
                Outcome::Done(0, Status::SUCCESS)
            }
            IoCommand::WriteZeroes { .. } if refused && unit.at >= FALLOCATE => {
                // Other commands in flight may be refused too: only the first changes the way.
                let way = u8::try_from(unit.at - FALLOCATE).unwrap_or(PUNCH_HOLE);
                if way == PUNCH_HOLE {
                    self.no_holes.store(true, Relaxed);
                }
                let _ = self.zero_with.compare_exchange(way, way + 1, Relaxed, Relaxed);
                Outcome::Replan
            }
            _ => self.failure(job, unit, errno, Status::WRITE_FAULT),
        }
    }
}

/// Returns the block size of a namespace on a file or device. `configured` is `block_size`.
///
/// # Errors
/// The device cannot be read and written in such blocks, or hosts take no such blocks.
pub(super) fn block_size(
    file: &File,
    is_device: bool,
    configured: Option<u32>,
) -> Result<u32, String> {
    let native = is_device.then(|| device_block_size(file)).transpose();
    choose_block_size(native.map_err(|error| error.to_string())?, configured)
}

/// Returns the block size of a namespace on a device with blocks of `native` bytes, or on a file.
fn choose_block_size(native: Option<u32>, configured: Option<u32>) -> Result<u32, String> {
    let Some(native) = native else { return Ok(configured.unwrap_or(4096)) };
    match configured.unwrap_or(native) {
        wanted @ (512 | 4096) if wanted >= native => Ok(wanted),
        wanted => {
            let remedy = match native {
                ..=4096 => "give block_size = 4096, or leave it out",
                _ => "such a device cannot be served",
            };
            Err(format!(
                "block_size = {wanted} cannot be served: the device's blocks have {native} bytes, \
                 hosts take 512 or 4096; {remedy}"
            ))
        }
    }
}

/// Returns whether blocks of an open file or device can be deallocated, so that they read as zeroes.
fn can_punch(source: &Source, read_only: bool) -> bool {
    if read_only {
        return false;
    }
    if source.is_device {
        let number = source.file.metadata().map(|found| found.rdev());
        return number.is_ok_and(|number| sysfs::queue(number).most_zeroes > 0);
    }
    // There is nothing behind a file's end: a file system that can punch holes changes nothing.
    let beyond = source.size.next_multiple_of(4096).try_into();
    let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    beyond.is_ok_and(|offset| fallocate(&source.file, mode, offset, 4096).is_ok())
}

/// Returns the number of blocks of a format for which a file takes space.
fn used_blocks(file: &File, format: BlockFormat) -> u64 {
    // `st_blocks` counts units of 512 bytes on any file system.
    let bytes = file.metadata().map_or(0, |found| found.blocks().saturating_mul(512));
    bytes.div_ceil(u64::from(format.data_bytes()))
}

/// Returns the logical block size of a block device in bytes.
fn device_block_size(file: &File) -> Result<u32, Error> {
    nix::ioctl_read_bad!(blksszget, libc::BLKSSZGET, libc::c_int);
    let mut size = 0;
    // SAFETY: BLKSSZGET writes one int.
    unsafe { blksszget(file.as_raw_fd(), &raw mut size) }?;
    u32::try_from(size).map_err(Error::other)
}

impl Backend for FileDisk {
    fn description(&self) -> &Description {
        &self.description
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn style(&self) -> Style<'_> {
        Style::Queued(self)
    }

    fn origin(&self) -> Option<String> {
        origin::origin(&self.source.file)
    }

    fn look(&self) -> Option<Finding> {
        let path = self.description.path.as_deref()?;
        if self.source.is_device {
            if self.presence() == Presence::Gone {
                return Some(Finding::Gone(format!("{}: the device is gone", path.display())));
            }
            let size = self.present_size().ok()?;
            return look::at_device(path, size, self.format().bytes(self.health.blocks()));
        }
        if let Some(used) = &self.description.used {
            used.set(used_blocks(&self.source.file, self.format()));
        }
        let served = self.format().bytes(self.health.blocks());
        let (file, is_suspect) = (&self.source.file, self.health.take_suspect());
        look::at_file_system(path, file, (!self.read_only, is_suspect))
            .or_else(|| look::at_file(path, file, served))
    }

    fn present_blocks(&self) -> Result<u64, BackendError> {
        Ok(self.format().blocks(self.present_size()?))
    }

    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError> {
        let name = self.name();
        let size = self.present_size()?;
        let Some(blocks) = blocks else {
            self.sync_length()?;
            self.health.set_blocks(self.format().blocks(size));
            return Ok(self.format().blocks(size));
        };
        let bytes = self.format().bytes(blocks);
        if bytes > size {
            if self.source.is_device {
                let why = format!("the device has {size} bytes: give at most that");
                return Err(BackendError::new(&name, why));
            }
            let path = self.description.path.as_deref().unwrap_or(Path::new("?"));
            source::grow(path, &self.source.file, bytes)?;
            self.sync_length()?;
        }
        self.health.set_blocks(blocks);
        Ok(blocks)
    }
}

impl Queued for FileDisk {
    fn plan(&self, job: &Job<'_>, units: &mut Vec<Unit>) -> Result<Memory, Status> {
        if synchronizes(job.command) {
            self.health.check_cached(job.host)?;
        }
        let bytes = |range: &LbaRange| range.bytes(self.format());
        match job.command {
            IoCommand::Read { range, .. } | IoCommand::Write { range, .. } => {
                split(units, range.offset(self.format()), bytes(range), UNIT_MAX);
                Ok(Memory::Data)
            }
            IoCommand::Compare { range } => {
                split(units, range.offset(self.format()), bytes(range), UNIT_MAX);
                Ok(Memory::Scratch(range.transfer_bytes(self.format())))
            }
            IoCommand::Verify { range } => {
                let largest = UNIT_MAX.min(bytes(range));
                split(units, range.offset(self.format()), bytes(range), largest);
                for unit in units {
                    unit.at = 0;
                }
                Ok(Memory::Scratch(u32::try_from(largest).unwrap_or(u32::MAX)))
            }
            IoCommand::Flush => {
                // The offset of a Flush is the number of the synchronization.
                units.push(Unit { offset: self.health.cached().begin_sync(), length: 0, at: 0 });
                Ok(Memory::None)
            }
            IoCommand::WriteZeroes { range, deallocate, fua } => {
                Ok(self.plan_zeroes(*range, (*deallocate, *fua), units))
            }
            IoCommand::DatasetManagement { deallocate: false, .. } => Ok(Memory::None),
            IoCommand::DatasetManagement { .. } => self.plan_holes(job.data, units),
            IoCommand::Deallocate { range } => {
                self.plan_hole(*range, units);
                Ok(Memory::None)
            }
        }
    }

    fn registered(&self) -> Option<&AtomicBool> {
        Some(&self.registered)
    }

    fn entry(&self, job: &Job<'_>, unit: &Unit, memory: Place) -> squeue::Entry128 {
        let fd = Fd(self.source.file.as_raw_fd());
        let (address, offset) = (memory.address, unit.offset);
        let length = u32::try_from(unit.length).unwrap_or(u32::MAX);
        let write = |fua: bool| {
            let flags = if fua { libc::RWF_DSYNC } else { 0 };
            match memory.registered {
                Some(buffer) => opcode::WriteFixed::new(fd, address, length, buffer)
                    .offset(offset)
                    .rw_flags(flags)
                    .build(),
                None => {
                    opcode::Write::new(fd, address, length).offset(offset).rw_flags(flags).build()
                }
            }
        };
        match job.command {
            IoCommand::Read { .. } | IoCommand::Compare { .. } | IoCommand::Verify { .. } => {
                match memory.registered {
                    Some(buffer) => {
                        opcode::ReadFixed::new(fd, address, length, buffer).offset(offset).build()
                    }
                    None => opcode::Read::new(fd, address, length).offset(offset).build(),
                }
            }
            IoCommand::Write { fua, .. } => write(*fua),
            IoCommand::WriteZeroes { fua, .. } if !address.is_null() => write(*fua),
            IoCommand::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            IoCommand::WriteZeroes { .. }
            | IoCommand::DatasetManagement { .. }
            | IoCommand::Deallocate { .. } => {
                let punch = !matches!(job.command, IoCommand::WriteZeroes { .. })
                    || unit.at == FALLOCATE + u32::from(PUNCH_HOLE);
                let mode = libc::FALLOC_FL_KEEP_SIZE
                    | if punch { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
                opcode::Fallocate::new(fd, unit.length).offset(unit.offset).mode(mode).build()
            }
        }
        .into()
    }

    fn finish(&self, job: &Job<'_>, unit: &Unit, result: i32, _extra: u64) -> Outcome {
        match job.command {
            IoCommand::Flush if result >= 0 => self.health.cached().end_sync(unit.offset),
            command if self.cached && modifies(command) && !synchronizes(command) => {
                // A failed write may have written something.
                self.health.cached().note_write();
            }
            _ => {}
        }
        if result.checked_neg().is_some_and(|errno| self.is_transient(job.command, errno)) {
            return Outcome::Busy;
        }
        match job.command {
            IoCommand::Flush if result < 0 => self.failure(job, unit, -result, Status::WRITE_FAULT),
            IoCommand::Flush => Outcome::Done(0, Status::SUCCESS),
            IoCommand::WriteZeroes { .. }
            | IoCommand::DatasetManagement { .. }
            | IoCommand::Deallocate { .. }
                if result < 0 =>
            {
                self.finish_fallocate(job, unit, -result)
            }
            IoCommand::DatasetManagement { .. } | IoCommand::Deallocate { .. } => {
                Outcome::Done(0, Status::SUCCESS)
            }
            // A fallocate answers 0, a write of zeroes the bytes written.
            IoCommand::WriteZeroes { .. } if result == 0 => Outcome::Done(0, Status::SUCCESS),
            IoCommand::Write { .. } if result < 0 => {
                self.failure(job, unit, -result, Status::WRITE_FAULT)
            }
            _ if result < 0 => self.failure(job, unit, -result, Status::UNRECOVERED_READ_ERROR),
            _ => match u32::try_from(result) {
                Ok(bytes) if u64::from(bytes) >= unit.length => Outcome::Done(0, Status::SUCCESS),
                Ok(0) | Err(_) => self.ended_early(job, unit),
                Ok(bytes) => Outcome::Partial(bytes),
            },
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
