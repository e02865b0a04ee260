//! The device of a namespace, on simulated time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc;

use arbitration::device::{self as qos, DeviceRules};
use fabric::Nanos;
use fabric::nvm::{BlockFormat, IoCommand, IoLimits, LbaRange};
use fabric::nvme::Status;

use crate::machine::device::{BlockDevice, Data, Immediate, Style, Timed};
use crate::machine::job::{Ended, Job};
use crate::memory::held::{Held, HeldBlocks};
use crate::stats::counters::{IoSnapshot, IoStats, PerReactor};

/// Size in bytes of a block in [`Ram`].
pub const BLOCK: usize = 512;

/// The way in which a device carries out commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Commands are carried out on the spot.
    Immediate,
    /// Commands are carried out on the spot, and complete when [`Blocks::done_at`] says.
    Timed,
    /// Commands are in the device from their launch until its owner ends them.
    Queued,
}

/// The behaviour of a device's blocks.
pub trait Blocks: fmt::Debug {
    /// Carries out a command whose blocks exist.
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status;

    /// Carries a read out without a copy, as [`Immediate::hold`].
    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let _ = command;
        None
    }

    /// Returns whether every read returns zeroes.
    fn reads_zeroes(&self) -> bool {
        false
    }

    /// Returns the time at which a timed device's command of `now` is complete.
    fn done_at(&self, now: Nanos, command: &IoCommand) -> Nanos {
        let _ = command;
        now
    }
}

/// A device.
#[derive(Debug)]
pub struct Disk<B> {
    /// Its blocks.
    pub content: B,
    kind: Cell<Kind>,
    format: BlockFormat,
    blocks: Cell<u64>,
    qos: Arc<qos::Device>,
    stats: PerReactor,
}

impl<B> Disk<B> {
    /// Makes a device with so many blocks of a format, and its statistics for so many reactors.
    #[must_use]
    pub fn new(
        kind: Kind,
        content: B,
        (blocks, format): (u64, BlockFormat),
        rules: DeviceRules,
        reactors: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            content,
            kind: Cell::new(kind),
            format,
            blocks: Cell::new(blocks),
            qos: Arc::new(qos::Device::new(rules, reactors)),
            stats: PerReactor::new(reactors),
        })
    }

    /// Returns the way in which it carries out commands.
    pub fn kind(&self) -> Kind {
        self.kind.get()
    }

    /// Sets the way in which it carries out commands from now on.
    pub fn set_kind(&self, kind: Kind) {
        self.kind.set(kind);
    }

    /// Sets the number of its blocks.
    pub fn set_blocks(&self, blocks: u64) {
        self.blocks.set(blocks);
    }

    /// Returns the statistics of all reactors together.
    pub fn total(&self) -> IoSnapshot {
        let mut sum = IoSnapshot::default();
        self.stats.iter().for_each(|stats| sum.merge(&stats.snapshot()));
        sum
    }
}

impl<B: Blocks> BlockDevice for Disk<B> {
    fn style(&self) -> Style<'_> {
        match self.kind.get() {
            Kind::Immediate => Style::Immediate(self),
            Kind::Timed => Style::Timed(self),
            Kind::Queued => Style::Queued,
        }
    }

    fn format(&self) -> BlockFormat {
        self.format
    }

    fn blocks(&self) -> u64 {
        self.blocks.get()
    }

    fn qos(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    fn stats(&self, reactor: usize) -> Option<&IoStats> {
        self.stats.get(reactor)
    }
}

impl<B: Blocks> Immediate for Disk<B> {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        self.content.run(command, data)
    }

    fn hold(&self, command: &IoCommand) -> Option<Held> {
        self.content.hold(command)
    }

    fn reads_zeroes(&self) -> bool {
        self.content.reads_zeroes()
    }
}

impl<B: Blocks> Timed for Disk<B> {
    fn done_at(&self, now: Nanos, command: &IoCommand) -> Nanos {
        self.content.done_at(now, command)
    }
}

/// Ends a command that was in its device: it fails with a status, or is carried out now.
#[must_use]
pub fn end_job<B: Blocks, M: DerefMut<Target = [u8]>>(
    mut job: Job<Disk<B>, M>,
    fails: Option<Status>,
) -> Ended<Disk<B>, M> {
    let status = fails.unwrap_or_else(|| {
        let data = match (&job.command, &mut job.buffer) {
            (IoCommand::Read { .. }, Some(buffer)) => Data::Read(buffer),
            (_, Some(buffer)) => Data::Write(buffer),
            (_, None) => Data::None,
        };
        job.device.content.run(&job.command, data)
    });
    Ended { job, result: 0, status }
}

/// A copy of blocks.
impl HeldBlocks for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Blocks of [`BLOCK`] bytes that are kept in memory.
#[derive(Debug)]
pub struct Ram {
    bytes: RefCell<Vec<u8>>,
    /// The status with which every command fails.
    pub fails: Cell<Option<Status>>,
    /// Time in ns that a timed device's commands take.
    pub delay_ns: Cell<u64>,
}

impl Ram {
    /// Makes so many blocks of zeroes.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        let ram =
            Self { bytes: RefCell::default(), fails: Cell::new(None), delay_ns: Cell::new(0) };
        ram.grow(blocks);
        ram
    }

    /// Grows to at least so many blocks.
    pub fn grow(&self, blocks: u64) {
        let bytes = usize::try_from(blocks).unwrap_or(0).saturating_mul(BLOCK);
        let mut held = self.bytes.borrow_mut();
        if held.is_empty() {
            // Unlike the zeroes of a vector that grows, these cost nothing before they are touched.
            *held = vec![0; bytes];
        } else if held.len() < bytes {
            held.resize(bytes, 0);
        }
    }
}

/// Returns the bytes of some blocks.
fn bytes_of<'a>(all: &'a mut [u8], range: &LbaRange) -> Result<&'a mut [u8], Status> {
    let start = usize::try_from(range.lba).unwrap_or(usize::MAX).saturating_mul(BLOCK);
    let end = start.saturating_add(range.blocks as usize * BLOCK);
    all.get_mut(start..end).ok_or(Status::LBA_OUT_OF_RANGE.dnr())
}

impl Ram {
    fn execute(&self, command: &IoCommand, data: Data<'_>) -> Result<(), Status> {
        self.fails.get().map_or(Ok(()), Err)?;
        let mut all = self.bytes.borrow_mut();
        match (command, data) {
            (IoCommand::Read { range, .. }, Data::Read(into)) => {
                into.copy_from_slice(bytes_of(&mut all, range)?);
            }
            (IoCommand::Write { range, .. }, Data::Write(from)) => {
                bytes_of(&mut all, range)?.copy_from_slice(from);
            }
            (IoCommand::Compare { range }, Data::Write(with)) => {
                let is_equal = bytes_of(&mut all, range)? == with;
                return if is_equal { Ok(()) } else { Err(Status::COMPARE_FAILURE) };
            }
            (IoCommand::WriteZeroes { range, .. } | IoCommand::Deallocate { range }, _) => {
                bytes_of(&mut all, range)?.fill(0);
            }
            (IoCommand::DatasetManagement { ranges, deallocate: true }, Data::Write(from)) => {
                let limits = IoLimits {
                    format: BlockFormat::BYTES_512,
                    blocks: (all.len() / BLOCK) as u64,
                    read_only: false,
                    max_transfer: u32::MAX,
                };
                let definitions = from.get(..usize::from(*ranges) * 16).unwrap_or(from);
                for range in limits.dsm_ranges(definitions) {
                    if let Ok(bytes) = bytes_of(&mut all, &range?) {
                        bytes.fill(0);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Blocks for Ram {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        self.execute(command, data).err().unwrap_or(Status::SUCCESS)
    }

    fn done_at(&self, now: Nanos, _: &IoCommand) -> Nanos {
        Nanos(now.0 + self.delay_ns.get())
    }
}
