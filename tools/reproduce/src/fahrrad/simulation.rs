//! Streams on a disk under a scheduler, in windows of time.

use arbitration::Nanos;
use fastrand::Rng;
use sluice_sim::device::Disk;

use super::deadline::Deadline;
use super::setup::{SchedulerName, Setup};
use super::stages::Stages;
use super::workload::{DiskRequest, Stream};

const SECOND: u64 = 1_000_000_000;

/// The scheduler of the disk.
#[derive(Debug)]
enum Scheduler {
    /// The target's stages, with Fahrrad's bound of the set.
    Fahrrad(Box<Stages>),
    Deadline(Deadline),
}

impl Scheduler {
    fn arrive(&mut self, now: Nanos, stream: usize, request: DiskRequest) {
        match self {
            Self::Fahrrad(set) => set.arrive(now, stream, request),
            Self::Deadline(queue) => queue.arrive(now, stream, request),
        }
    }

    fn pick(&mut self, now: Nanos) -> Option<(usize, DiskRequest)> {
        match self {
            Self::Fahrrad(set) => set.pick(now),
            Self::Deadline(queue) => queue.pick(now),
        }
    }

    fn completed(&mut self, now: Nanos) {
        if let Self::Fahrrad(set) = self {
            set.completed(now);
        }
    }
}

/// The service that a stream got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    /// The length of a window, ns.
    window: u64,
    /// The requests served in each window.
    pub(super) served: Vec<u64>,
    /// The requests that were served after they were due by the reservation.
    pub(super) late: u64,
    /// The requests that found the stream's buffer full.
    pub(super) lost: u64,
}

impl Got {
    fn count(&mut self, late: bool) {
        self.late += u64::from(late);
        if let Some(served) = self.served.last_mut() {
            *served += 1;
        }
    }

    /// Computes the requests per second over all windows.
    pub(super) fn mean(&self) -> u64 {
        let windows = u64::try_from(self.served.len()).unwrap_or(1).max(1);
        let sum = self.served.iter().sum::<u64>();
        sum.saturating_mul(SECOND) / windows.saturating_mul(self.window).max(1)
    }

    /// Computes the requests per second in the window with the fewest.
    pub(super) fn least(&self) -> u64 {
        let served = self.served.iter().min().copied().unwrap_or(0);
        served.saturating_mul(SECOND) / self.window.max(1)
    }

    /// Computes how many of 1000 requests that the reservation covered were late or lost.
    pub(super) fn failed(&self) -> u64 {
        let all = self.served.iter().sum::<u64>() + self.lost;
        (1000 * (self.late + self.lost)).div_ceil(all.max(1))
    }
}

/// Runs the streams of a scenario on its disk. `progress` hears the part of the run that is done.
///
/// # Errors
///
/// A reservation does not fit the disk.
pub(super) fn simulate(
    setup: &Setup,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> anyhow::Result<Vec<Got>> {
    let mut scheduler = match setup.scheduler {
        SchedulerName::Reservations => {
            Scheduler::Fahrrad(Box::new(Stages::new(&setup.disk, &setup.streams)?))
        }
        SchedulerName::Deadline => Scheduler::Deadline(Deadline::default()),
    };
    let mut disk = Disk::new(setup.disk, seed)?;
    let mut random = Rng::with_seed(seed);
    let mut streams = setup.streams.clone();
    let none = Got { window: setup.window, served: Vec::new(), late: 0, lost: 0 };
    let mut got = vec![none; streams.len()];
    let mut now = Nanos::ZERO;
    for window in 1..=setup.windows {
        got.iter_mut().for_each(|got| got.served.push(0));
        while now < Nanos(window * setup.window) {
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.arrive(now, &mut random, |request| scheduler.arrive(now, number, request));
            }
            let Some((number, request)) = scheduler.pick(now) else {
                let next = streams.iter().map(Stream::next).min().unwrap_or(Nanos::MAX);
                now = next.min(now.after(SECOND));
                continue;
            };
            let Some(stream) = streams.get_mut(number) else { continue };
            let took = disk.service(now, request.position, stream.blocks, false);
            now = now.after(took);
            scheduler.completed(now);
            stream.outstanding = stream.outstanding.saturating_sub(1);
            if let Some(got) = got.get_mut(number) {
                got.count(now.0 > request.due);
            }
        }
        progress(window as f64 / setup.windows as f64);
    }
    got.iter_mut().zip(&streams).for_each(|(got, stream)| got.lost = stream.lost);
    Ok(got)
}

/// Computes the I/Os per second of all streams.
pub(super) fn total(got: &[Got]) -> u64 {
    got.iter().map(Got::mean).sum()
}
