//! Fig. 10 (docs/research/sources.md, E4): flows that start later, and how soon each class has its part.

use sluice_sim::claim::{Bound, Claim, Unit};
use sluice_sim::report::Chart;

use super::CLASSES;
use super::fig9::{PRINTED, VARIANTS, Variant, flows};
use crate::figure::{Made, Request};
use crate::net::bottleneck::{Law, SHARES, part};
use crate::net::scenario::{Run, Scenario};
use crate::net::time::{Time, seconds};
use crate::plot::{self, Line};

/// The scenario of the figure.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-10.toml");
/// The round trips over which throughput is measured.
const WINDOW: u64 = 10;
/// The deviation from its part within which a class counts as converged.
const BAND: f64 = 0.15;
/// The number of runs whose mean is shown, and that at reduced length.
const RUNS: u64 = 16;
const RUNS_QUICK: u64 = 8;

/// Computes the part of each class at the end.
fn parts(law: Law) -> [f64; 3] {
    if law == Law::Dctcp { [1.0 / 3.0; 3] } else { SHARES.map(part) }
}

/// A law, with its runs.
struct Runs {
    law: Law,
    /// The round-trip time.
    rtt: Time,
    /// The round trip in which Medium and Low come in, and that in which runs end.
    enters: u64,
    ends: u64,
    runs: Vec<Run>,
}

/// Simulates a law as often as is asked for.
fn simulated(law: Law, variant: &Variant, request: Request) -> anyhow::Result<Runs> {
    let mut scenario = variant.of(SCENARIO)?;
    scenario.law = law;
    let count = if request.quick { RUNS_QUICK } else { RUNS };
    let runs = (0..count).map(|run| scenario.simulate(request.seed.wrapping_add(run))).collect();
    let enters = scenario.classes.iter().map(|class| class.begins).max().unwrap_or(0);
    let ends = scenario.warm + scenario.counted;
    Ok(Runs { law, rtt: scenario.bottleneck.rtt, enters, ends, runs })
}

impl Runs {
    /// Counts the round trips from the entry until each class's part of the throughput, in the mean
    /// over the runs, stays within [`BAND`] of its part.
    fn converged(&self) -> Option<u64> {
        let near = |from: u64| {
            let rates = self.rates(from);
            let total: f64 = rates.iter().sum();
            let parts = rates.iter().zip(parts(self.law));
            parts.map(|(rate, part)| (rate / total / part - 1.0).abs()).all(|off| off < BAND)
        };
        let starts = || self.enters..=self.ends.saturating_sub(WINDOW);
        let far = starts().enumerate().filter(|&(_, from)| !near(from)).last();
        let first = far.map_or(0, |(at, _)| at + 1);
        (first < starts().count()).then_some(first as u64 + WINDOW / 2)
    }

    /// Computes the rates of the classes over [`WINDOW`] round trips, in the mean over the runs.
    fn rates(&self, trip: u64) -> [f64; 3] {
        let (from, until) = (trip * self.rtt, (trip + WINDOW) * self.rtt);
        let count = self.runs.len().max(1) as f64;
        [0, 1, 2].map(|class| {
            self.runs.iter().map(|run| run.rate(class, from, until)).sum::<f64>() / count
        })
    }

    /// Returns the round trips until a law has converged: all remaining ones if it does not.
    fn after(&self) -> f64 {
        self.converged().unwrap_or(self.ends.saturating_sub(self.enters)) as f64
    }

    /// Makes the plot of a law: the classes' rates over time.
    fn plot(&self) -> Chart {
        let trips = (self.enters.saturating_sub(20)..self.ends.saturating_sub(WINDOW)).step_by(5);
        let points: Vec<(f64, [f64; 3])> =
            trips.map(|trip| (trip as f64, self.rates(trip))).collect();
        let lines = CLASSES.into_iter().enumerate().map(|(class, name)| {
            let at = |(trip, rates): &(f64, [f64; 3])| {
                (*trip, rates.get(class).copied().unwrap_or_default() / 1e9)
            };
            Line { name: name.to_owned(), points: points.iter().map(at).collect() }
        });
        plot::lines("throughput, Gb/s of payload", "round trips of 98 us", lines.collect())
    }
}

/// Makes the figure.
///
/// # Errors
///
/// The scenario is wrong.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let runs = simulated(Law::Dctcp, &PRINTED, request)?;
    let dctcp = runs.after();
    let mut plots = vec![("e2e-10a", runs.plot())];
    let mut claims = Vec::new();
    let mut title = format!(
        "End-to-end QoS, Fig. 10 (E4): High alone on 100 Gb/s, then Medium and Low come in; {} \
         flows a class, RTT 98 us.\nConverged once each class stays within {BAND} of its part (DCTCP \
         1:1:1, QTCP 3:2:1), over {WINDOW} round trips\nand {} runs. DCTCP after {dctcp} RTTs",
        flows(&Scenario::parse(SCENARIO)?),
        runs.runs.len()
    );
    for (variant, file) in VARIANTS.iter().zip(["e2e-10b-printed", "e2e-10b-by-target"]) {
        let runs = simulated(Law::Qtcp, variant, request)?;
        let qtcp = runs.after();
        plots.push((file, runs.plot()));
        title += &format!("; QTCP, {}, after {qtcp}", variant.name);
        let sooner = dctcp - qtcp;
        claims.push(Claim::new(
            format!("QTCP, {}: sooner than DCTCP by", variant.name),
            "over 50 RTTs",
            sooner,
            Unit::Of(0, "RTTs"),
            Bound::AtLeast(50.0),
        ));
        claims.push(
            Claim::new(
                format!("QTCP, {}: sooner than DCTCP by", variant.name),
                "about 5 ms",
                sooner * seconds(runs.rtt) * 1e3,
                Unit::Of(1, "ms"),
                Bound::Near(5.0, 0.1),
            )
            .known(
                Bound::Between(9.0, 17.5),
                "DCTCP takes longer here than in the source, whose flows may start less far apart: its \
                 flows that come in find a full link, and grow by a packet a round trip. The source's \
                 50 round trips are the least.",
            ),
        );
    }
    Ok(Made::of(&title, claims, plots))
}
