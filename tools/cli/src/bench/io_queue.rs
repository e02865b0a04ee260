//! One I/O queue under load.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use fabric::host::{Facts, commands};
use fabric::nvme::Cqe;
use fabric::queue::HostReceived;
use sluice_credits::{Cost, Held, Pool, Spot};
use zerocopy::little_endian::U16;

use super::job::Job;
use super::pace::Pace;
use super::source::Source;
use super::stats::JobStats;
use super::verify::{self, Ledger, Stamp};
use crate::host::access::HostStyle;
use crate::host::connection::Connection;
use crate::host::controller::Namespace;
use crate::host::socket::Data;

/// The time without an answer, with commands outstanding, after which the target is stuck.
const STUCK_NS: u64 = 30_000_000_000;

/// The time after which a sleeping thread looks at its place in a pool's queue again.
const LOOK_NS: u64 = 200_000;

/// The most times that a command is submitted again, as Linux's nvme_core.max_retries.
pub(crate) const MAX_RETRIES: u8 = 5;

/// Nanoseconds since the start of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    #[inline]
    pub(crate) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The phase of an I/O queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Writes each unit once, in order (with data verification).
    Fill,
    /// Runs the job's pattern.
    Mix,
    /// Reads each unit once, in order (with data verification).
    ReadBack,
    /// Submits nothing more.
    Drain,
}

/// The part of the namespace that an I/O queue uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// First logical block.
    pub(crate) slba: u64,
    /// Length in units of the job's block size.
    pub(crate) units: u64,
}

/// The command of one identifier.
#[derive(Debug)]
struct Outstanding {
    /// The time from which the latency counts, in nanoseconds.
    start: u64,
    write: bool,
    unit: u64,
    /// The generation of the data that the command writes or expects.
    generation: u32,
    /// The data that the command writes or has read, with data verification.
    data: Data,
    /// The number of times that the command was submitted again.
    retries: u8,
    /// The command's credit of the node's pool.
    credit: Option<Held>,
}

/// Data verification.
#[derive(Debug)]
struct Checks {
    seed: u64,
    ledger: Ledger,
    scratch: Vec<u8>,
    /// A description of the first wrong data.
    fault: Option<String>,
}

/// One I/O queue under load.
#[derive(Debug)]
pub(crate) struct IoQueue {
    connection: Connection,
    /// The controller's facts: its retry delays.
    facts: Facts,
    style: HostStyle,
    pub(crate) job: usize,
    phase: Phase,
    slots: Vec<Outstanding>,
    free: Vec<u16>,
    /// The commands that the target has sent back, by the time in ns at which they are submitted again.
    retries: BinaryHeap<Reverse<(u64, u16)>>,
    source: Source,
    pace: Option<Pace>,
    /// The next unit of the phases that go through all units.
    cursor: u64,
    checks: Option<Checks>,
    nsid: u32,
    extent: Extent,
    bs: u32,
    blocks_per_unit: u32,
    cdw13: u32,
    /// The data of writes without data verification.
    payload: Data,
    last_progress: u64,
    credits: Option<Credits>,
}

/// A job's pool of credits.
#[derive(Debug)]
struct Credits {
    pool: Arc<Pool>,
    cost: Cost,
    /// The place in the pool's queue while no credit is free, and the time in ns of the last look.
    spot: Option<(Spot, u64)>,
}

impl Credits {
    /// Takes a credit; `None`: it waits for one, and [`IoQueue::next_due`] has the time of the next look.
    fn take(&mut self, now: u64) -> Option<Held> {
        let held = match &mut self.spot {
            Some((spot, looked)) => {
                *looked = now;
                self.pool.poll(spot)
            }
            None => self.pool.take(self.cost),
        };
        match &held {
            Some(_) => self.spot = None,
            None => {
                self.spot.get_or_insert_with(|| (self.pool.enqueue(self.cost), now));
            }
        }
        held
    }
}

impl IoQueue {
    /// Puts the load of `job` (number `index`) on a connected I/O queue; `seed` differs between
    /// queues.
    pub(crate) fn new(
        (connection, facts, style): (Connection, Facts, HostStyle),
        (index, job): (usize, &Job),
        namespace: &Namespace,
        extent: Extent,
        (seed, verify): (u64, bool),
        pool: Option<Arc<Pool>>,
    ) -> anyhow::Result<Self> {
        let block = if verify { vec![0; job.bs as usize] } else { Vec::new() };
        let slots = (0..job.depth).map(|_| Outstanding {
            start: 0,
            write: false,
            unit: 0,
            generation: 0,
            data: Rc::new(block.clone()),
            retries: 0,
            credit: None,
        });
        let mut payload = vec![0; job.bs as usize];
        verify::fill(&mut payload, Stamp { seed, lba: 0, generation: 0 });
        let units = usize::try_from(extent.units).context("the span is too large")?;
        let checks = verify.then(|| Checks {
            seed,
            ledger: Ledger::new(units),
            scratch: block.clone(),
            fault: None,
        });
        let pace =
            job.rate.map(|rate| Pace::new(rate / f64::from(job.connections), job.arrivals, seed));
        Ok(Self {
            connection,
            facts,
            style,
            job: index,
            phase: Phase::Drain,
            slots: slots.collect(),
            free: (0..job.depth).rev().collect(),
            retries: BinaryHeap::new(),
            source: Source::new(job, extent.units, seed),
            pace,
            cursor: 0,
            checks,
            nsid: namespace.nsid,
            extent,
            bs: job.bs,
            blocks_per_unit: job.bs / namespace.block_size,
            cdw13: job.cdw13,
            payload: Rc::new(payload),
            last_progress: 0,
            credits: pool.map(|pool| Credits { pool, cost: Cost::user(job.bs.into()), spot: None }),
        })
    }

    /// Enters a phase. Outstanding commands go on.
    pub(crate) fn enter(&mut self, phase: Phase, now: u64) {
        self.phase = phase;
        self.cursor = 0;
        self.last_progress = now;
        if let Some(pace) = &mut self.pace {
            pace.restart(now);
        }
    }

    /// Says whether nothing is outstanding and nothing more comes in this phase.
    pub(crate) fn is_done(&self) -> bool {
        let idle = self.free.len() == self.slots.len();
        match self.phase {
            Phase::Drain => idle,
            Phase::Fill | Phase::ReadBack => idle && self.cursor >= self.extent.units,
            Phase::Mix => false,
        }
    }

    /// Receives, submits and sends as much as is possible without waiting. Returns whether anything
    /// was received.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        clock: Clock,
        buffer: &mut [u8],
        stats: &mut JobStats,
    ) -> anyhow::Result<bool> {
        let received = self.connection.read(buffer)?;
        let now = clock.now();
        match received {
            Some(n) => {
                self.handle(buffer.get(..n).unwrap_or_default(), now, stats)?;
                self.last_progress = now;
            }
            None => self.check_progress(now)?,
        }
        self.retry(now)?;
        self.submit(now)?;
        self.connection.flush()?;
        Ok(received.is_some())
    }

    fn check_progress(&mut self, now: u64) -> anyhow::Result<()> {
        let outstanding = self.outstanding() - self.retries.len();
        if outstanding == 0 {
            self.last_progress = now;
        }
        ensure!(
            now.saturating_sub(self.last_progress) < STUCK_NS,
            "no command completed for 30 s, and {outstanding} commands are outstanding"
        );
        Ok(())
    }

    #[inline]
    fn handle(&mut self, bytes: &[u8], now: u64, stats: &mut JobStats) -> anyhow::Result<()> {
        let Self { connection, facts, slots, free, retries, checks, bs, .. } = self;
        let (blocks, slba) = (u64::from(self.blocks_per_unit), self.extent.slba);
        connection.parse(bytes, |event| match event {
            HostReceived::Response { cid, cqe, .. } => {
                let Some(slot) = slots.get_mut(usize::from(cid)) else { return };
                let delay = facts.retry_delay(cqe.status());
                if let Some(delay) = delay.filter(|_| slot.retries < MAX_RETRIES) {
                    slot.retries += 1;
                    let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
                    retries.push(Reverse((now.saturating_add(delay), cid)));
                    return;
                }
                free.push(cid);
                slot.credit = None;
                if cqe.status().is_success() {
                    stats.record(slot.write, now.saturating_sub(slot.start), *bs);
                } else {
                    stats.record_error(cqe.status());
                }
                if let Some(checks) = checks {
                    checks.complete(slot, &cqe, slba + slot.unit * blocks);
                }
            }
            HostReceived::ReadData { cid, offset, bytes } if checks.is_some() => {
                if let Some(slot) = slots.get_mut(usize::from(cid)) {
                    slot.keep(offset as usize, bytes);
                }
            }
            _ => {}
        })?;
        match checks.as_mut().and_then(|checks| checks.fault.take()) {
            Some(fault) => bail!("wrong data: {fault}"),
            None => Ok(()),
        }
    }

    /// Submits commands again whose delay is over. Their latency counts from the first submission. A
    /// command that is not verified is given up once the run is over.
    #[inline]
    fn retry(&mut self, now: u64) -> anyhow::Result<()> {
        let is_over = self.phase == Phase::Drain && self.checks.is_none();
        while let Some(&Reverse((due, cid))) = self.retries.peek() {
            if is_over {
                self.free.push(cid);
                if let Some(slot) = self.slots.get_mut(usize::from(cid)) {
                    slot.credit = None;
                }
            } else if due <= now {
                self.send(cid)?;
            } else {
                break;
            }
            self.retries.pop();
        }
        Ok(())
    }

    /// Says whether commands wait for the end of their retry delay.
    pub(crate) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    #[inline]
    fn submit(&mut self, now: u64) -> anyhow::Result<()> {
        while let Some(cid) = self.free.last().copied() {
            let mut credit = None;
            if self.credits.is_some() {
                // A credit is taken only for a command that can be sent at once.
                if !self.has_command(now) {
                    return Ok(());
                }
                credit = self.credits.as_mut().and_then(|credits| credits.take(now));
                if credit.is_none() {
                    return Ok(());
                }
            }
            let Some(start) = self.due(now) else { return Ok(()) };
            let Some((write, unit)) = self.next_command() else { return Ok(()) };
            self.free.pop();
            if let Some(slot) = self.slots.get_mut(usize::from(cid)) {
                slot.credit = credit;
            }
            self.submit_one(cid, write, unit, start)?;
            if self.style == HostStyle::Plain {
                self.connection.flush()?;
            }
        }
        Ok(())
    }

    /// Returns whether [`Self::due`] and [`Self::next_command`] have a command now.
    fn has_command(&self, now: u64) -> bool {
        match (&self.pace, self.phase) {
            (_, Phase::Drain) => false,
            (Some(pace), Phase::Mix) => pace.next_due() <= now,
            (None, Phase::Mix) => true,
            (_, Phase::Fill | Phase::ReadBack) => self.cursor < self.extent.units,
        }
    }

    /// Computes when the next command's latency starts, if the command may be submitted now.
    #[inline]
    fn due(&mut self, now: u64) -> Option<u64> {
        match (&mut self.pace, self.phase) {
            (Some(pace), Phase::Mix) => pace.take(now),
            _ => Some(now),
        }
    }

    /// Returns the time at which the next command may be submitted without an answer before, in
    /// nanoseconds; `None` where an answer has to come first.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let pace = self.pace.as_ref().filter(|_| self.phase == Phase::Mix && !self.free.is_empty());
        let retry = self.retries.peek().map(|Reverse((due, _))| *due);
        let spot = self.credits.as_ref().and_then(|credits| credits.spot.as_ref());
        let look = spot.map(|(_, looked)| looked + LOOK_NS);
        match look {
            // The next command is due already.
            Some(look) => retry.into_iter().chain([look]).min(),
            None => pace.map(Pace::next_due).into_iter().chain(retry).min(),
        }
    }

    /// Prepares for sleep: as [`Connection::arm`].
    pub(crate) fn arm(&mut self) -> anyhow::Result<Option<(BorrowedFd<'_>, bool)>> {
        self.connection.arm()
    }

    /// Counts the commands that are due and not submitted, since the queue's depth holds them back.
    pub(crate) fn held_back(&self, now: u64) -> u64 {
        self.pace.as_ref().map_or(0, |pace| pace.waiting(now))
    }

    /// Counts the commands submitted and not completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    fn next_command(&mut self) -> Option<(bool, u64)> {
        match self.phase {
            Phase::Mix => Some(self.source.next()),
            Phase::Drain => None,
            Phase::Fill | Phase::ReadBack => {
                let unit = Some(self.cursor).filter(|unit| *unit < self.extent.units)?;
                self.cursor += 1;
                Some((self.phase == Phase::Fill, unit))
            }
        }
    }

    #[inline]
    fn submit_one(&mut self, cid: u16, write: bool, unit: u64, start: u64) -> anyhow::Result<()> {
        let slot = self.slots.get_mut(usize::from(cid)).context("no such slot")?;
        (slot.start, slot.write, slot.unit, slot.retries) = (start, write, unit, 0);
        let blocks = u64::from(self.blocks_per_unit);
        if let Some(checks) = &mut self.checks {
            checks.prepare(slot, self.extent.slba, blocks)?;
        }
        self.send(cid)
    }

    /// Sends the command of a slot.
    #[inline]
    fn send(&mut self, cid: u16) -> anyhow::Result<()> {
        let slot = self.slots.get(usize::from(cid)).context("no such slot")?;
        let write = slot.write;
        let data = if self.checks.is_some() { &slot.data } else { &self.payload };
        let data = write.then(|| Rc::clone(data));
        let slba = self.extent.slba + slot.unit * u64::from(self.blocks_per_unit);
        let mut sqe = commands::transfer(write, self.nsid, slba, self.blocks_per_unit, self.cdw13);
        sqe.cid = U16::new(cid);
        let read_length = if write { 0 } else { self.bs };
        Ok(self.connection.submit(sqe, data, read_length)?)
    }
}

impl Outstanding {
    /// Keeps a piece of the data that the command reads.
    fn keep(&mut self, offset: usize, bytes: &[u8]) {
        let place = Rc::get_mut(&mut self.data).and_then(|data| data.get_mut(offset..));
        if let Some((place, _)) = place.and_then(|data| data.split_at_mut_checked(bytes.len())) {
            place.copy_from_slice(bytes);
        }
    }
}

impl Checks {
    /// Takes a unit without an outstanding command, and makes the data for a write to it.
    fn prepare(&mut self, slot: &mut Outstanding, slba: u64, blocks: u64) -> anyhow::Result<()> {
        let unit = usize::try_from(slot.unit)?;
        let (unit, generation) =
            self.ledger.take(unit).context("more commands than blocks in the span")?;
        slot.unit = u64::try_from(unit)?;
        slot.generation = generation + u32::from(slot.write);
        if Rc::get_mut(&mut slot.data).is_none() {
            // The send queue still holds the last write's data.
            slot.data = Rc::new(vec![0; self.scratch.len()]);
        }
        if let (true, Some(data)) = (slot.write, Rc::get_mut(&mut slot.data)) {
            verify::fill(data, self.stamp(slba + slot.unit * blocks, slot.generation));
        }
        Ok(())
    }

    fn stamp(&self, lba: u64, generation: u32) -> Stamp {
        Stamp { seed: self.seed, lba, generation: u64::from(generation) }
    }

    fn complete(&mut self, slot: &mut Outstanding, cqe: &Cqe, lba: u64) {
        let Ok(unit) = usize::try_from(slot.unit) else { return };
        self.ledger.release(unit, slot.generation);
        if !cqe.status().is_success() {
            let what = if slot.write { "write" } else { "read" };
            self.fault = Some(format!("a {what} of LBA {lba} failed: {}", cqe.status()));
        } else if !slot.write {
            let stamp = self.stamp(lba, slot.generation);
            if let Err(fault) = verify::check(&slot.data, stamp, &mut self.scratch) {
                self.fault.get_or_insert(fault);
            }
        }
    }
}
