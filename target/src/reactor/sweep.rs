//! Deallocation sweeps: large Dataset Management commands on namespaces in memory. A gigabyte
//! takes tens of milliseconds to give back; in slices, each a system task that is charged to its
//! session (seed rows D2, D3), nobody waits for more than one of them.

use std::collections::VecDeque;

use arbitration::arbiter::Request;
use fabric::nvm::{DSM_RANGE_BYTES, IoCommand, IoLimits, LbaRange};
use fabric::nvme::Status;
use fabric::tcp::SlotId;

use super::Io;
use super::connection::Connection;
use super::jobs::{Ended, Job};
use super::ordered::{Ticket, stage_time};
use super::slots::Phase;
use crate::backend::{Data, Style};

/// Bytes of one slice: less than a millisecond.
const SLICE: u64 = 16 << 20;
/// A command that deallocates no more than this is carried out at once.
const SMALL: u64 = 16 << 20;
/// Operation credits of a slice: it occupies the reactor for longer than a user's command.
const OPERATIONS: u32 = 4;

/// A sweep on its way.
#[derive(Debug)]
pub(super) struct Sweep {
    job: Job,
    /// What is left, the next first.
    left: VecDeque<LbaRange>,
}

impl Sweep {
    /// A sweep of a job over `left`.
    pub(super) fn new(job: Job, left: VecDeque<LbaRange>) -> Box<Self> {
        Box::new(Self { job, left })
    }

    /// What a job deallocates, where that is so much that it is to be a sweep.
    pub(super) fn ranges(job: &Job) -> Option<VecDeque<LbaRange>> {
        let IoCommand::DatasetManagement { deallocate: true, ranges } = job.command else {
            return None;
        };
        let buffer = job.buffer.as_ref()?;
        let description = job.device.backend.description();
        let limits = IoLimits {
            format: description.format,
            blocks: job.device.backend.health().blocks(),
            read_only: false,
            max_transfer: u32::MAX,
        };
        let length = usize::from(ranges) * DSM_RANGE_BYTES as usize;
        let definitions = buffer.get(..length).unwrap_or(buffer);
        // What is wrong with one, the backend says.
        let left = limits.dsm_ranges(definitions).collect::<Result<VecDeque<_>, _>>().ok()?;
        let blocks: u64 = left.iter().map(|range| u64::from(range.blocks)).sum();
        (description.format.bytes(blocks) > SMALL).then_some(left)
    }

    /// Gives back what the command as a whole was granted.
    pub(super) fn give_back(&mut self, io: &mut Io) {
        self.job.give_back(io);
    }

    /// Takes the next slice.
    fn next(&mut self) -> Option<LbaRange> {
        let format = self.job.device.backend.description().format;
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

impl Connection {
    /// Begins a sweep.
    pub(super) fn begin_sweep(&mut self, io: &mut Io, sweep: Box<Sweep>) {
        let (key, slot) = sweep.job.origin;
        self.slots.slot(slot).phase = Phase::Sweeping(sweep);
        io.sweeps.push((key, slot));
    }

    /// A sweep's next slice asks for its turn.
    pub(super) fn go_on_sweeping(&mut self, io: &mut Io, slot: SlotId) {
        if self.is_closing() {
            return;
        }
        let entry = self.slots.slot(slot);
        let Phase::Sweeping(sweep) = &entry.phase else { return };
        let charged = sweep.job.charged;
        let request =
            Request { operations: OPERATIONS, ..Request::user((self.key, slot), true, 0) };
        let waiting = charged
            .flow
            .and_then(|flow| io.arbiter.enqueue(stage_time(io), flow, charged.class, request));
        match waiting {
            Some(waiting) => entry.ticket = Ticket::Waiting(waiting),
            None => self.sweep_slice(io, slot),
        }
    }

    /// Carries a slice out.
    pub(super) fn sweep_slice(&mut self, io: &mut Io, slot: SlotId) {
        let entry = self.slots.slot(slot);
        let Phase::Sweeping(sweep) = &mut entry.phase else { return };
        let mut status = Status::SUCCESS;
        let slice = sweep.next();
        if let (Some(range), Style::Immediate(immediate)) =
            (slice, sweep.job.device.backend.style())
        {
            let command = IoCommand::WriteZeroes { range, deallocate: true, fua: false };
            status = immediate.run(&command, Data::None);
        }
        if status.is_success() && !sweep.left.is_empty() {
            io.sweeps.push((self.key, slot));
            return;
        }
        if let Phase::Sweeping(sweep) = std::mem::replace(&mut entry.phase, Phase::Busy) {
            self.io_ended(io, Ended { job: sweep.job, result: 0, status });
        }
    }
}
