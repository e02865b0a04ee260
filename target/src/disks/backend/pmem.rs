//! `pmem`: persistent memory, or a file in its stead, with logical blocks that are atomic by a block
//! translation table.
//!
//! Commands are carried out on the reactor, by loads and stores. With DAX that is all there is to do:
//! a write survives a power cut when it is complete, and there is no cache for a Flush. On a plain file
//! a Flush, and a write with FUA, end with an `fdatasync` through the ring.

use std::os::fd::AsRawFd;
use std::path::Path;

use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use pmem::btt::Btt;
use pmem::region::{AfterPowerCut, Kind, Region};
use sluice_config::format_size;
use sluice_core::device::{Data, Immediate};

use super::pmem_open::{self, Opened, PmemOptions};
use super::queued::synchronizes;
use super::{
    Abilities, Answer, Backend, BackendError, Description, DeviceError, Finding, Health, Job,
    Memory, Opening, Outcome, Place, Queued, Style, Unit, look, origin,
};

/// The size of the largest logical block in bytes.
const BLOCK_MAX: usize = 4096;

/// A namespace on persistent memory.
#[derive(Debug)]
pub(super) struct PmemDisk {
    description: Description,
    health: Health,
    table: Btt<Region>,
    /// Whether stored data must be synchronized to be durable.
    cached: bool,
    /// The claim that keeps others from the file or device.
    _held: pmem_open::Held,
}

impl PmemDisk {
    /// Opens a device or file, as [`pmem_open::open`].
    ///
    /// # Errors
    /// As for [`pmem_open::open`].
    pub(super) fn open(
        path: &Path,
        options: PmemOptions,
        opening: &Opening<'_>,
    ) -> Result<Self, BackendError> {
        let Opened { table, blocks, held } = pmem_open::open(path, options, opening)?;
        let format = BlockFormat::plain(u64::from(table.block_size().bytes()))
            .map_err(|error| BackendError::new(path.display(), error))?;
        let kind = table.medium().kind();
        let synchronized = kind.after_power_cut() == AfterPowerCut::Synchronized;
        let cached = synchronized && !options.read_only;
        let abilities = Abilities {
            volatile_cache: cached,
            deallocate: true,
            zeroes_after_deallocate: true,
            write_zeroes_deallocates: true,
            write_zeroes: true,
            compare: true,
            verify: true,
        };
        let description = Description {
            path: Some(path.to_owned()),
            region: Some(kind.name()),
            ..Description::new("pmem", format, abilities)
        };
        Ok(Self { description, health: Health::new(blocks), table, cached, _held: held })
    }

    fn name(&self) -> String {
        self.description.path.as_deref().unwrap_or(Path::new("?")).display().to_string()
    }

    /// Calls `each` with a range's blocks and their bytes. A block that cannot be read ends that.
    fn blocks<B>(
        &self,
        command: &IoCommand,
        range: LbaRange,
        bytes: impl Iterator<Item = B>,
        mut each: impl FnMut(u64, B) -> Result<Status, pmem::btt::Unreadable>,
    ) -> Status {
        for (block, bytes) in (range.lba..).zip(bytes) {
            match each(block, bytes) {
                Ok(Status::SUCCESS) => {}
                Ok(status) => return status,
                Err(_) => {
                    let answer = Answer::Status(Status::UNRECOVERED_READ_ERROR);
                    self.health.note(DeviceError::new(command, block, answer));
                    return Status::UNRECOVERED_READ_ERROR;
                }
            }
        }
        Status::SUCCESS
    }

    fn block_size(&self) -> usize {
        self.table.block_size().bytes() as usize
    }

    /// Reads blocks into a buffer of its own, and compares them where there is something to compare
    /// with.
    fn verify(&self, command: &IoCommand, range: LbaRange, with: Option<&[u8]>) -> Status {
        let mut buffer = [0; BLOCK_MAX];
        let Some(mine) = buffer.get_mut(..self.block_size()) else {
            debug_assert!(false, "no block is larger than the buffer");
            return Status::INTERNAL_ERROR;
        };
        let mut theirs = with.map(|bytes| bytes.chunks_exact(mine.len()));
        self.blocks(command, range, 0..range.blocks, |block, _| {
            self.table.read(block, mine)?;
            let same = theirs.as_mut().is_none_or(|theirs| theirs.next() == Some(&*mine));
            Ok(if same { Status::SUCCESS } else { Status::COMPARE_FAILURE })
        })
    }

    fn deallocate(&self, definitions: &[u8]) -> Status {
        let limits = self.health.limits(self.description.format);
        let ranges = match limits.valid_dsm_ranges(definitions) {
            Ok(ranges) => ranges,
            Err(status) => return status,
        };
        for range in ranges {
            self.table.zero(range.lba, range.blocks.into());
        }
        Status::SUCCESS
    }
}

impl Backend for PmemDisk {
    fn description(&self) -> &Description {
        &self.description
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn style(&self) -> Style<'_> {
        if self.cached { Style::Queued(self) } else { Style::Immediate(self) }
    }

    fn origin(&self) -> Option<String> {
        self.table.medium().file().and_then(origin::origin)
    }

    fn look(&self) -> Option<Finding> {
        let region = self.table.medium();
        let file = region.file().filter(|_| region.kind() != Kind::DeviceDax)?;
        look::at_file(self.description.path.as_deref()?, file, pmem::medium::Medium::bytes(region))
    }

    fn present_blocks(&self) -> Result<u64, BackendError> {
        Ok(self.table.blocks())
    }

    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError> {
        let most = self.table.blocks();
        let blocks = blocks.unwrap_or(most);
        if blocks > most {
            let most = format_size(self.description.format.bytes(most));
            let why = format!(
                "its block translation table was made for {most} and cannot grow: give at most \
                 that, or move the data to a larger file or device"
            );
            return Err(BackendError::new(self.name(), why));
        }
        self.health.set_blocks(blocks);
        Ok(blocks)
    }
}

impl Immediate for PmemDisk {
    #[inline]
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        let size = self.block_size();
        match (command, data) {
            (IoCommand::Read { range, .. }, Data::Read(into)) => {
                return self.blocks(command, *range, into.chunks_exact_mut(size), |block, into| {
                    self.table.read(block, into).map(|()| Status::SUCCESS)
                });
            }
            (IoCommand::Write { range, .. }, Data::Write(from)) => {
                for (block, from) in (range.lba..).zip(from.chunks_exact(size)) {
                    self.table.write(block, from);
                }
            }
            (IoCommand::Compare { range }, Data::Write(with)) => {
                return self.verify(command, *range, Some(with));
            }
            (IoCommand::Verify { range }, _) => return self.verify(command, *range, None),
            (IoCommand::WriteZeroes { range, .. } | IoCommand::Deallocate { range }, _) => {
                self.table.zero(range.lba, range.blocks.into());
            }
            (IoCommand::DatasetManagement { deallocate: true, ranges }, Data::Write(from)) => {
                let length = usize::from(*ranges) * fabric::nvm::DSM_RANGE_BYTES as usize;
                return self.deallocate(from.get(..length).unwrap_or(from));
            }
            (IoCommand::Flush | IoCommand::DatasetManagement { deallocate: false, .. }, _) => {}
            (
                IoCommand::Read { .. }
                | IoCommand::Write { .. }
                | IoCommand::Compare { .. }
                | IoCommand::DatasetManagement { .. },
                _,
            ) => return Status::INTERNAL_ERROR,
        }
        Status::SUCCESS
    }
}

impl Queued for PmemDisk {
    fn at_once(&self, command: &IoCommand, data: Data<'_>) -> Option<Status> {
        let status = self.run(command, data);
        (!status.is_success() || !synchronizes(command)).then_some(status)
    }

    fn plan(&self, job: &Job<'_>, units: &mut Vec<Unit>) -> Result<Memory, Status> {
        if synchronizes(job.command) {
            self.health.check_cached(job.host)?;
            units.push(Unit { offset: 0, length: 0, at: 0 });
        }
        Ok(Memory::None)
    }

    fn entry(&self, _: &Job<'_>, _: &Unit, _: Place) -> squeue::Entry128 {
        // Only regions on files are synchronized.
        let file = self.table.medium().file().map_or(-1, AsRawFd::as_raw_fd);
        opcode::Fsync::new(Fd(file)).flags(FsyncFlags::DATASYNC).build().into()
    }

    fn finish(&self, job: &Job<'_>, _: &Unit, result: i32, _extra: u64) -> Outcome {
        match result {
            0.. => Outcome::Done(0, Status::SUCCESS),
            _ if matches!(-result, libc::EAGAIN | libc::EINTR | libc::EBUSY) => Outcome::Busy,
            _ => {
                self.health.note(DeviceError::new(job.command, 0, Answer::Errno(-result)));
                self.health.lose_cached();
                Outcome::Done(0, Status::WRITE_FAULT.dnr())
            }
        }
    }
}

#[cfg(test)]
#[path = "pmem_tests.rs"]
mod tests;
