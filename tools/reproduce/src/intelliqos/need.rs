//! The share of the disk that a scenario's streams need to keep their promises.

use std::fmt::Write as _;

use arbitration::Nanos;
use arbitration::container::{Need, Promise, Scheduler};
use fastrand::Rng;
use sluice_sim::device::Disk;
use sluice_sim::report::{Column, Table};

use super::super::disk::SECTOR;
use super::setup::{Setup, Stream};
use crate::random::Draw as _;

const SECOND: u64 = 1_000_000_000;
/// Visits to each stream that are measured.
const VISITS: u32 = 50;
/// Requests in a visit, in the order of their places.
const REQUESTS: u32 = 16;
/// Shares of the disk are in millionths.
const PERCENT: f64 = 10_000.0;

/// The mean times of a stream's requests in the disk, in ns.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Of a request after one of another stream.
    far: u64,
    /// Of a request after one of the same stream.
    near: u64,
}

/// The disk time that a scenario's streams need.
#[derive(Debug)]
pub(super) struct Needs<'a> {
    setup: &'a Setup,
    times: Vec<Times>,
}

impl<'a> Needs<'a> {
    /// Measures the times of each stream's requests on the scenario's disk.
    ///
    /// # Errors
    ///
    /// The disk cannot be.
    pub(super) fn measure(setup: &'a Setup, seed: u64) -> anyhow::Result<Self> {
        let each = (0..setup.streams.len()).map(|number| times(setup, number, seed));
        Ok(Self { setup, times: each.collect::<anyhow::Result<_>>()? })
    }

    /// Returns the promise to each stream at so many outputs in a second and such a part of the
    /// promised rate, in per cent.
    fn promises(&self, outputs: u64, percent: u64) -> impl Iterator<Item = Promise> {
        self.setup.streams.iter().zip(&self.times).map(move |(stream, times)| {
            let each = u128::from(stream.blocks) * u128::from(SECTOR) * u128::from(outputs) * 100;
            let promised = u128::from(stream.promised) * u128::from(percent);
            Promise {
                requests: u64::try_from(promised.div_ceil(each.max(1))).unwrap_or(u64::MAX),
                every: SECOND / outputs.max(1),
                far: times.far,
                near: times.near,
            }
        })
    }

    fn need(&self, outputs: u64, percent: u64) -> Need {
        Need::sum(self.promises(outputs, percent))
    }

    /// Returns a warning if the disk has no time for the promises: by how much, and the possible promises; `None` if it
    /// has.
    pub(super) fn warning(&self) -> Option<String> {
        let outputs = self.setup.outputs_per_second;
        let need = self.need(outputs, 100);
        let containers = self.setup.scheduler == Scheduler::Containers;
        let mut text = match (need.is_possible(), need.fits() || !containers) {
            (true, true) => return None,
            (true, false) => format!(
                "Warning: the streams need {:.0} % of the disk to keep their promises with containers, so \
                 outputs will fall below them.",
                need.needed as f64 / PERCENT
            ),
            (false, _) => format!(
                "Warning: the streams need at least {:.0} % of the disk to keep their promises, so outputs will \
                 fall below them with any scheduler.",
                need.least as f64 / PERCENT
            ),
        };
        let fewer = (1..outputs).rev().find(|outputs| self.need(*outputs, 100).fits());
        let less = (1..100).rev().find(|percent| self.need(outputs, *percent).fits());
        let outputs = fewer.map(|outputs| format!("{outputs} outputs in a second"));
        let rates = less.map(|percent| format!("{percent} % of the promised rates"));
        let fit: Vec<String> = [outputs, rates].into_iter().flatten().collect();
        if !fit.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(text, " Containers have time for {}.", fit.join(", or for "));
        }
        Some(text)
    }

    /// Makes the table of each stream's needs.
    pub(super) fn table(&self) -> Table {
        let outputs = self.setup.outputs_per_second;
        let ms = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
        let percent = |share: u64| format!("{:.1}", share as f64 / PERCENT);
        let row = |(stream, promise): (&Stream, Promise)| {
            vec![
                stream.name.clone(),
                promise.requests.to_string(),
                ms(promise.far),
                ms(promise.near),
                percent(promise.needed()),
                percent(promise.least()),
            ]
        };
        let mut rows: Vec<_> =
            self.setup.streams.iter().zip(self.promises(outputs, 100)).map(row).collect();
        let Need { needed, least } = self.need(outputs, 100);
        let none = || "-".to_owned();
        rows.push(vec!["all".to_owned(), none(), none(), none(), percent(needed), percent(least)]);
        let columns = [
            ("stream", ""),
            ("requests", "per output"),
            ("after another stream", "ms"),
            ("after its own", "ms"),
            ("needed", "%"),
            ("least", "%"),
        ];
        Table {
            title: "Share of the disk that the promises need".to_owned(),
            file: "need".to_owned(),
            columns: columns.map(|(name, unit)| Column::new(name, unit)).to_vec(),
            names: 1,
            rows,
            note: "needed: with containers, whose safety zone may take a seek for each request; least: in any order"
                .to_owned(),
        }
    }
}

/// Measures a stream's requests on a disk of their own: visits of requests in the order of their places, with a
/// request of each other stream between two visits.
fn times(setup: &Setup, number: usize, seed: u64) -> anyhow::Result<Times> {
    let mut disk = Disk::new(setup.disk, seed)?;
    let mut random = Rng::with_seed(seed);
    let mut now = Nanos::ZERO;
    let (mut far, mut near) = ((0_u64, 0_u64), (0_u64, 0_u64));
    for _ in 0..VISITS {
        for (other, stream) in setup.streams.iter().enumerate() {
            let own = other == number;
            let count = if own { stream.depth.min(REQUESTS) } else { 1 };
            let mut places: Vec<u64> = (0..count).map(|_| place(stream, &mut random)).collect();
            places.sort_unstable();
            for (nth, lba) in places.into_iter().enumerate() {
                let time = disk.service(now, lba, stream.blocks, false);
                now = now.after(time);
                if own {
                    let (sum, requests) = if nth == 0 { &mut far } else { &mut near };
                    *sum += time;
                    *requests += 1;
                }
            }
        }
    }
    let mean = |(sum, requests): (u64, u64)| sum.checked_div(requests);
    let far = mean(far).unwrap_or(0);
    // With one request at a time none follows at once.
    Ok(Times { far, near: mean(near).unwrap_or(far) })
}

/// Draws the place of a request.
fn place(stream: &Stream, random: &mut Rng) -> u64 {
    let blocks = u64::from(stream.blocks).max(1);
    let room = stream.area.end.saturating_sub(stream.area.start) / blocks;
    stream.area.start + random.below(room) * blocks
}
