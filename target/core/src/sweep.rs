//! Deallocation sweeps: large Dataset Management commands on namespaces in memory. A gigabyte takes
//! tens of milliseconds to give back; in slices, each a system task that is charged to its session
//! (docs/sources.md, D2, D3), nobody waits for more than one of them.

use std::collections::VecDeque;

use arbitration::arbiter::Request;
use fabric::nvm::{DSM_RANGE_BYTES, IoCommand, IoLimits, LbaRange};
use fabric::nvme::Status;
use fabric::queue::SlotId;

use crate::commands::State;
use crate::connection::Connection;
use crate::context::Context;
use crate::device::{Data, Device, Style};
use crate::driver::Driver;
use crate::job::{Ended, Job};

/// Bytes of one slice: less than a millisecond.
const SLICE: u64 = 16 << 20;
/// A command that deallocates no more than this is carried out at once.
const SMALL: u64 = 16 << 20;
/// Operation credits of a slice: it occupies the reactor for longer than a user's command.
const OPERATIONS: u32 = 4;

/// A sweep on its way.
#[derive(Debug)]
pub(crate) struct Sweep<D: Driver> {
    job: Job<D>,
    /// What is left, the next first.
    left: VecDeque<LbaRange>,
}

impl<D: Driver> Sweep<D> {
    /// A sweep of a job over `left`.
    pub(crate) fn new(job: Job<D>, left: VecDeque<LbaRange>) -> Box<Self> {
        Box::new(Self { job, left })
    }

    /// What a job deallocates, where that is so much that it is to be a sweep.
    pub(crate) fn ranges(job: &Job<D>) -> Option<VecDeque<LbaRange>> {
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
        // What is wrong with one, the backend says.
        let left = limits.dsm_ranges(definitions).collect::<Result<VecDeque<_>, _>>().ok()?;
        let blocks: u64 = left.iter().map(|range| u64::from(range.blocks)).sum();
        (job.device.format().bytes(blocks) > SMALL).then_some(left)
    }

    /// Gives back what the command as a whole was granted.
    pub(crate) fn give_back(&mut self, io: &mut Context<D>) {
        self.job.give_back(io);
    }

    /// Takes the next slice.
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

impl<D: Driver> Connection<D> {
    /// Begins a sweep.
    pub(crate) fn begin_sweep(&mut self, io: &mut Context<D>, sweep: Box<Sweep<D>>) {
        let (key, slot) = sweep.job.origin;
        self.commands.change(slot, State::Slicing(sweep));
        io.sweeps.push((key, slot));
    }

    /// A sweep's next slice asks for its turn.
    pub(crate) fn go_on_sweeping(&mut self, io: &mut Context<D>, slot: SlotId) {
        let sweep = match self.commands.take(slot) {
            State::Slicing(sweep) => sweep,
            other => {
                self.commands.put_back(slot, other);
                return;
            }
        };
        let charged = sweep.job.charged;
        if !charged.serves(io, &sweep.job.device) {
            self.settle_without_device(io, slot);
            return;
        }
        let request =
            Request { operations: OPERATIONS, ..Request::user((self.key, slot), true, 0) };
        let waiting =
            charged.flow.and_then(|flow| io.arbiter.enqueue(io.now, flow, charged.class, request));
        match waiting {
            Some(waiting) => self.commands.change(slot, State::SliceTurn(sweep, waiting)),
            None => self.sweep_slice(io, slot, sweep),
        }
    }

    /// Carries out a slice of a sweep whose state was taken.
    pub(crate) fn sweep_slice(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        mut sweep: Box<Sweep<D>>,
    ) {
        let mut status = Status::SUCCESS;
        let slice = sweep.next();
        if let (Some(range), Style::Immediate(immediate)) = (slice, sweep.job.device.style()) {
            let command = IoCommand::WriteZeroes { range, deallocate: true, fua: false };
            status = immediate.run(&command, Data::None);
        }
        if status.is_success() && !sweep.left.is_empty() {
            self.commands.change(slot, State::Slicing(sweep));
            io.sweeps.push((self.key, slot));
        } else {
            self.io_ended(io, Ended { job: sweep.job, result: 0, status });
        }
    }
}
