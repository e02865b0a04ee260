//! Large deallocations (Dataset Management) on namespaces in memory. A gigabyte takes tens of
//! milliseconds to give back; in slices, each a system task that is charged to its session
//! (docs/sources.md, D2, D3), nobody waits for more than one of them.

use std::collections::VecDeque;
use std::ops::Deref;

use arbitration::arbiter::Request;
use fabric::nvm::{DSM_RANGE_BYTES, IoCommand, IoLimits, LbaRange};
use fabric::nvme::Status;
use fabric::queue::SlotId;

use crate::charge::Charge;
use crate::device::{Data, Device, Style};
use crate::job::{Ended, Job};
use crate::key::Key;

/// Bytes of one slice: less than a millisecond.
const SLICE: u64 = 16 << 20;
/// A command that deallocates no more than this is carried out at once.
const SMALL: u64 = 16 << 20;
/// Operation credits of a slice: it occupies the reactor for longer than a user's command.
const OPERATIONS: u32 = 4;

/// A deallocation that is carried out slice by slice.
#[derive(Debug)]
pub(crate) struct Deallocation<V, B> {
    pub(crate) job: Job<V, B>,
    /// What is left, the next first.
    left: VecDeque<LbaRange>,
}

/// What a slice has left to do.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the caller takes it apart")]
pub(crate) enum Slice<V, B> {
    /// More slices follow.
    More(Box<Deallocation<V, B>>),
    /// It was the last one.
    Last(Ended<V, B>),
}

impl<V: Device, B: Deref<Target = [u8]>> Deallocation<V, B> {
    /// Returns what a job deallocates, where that is so much that it is done in slices.
    pub(crate) fn ranges(job: &Job<V, B>) -> Option<VecDeque<LbaRange>> {
        let IoCommand::DatasetManagement { deallocate: true, ranges } = job.command else {
            return None;
        };
        let buffer = job.buffer.as_ref()?;
        let limits = IoLimits {
            format: job.device.format(),
            blocks: job.device.blocks(),
            read_only: false,
            max_transfer: u32::MAX,
        };
        let length = usize::from(ranges) * DSM_RANGE_BYTES as usize;
        let definitions = buffer.get(..length).unwrap_or(buffer);
        // What is wrong with one, the device says.
        let left = limits.dsm_ranges(definitions).collect::<Result<VecDeque<_>, _>>().ok()?;
        let blocks: u64 = left.iter().map(|range| u64::from(range.blocks)).sum();
        (job.device.format().bytes(blocks) > SMALL).then_some(left)
    }

    /// A deallocation of the ranges `left`.
    pub(crate) fn new(job: Job<V, B>, left: VecDeque<LbaRange>) -> Box<Self> {
        Box::new(Self { job, left })
    }

    /// To whom its slices are charged.
    pub(crate) fn charge(&self) -> Charge {
        self.job.charge
    }

    /// Returns what its next slice asks the stages for.
    pub(crate) fn request(&self) -> Request<(Key, SlotId)> {
        Request { operations: OPERATIONS, ..Request::user(self.job.origin, true, 0) }
    }

    /// Carries out the next slice.
    pub(crate) fn run(mut self: Box<Self>) -> Slice<V, B> {
        let mut status = Status::SUCCESS;
        let slice = self.next();
        if let (Some(range), Style::Immediate(immediate)) = (slice, self.job.device.style()) {
            let command = IoCommand::WriteZeroes { range, deallocate: true, fua: false };
            status = immediate.run(&command, Data::None);
        }
        if status.is_success() && !self.left.is_empty() {
            return Slice::More(self);
        }
        Slice::Last(Ended { job: self.job, result: 0, status })
    }

    /// Takes the next slice's blocks.
    fn next(&mut self) -> Option<LbaRange> {
        let format = self.job.device.format();
        let most = u32::try_from(format.blocks(SLICE)).unwrap_or(u32::MAX);
        let range = self.left.front_mut()?;
        let slice = LbaRange { lba: range.lba, blocks: range.blocks.min(most) };
        range.lba += u64::from(slice.blocks);
        range.blocks -= slice.blocks;
        if range.blocks == 0 {
            self.left.pop_front();
        }
        Some(slice)
    }
}
