//! Fig. 3 of Fahrrad (docs/sources.md, F3): reservations on a disk, and the same streams without.

mod deadline;
mod stages;
mod workload;

use std::fmt::Write as _;

use arbitration::Nanos;
use arbitration::reservation::{Broker, PerKib, Profile, ServiceTime};
use sluice_sim::device::{Disk, disk};
use units::nanos;

use self::deadline::Deadline;
use self::stages::{Stages, URGENT_SHARE};
use self::workload::{DiskRequest, Stream, streams};
use super::claim::{Bound, Claim, Unit};
use super::figure::{Made, Plot, Request};
use super::plot::bars::{Bars, Series};
use crate::random::Random;

const SECOND: u64 = 1_000_000_000;
/// A point of the figure is the mean of 5 s.
const WINDOW: u64 = 5 * SECOND;
/// Windows of the figure: 500 s; and those at reduced length.
const WINDOWS: u64 = 100;
const WINDOWS_QUICK: u64 = 20;
/// The seeds of the runs with reservations, from the one that is asked for on; and at reduced length.
const SEEDS: u64 = 24;
const SEEDS_QUICK: u64 = 4;
/// The outstanding requests of the background stream.
const BACKGROUND: u64 = 384;

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
#[derive(Clone, Debug, Default)]
struct Got {
    /// The requests served in each window.
    served: Vec<u64>,
    /// The requests that were served after they were due by the reservation.
    late: u64,
    /// The requests that found the stream's buffer full.
    lost: u64,
}

impl Got {
    fn count(&mut self, late: bool) {
        self.late += u64::from(late);
        if let Some(served) = self.served.last_mut() {
            *served += 1;
        }
    }

    /// Computes the requests per second over all windows.
    fn mean(&self) -> u64 {
        let windows = u64::try_from(self.served.len()).unwrap_or(1).max(1);
        self.served.iter().sum::<u64>() / (windows * WINDOW / SECOND)
    }

    /// Computes the requests per second in the window with the fewest.
    fn least(&self) -> u64 {
        self.served.iter().min().map_or(0, |served| served / (WINDOW / SECOND))
    }

    /// Computes how many of 1000 requests that the reservation covered were late or lost.
    fn failed(&self) -> u64 {
        let all = self.served.iter().sum::<u64>() + self.lost;
        (1000 * (self.late + self.lost)).div_ceil(all.max(1))
    }
}

/// Makes the disk's profile for the broker.
fn profile() -> Profile {
    let (mean, worst) = disk::Settings::default().profile();
    // A track or two may be crossed on the way through a larger request.
    let time = ServiceTime { mean: Nanos(nanos(mean)), worst: Nanos(nanos(worst) + 2_000_000) };
    // 85 MB/s: the innermost track.
    let per_kib = PerKib { read: 12_000, write: 12_000 };
    Profile { read: time, write: time, per_kib, parallelism: 1, seeks: true }
}

/// Makes the target's stages with a reservation for each of the streams.
fn reserved(profile: &Profile, streams: &[Stream]) -> Result<Stages, String> {
    let mut admitted = Vec::new();
    for stream in streams {
        let one = Broker::admit(profile, &admitted, URGENT_SHARE, &stream.terms());
        admitted.push(one.map_err(|refused| refused.to_string())?);
    }
    Stages::new(streams, &admitted)
}

/// Runs the streams on a disk for `windows` windows.
fn simulate(mut scheduler: Scheduler, background: u64, windows: u64, seed: u64) -> Vec<Got> {
    let mut disk = Disk::sata_7200(seed);
    let mut random = Random::new(seed);
    let mut streams = streams(disk.sectors(), background);
    let mut got = vec![Got::default(); streams.len()];
    let mut now = Nanos::ZERO;
    for window in 1..=windows {
        got.iter_mut().for_each(|got| got.served.push(0));
        while now < Nanos(window * WINDOW) {
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.arrive(now, &mut random, |request| scheduler.arrive(now, number, request));
            }
            let Some((number, request)) = scheduler.pick(now) else {
                now = streams.iter().map(Stream::next).min().unwrap_or(now.after(SECOND));
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
    }
    got.iter_mut().zip(&streams).for_each(|(got, stream)| got.lost = stream.lost);
    got
}

/// Runs the streams with reservations.
fn with(background: u64, windows: u64, seed: u64) -> Result<Vec<Got>, String> {
    let set = reserved(&profile(), &streams(0, background))?;
    Ok(simulate(Scheduler::Fahrrad(Box::new(set)), background, windows, seed))
}

/// Runs the streams without reservations and with them.
fn both(background: u64, windows: u64, seed: u64) -> Result<[Vec<Got>; 2], String> {
    let plain = simulate(Scheduler::Deadline(Deadline::default()), background, windows, seed);
    Ok([plain, with(background, windows, seed)?])
}

/// Makes the figure.
///
/// # Errors
///
/// A reservation does not fit the disk.
pub(super) fn figure(request: Request) -> anyhow::Result<Made> {
    let windows = if request.quick { WINDOWS_QUICK } else { WINDOWS };
    let runs = both(BACKGROUND, windows, request.seed).map_err(anyhow::Error::msg)?;
    let [linux, fahrrad] = &runs;
    let failed = |got: &[Got]| got.iter().map(Got::failed).max().unwrap_or(0) as f64 / 1000.0;
    let seeds = if request.quick { SEEDS_QUICK } else { SEEDS };
    let mut worst = failed(fahrrad);
    for seed in (request.seed..).skip(1).zip(1..seeds).map(|(seed, _)| seed) {
        worst = worst.max(failed(&with(BACKGROUND, windows, seed).map_err(anyhow::Error::msg)?));
    }
    let more = total(fahrrad) as f64 - total(linux) as f64;
    let claims = vec![
        Claim::new(
            "Fahrrad: requests late or lost, any stream, worst of all seeds",
            "guarantees met",
            worst,
            Unit::Percent,
            Bound::AtMost(0.002),
        ),
        Claim::new(
            "deadline scheduler: requests late or lost, media",
            "not met",
            failed(linux.get(..2).unwrap_or_default()),
            Unit::Percent,
            Bound::AtLeast(0.2),
        ),
        Claim::new(
            "Fahrrad: I/Os per second more than without",
            "about 200",
            more,
            Unit::Count,
            Bound::Within(200.0, 75.0),
        ),
    ];
    let bar = |name: &str, got: &[Got]| Series {
        name: name.to_owned(),
        heights: got.iter().map(|got| got.mean() as f64).collect(),
    };
    let names = streams(0, 0);
    let reserved = Series {
        name: "reserved".to_owned(),
        heights: names.iter().map(|stream| stream.reserves as f64).collect(),
    };
    let plot = Plot::Bars(Bars {
        title: "I/Os per second of each stream".to_owned(),
        groups: names.iter().map(|stream| stream.name.to_owned()).collect(),
        series: vec![reserved, bar("deadline scheduler", linux), bar("Fahrrad", fahrrad)],
    });
    let title = table(&runs, windows) + &by_background(windows / 5, request.seed)?;
    Ok(Made::of(&title, claims, [("fahrrad-3", plot)]))
}

/// Writes what each stream had.
fn table([linux, fahrrad]: &[Vec<Got>; 2], windows: u64) -> String {
    let mut text = format!(
        "Fahrrad, Fig. 3 (F3): I/Os per second over {} s: the mean, and the least of any 5 s; requests in \
         1000 that were\nlate by the reservation, or lost because their buffer was full. The background \
         stream has {BACKGROUND} requests\noutstanding.\n\n\
         {:21} |  deadline scheduler  |       Fahrrad\n\
         stream       reserved |   mean  least failed |   mean  least failed\n",
        windows * WINDOW / SECOND,
        "",
    );
    for (stream, got) in streams(0, 0).iter().zip(linux.iter().zip(fahrrad)) {
        let [linux, fahrrad] = [got.0, got.1]
            .map(|got| format!("{:6} {:6} {:6}", got.mean(), got.least(), got.failed()));
        let _ = writeln!(text, "{:13}{:8} | {linux} | {fahrrad}", stream.name, stream.reserves);
    }
    let [linux, fahrrad] = [linux, fahrrad].map(|got| total(got));
    let _ = writeln!(text, "{:21} | {linux:6} {:13} | {fahrrad:6}", "total", "");
    text
}

/// Writes how the totals differ, by the outstanding requests of the background stream.
fn by_background(windows: u64, seed: u64) -> anyhow::Result<String> {
    let mut text = String::from(
        "\nBy the requests that the background stream has outstanding (with few, whoever promises \
         nothing has the longer\nsweeps):\n",
    );
    for background in [64, 128, 256, BACKGROUND, 512] {
        let runs = both(background, windows, seed).map_err(anyhow::Error::msg)?;
        let [linux, fahrrad] = runs.map(|got| total(&got));
        let more = i128::from(fahrrad) - i128::from(linux);
        let _ = writeln!(text, "{background:6}: {linux} and {fahrrad}, {more:+} per second");
    }
    Ok(text)
}

/// Computes the I/Os per second of all streams.
fn total(got: &[Got]) -> u64 {
    got.iter().map(Got::mean).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_figure_3_guarantees_are_met_and_more_is_served() {
        let [linux, fahrrad] = both(BACKGROUND, 20, 1).expect("all reservations fit");
        for (stream, got) in streams(0, 0).iter().zip(&fahrrad) {
            assert_eq!(got.failed(), 0, "{}: {got:?}", stream.name);
        }
        assert!(linux.iter().take(2).all(|media| media.failed() > 200), "{linux:?}");
        let more = total(&fahrrad).saturating_sub(total(&linux));
        assert!((150..300).contains(&more), "{more} per second more");
    }

    #[test]
    fn f3_a_stream_that_falls_behind_catches_up() {
        // Seed 4 has a moment in which media 1 is behind by more than the device's latency target.
        for seed in [4, 9, 16] {
            let got = with(BACKGROUND, 100, seed).expect("all reservations fit");
            assert!(got.iter().all(|got| got.failed() <= 1 && got.lost == 0), "{seed}: {got:?}");
            assert!(total(&got) > 640, "the disk is used: {got:?}");
        }
    }

    #[test]
    fn f3_a_stream_that_presses_harder_hurts_only_itself() {
        for background in [1, 64, 1024] {
            let [_, got] = both(background, 10, 2).expect("all reservations fit");
            assert!(got.iter().all(|got| got.failed() == 0), "{background}: {got:?}");
        }
    }
}
