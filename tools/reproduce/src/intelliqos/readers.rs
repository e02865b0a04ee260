//! Readers, the scheduler and the disk.

use arbitration::Nanos;
use arbitration::container::{DiskSet, SetRequest};
use fastrand::Rng;
use sluice_sim::device::Disk;
use units::Calendar;

use super::super::disk::SECTOR;
use super::setup::{Setup, Stream};
use crate::random::Draw as _;

const SECOND: u64 = 1_000_000_000;

/// The outputs that one reader's user saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The throughput that each output told, in bytes per second.
    pub(super) told: Vec<u64>,
    /// The promised throughput, in bytes per second.
    promised: u64,
}

impl Seen {
    /// Computes the mean throughput in KiB/s.
    pub(super) fn mean(&self) -> f64 {
        let sum = self.told.iter().fold(0, |sum: u64, told| sum.saturating_add(*told));
        sum as f64 / 1024.0 / self.told.len().max(1) as f64
    }

    /// Computes the throughput of the worst output in KiB/s.
    pub(super) fn worst(&self) -> f64 {
        self.told.iter().min().map_or(0.0, |told| *told as f64 / 1024.0)
    }

    /// Computes the share of outputs with less than was promised, in per cent.
    pub(super) fn violations(&self) -> f64 {
        let short = self.told.iter().filter(|told| **told < self.promised).count();
        100.0 * short as f64 / self.told.len().max(1) as f64
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Sent(u32),
    Done(u32),
    Output(u32),
}

/// A reader at work.
#[derive(Debug)]
struct Reader<'a> {
    stream: &'a Stream,
    /// The requests done since the last output.
    done: u64,
    /// The requests done between one output and the next.
    seen: Vec<u64>,
}

/// A request: its reader, and its place.
#[derive(Clone, Copy, Debug)]
struct Place {
    reader: u32,
    lba: u64,
}

/// Readers, the scheduler and the disk.
#[derive(Debug)]
struct Run<'a> {
    disk: Disk,
    set: DiskSet,
    random: Rng,
    events: Calendar<Event>,
    /// The start of the request in the disk.
    serving: Option<Nanos>,
    readers: Vec<Reader<'a>>,
    requests: Vec<Place>,
    interval: u64,
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup, seed: u64) -> anyhow::Result<Self> {
        let streams = &setup.streams;
        let turns = streams.iter().map(|stream| stream.depth).max().unwrap_or(0);
        // The readers send in turns.
        let mut first = Vec::new();
        for turn in 0..turns {
            let with_more = (0_u32..).zip(streams).filter(|(_, stream)| turn < stream.depth);
            first.extend(with_more.map(|(reader, stream)| (turn, reader, stream)));
        }
        let mut run = Self {
            disk: Disk::new(setup.disk, seed)?,
            set: DiskSet::new(setup.scheduler, first.len(), streams.len()),
            random: Rng::with_seed(!seed),
            events: Calendar::new(),
            serving: None,
            readers: streams
                .iter()
                .map(|stream| Reader { stream, done: 0, seen: Vec::new() })
                .collect(),
            requests: first
                .iter()
                .map(|(_, reader, _)| Place { reader: *reader, lba: 0 })
                .collect(),
            interval: SECOND / setup.outputs_per_second.max(1),
        };
        for ((turn, _, stream), id) in first.into_iter().zip(0..) {
            let at = u64::from(turn) * stream.pace + run.random.below(stream.pace);
            run.events.insert(Nanos(at), Event::Sent(id));
        }
        for (_, number) in streams.iter().zip(0_u32..) {
            // Each prints a quarter of an interval after the one before it.
            let at = run.interval + run.interval / 4 * u64::from(number);
            run.events.insert(Nanos(at), Event::Output(number));
        }
        Ok(run)
    }

    /// Runs until all users have seen enough outputs. `progress` hears the part of the run that is done.
    fn go(mut self, outputs: usize, progress: &mut dyn FnMut(f64)) -> Vec<Reader<'a>> {
        while self.readers.iter().any(|reader| reader.seen.len() < outputs) {
            let Some((now, event)) = self.events.pop_due(Nanos::MAX) else { break };
            match event {
                Event::Sent(id) => self.sent(now, id),
                Event::Done(id) => self.finished(now, id),
                Event::Output(reader) => {
                    self.output(now, reader);
                    let fewest = self.readers.iter().map(|reader| reader.seen.len()).min();
                    progress(fewest.unwrap_or(0) as f64 / outputs.max(1) as f64);
                }
            }
            self.serve(now);
        }
        self.readers
    }

    /// Accepts a request.
    fn sent(&mut self, now: Nanos, id: u32) {
        let Some(request) = self.requests.get_mut(id as usize) else { return };
        let Some(Reader { stream, .. }) = self.readers.get(request.reader as usize) else { return };
        let blocks = u64::from(stream.blocks);
        let room = stream.area.end.saturating_sub(stream.area.start) / blocks.max(1);
        request.lba = stream.area.start + self.random.below(room) * blocks;
        let Place { reader, lba } = *request;
        let deadline = now.after(stream.latency);
        let blocks = stream.blocks;
        self.set.insert(now, SetRequest { id, stream: reader, lba, blocks, deadline });
    }

    fn finished(&mut self, now: Nanos, id: u32) {
        if let Some(since) = self.serving.take() {
            self.set.completed(now.ns_since(since));
        }
        let Some(reader) = self.reader(id) else { return };
        reader.done += 1;
        let think = reader.stream.think;
        let next = now.after(think / 2 + self.random.below(think / 2));
        self.events.insert(next, Event::Sent(id));
    }

    /// Returns the reader that sent a request.
    fn reader(&mut self, id: u32) -> Option<&mut Reader<'a>> {
        let request = self.requests.get(id as usize)?;
        self.readers.get_mut(request.reader as usize)
    }

    fn output(&mut self, now: Nanos, number: u32) {
        if let Some(reader) = self.readers.get_mut(number as usize) {
            reader.seen.push(std::mem::take(&mut reader.done));
        }
        self.set.output(now, number);
        self.events.insert(now.after(self.interval), Event::Output(number));
    }

    fn serve(&mut self, now: Nanos) {
        if self.serving.is_some() {
            return;
        }
        let Some(id) = self.set.pick(now) else { return };
        let lba = self.requests.get(id as usize).map_or(0, |request| request.lba);
        let blocks = self.reader(id).map_or(1, |reader| reader.stream.blocks);
        let time = self.disk.service(now, lba, blocks, false);
        self.serving = Some(now);
        self.events.insert(now.after(time), Event::Done(id));
    }
}

/// Runs the readers of a scenario on its disk. Returns the outputs that the user of each sees. `progress`
/// hears the part of the run that is done.
///
/// # Errors
///
/// The disk cannot be.
pub(super) fn simulate(
    setup: &Setup,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> anyhow::Result<Vec<Seen>> {
    let outputs = setup.learning.saturating_add(setup.counted);
    let readers = Run::new(setup, seed)?.go(outputs, progress);
    let seen = readers.into_iter().map(|Reader { stream, seen, .. }| {
        let each = setup.outputs_per_second * u64::from(stream.blocks) * u64::from(SECTOR);
        let told = seen.into_iter().skip(setup.learning).take(setup.counted);
        let told = told.map(|done| done.saturating_mul(each)).collect();
        Seen { told, promised: stream.promised }
    });
    Ok(seen.collect())
}
