//! Fig. 10 (docs/sources.md, E4): flows that start later, and how soon each class has its part.

use std::ops::Range;

use super::CLASSES;
use super::fig9::{self, FLOWS, PRINTED, VARIANTS, Variant};
use crate::random::Random;
use crate::sim::claim::{Bound, Claim, Unit};
use crate::sim::figure::{Made, Plot, Request};
use crate::sim::net::Network;
use crate::sim::net::bottleneck::{Law, SHARES, part};
use crate::sim::net::event::{MICRO, Time, seconds};
use crate::sim::net::record::Record;
use crate::sim::plot::{Chart, Line};

/// The round-trip time of the source's figure.
const RTT: Time = 98 * MICRO;
/// The time at which Medium and Low come in; High is alone until then.
const ENTRY: Time = 200 * RTT;
/// The end of the run.
const END: Time = 800 * RTT;
/// The round trips over which throughput is measured.
const WINDOW: u64 = 10;
/// The deviation from its part within which a class counts as converged.
const BAND: f64 = 0.15;
/// The number of runs whose mean is shown, and that at reduced length.
const RUNS: u64 = 5;
const RUNS_QUICK: u64 = 2;

type Run = (Network, [Range<u32>; 3]);

/// Runs a law once. Flows start within a round trip of each other.
fn simulate(law: Law, variant: &Variant, seed: u64) -> Run {
    let bottleneck = fig9::varied(RTT, variant);
    let mut network = bottleneck.network(Record::new(END, RTT));
    let mut random = Random::new(seed);
    let classes = [0, 1, 2].map(|class| {
        let flows = bottleneck.flows(&mut network, law, Some(class), FLOWS, None);
        let start = if class == 0 { 0 } else { ENTRY };
        flows.clone().for_each(|flow| network.start(flow, true, start + random.below(RTT)));
        flows
    });
    network.run(END);
    (network, classes)
}

/// Computes the part of each class at the end.
fn parts(law: Law) -> [f64; 3] {
    if law == Law::Dctcp { [1.0 / 3.0; 3] } else { SHARES.map(part) }
}

/// Simulates a law as often as is asked for.
fn simulated(law: Law, variant: &Variant, request: Request) -> Vec<Run> {
    let runs = if request.quick { RUNS_QUICK } else { RUNS };
    (0..runs).map(|run| simulate(law, variant, request.seed.wrapping_add(run))).collect()
}

/// Counts the round trips from the entry until each class's part of the throughput, in the mean
/// over the runs, stays within [`BAND`] of its part.
fn converged(law: Law, runs: &[Run]) -> Option<u64> {
    let near = |from: Time| {
        let rates = rates(runs, from, from + WINDOW * RTT);
        let total: f64 = rates.iter().sum();
        rates.iter().zip(parts(law)).all(|(rate, part)| (rate / total / part - 1.0).abs() < BAND)
    };
    let starts = || (ENTRY..=END - WINDOW * RTT).step_by(usize::try_from(RTT).unwrap_or(1));
    let far = starts().enumerate().filter(|&(_, from)| !near(from)).last();
    let first = far.map_or(0, |(at, _)| at + 1);
    (first < starts().count()).then_some(first as u64 + WINDOW / 2)
}

/// Computes the rates of the classes in the mean over the runs.
fn rates(runs: &[Run], from: Time, until: Time) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for (network, classes) in runs {
        for (sum, flows) in sums.iter_mut().zip(classes) {
            *sum += network.record().rates(flows.clone(), from, until);
        }
    }
    sums.map(|sum| sum / runs.len().max(1) as f64)
}

/// Returns the round trips until a law has converged: all that are left where it does not.
fn after(law: Law, runs: &[Run]) -> f64 {
    converged(law, runs).unwrap_or((END - ENTRY) / RTT) as f64
}

/// Makes the figure.
pub(super) fn run(request: Request) -> Made {
    let runs = simulated(Law::Dctcp, &PRINTED, request);
    let dctcp = after(Law::Dctcp, &runs);
    let mut plots = vec![("e2e-10a", plot(&runs))];
    let mut claims = Vec::new();
    let mut title = format!(
        "End-to-end QoS, Fig. 10 (E4): High alone on 100 Gb/s, then Medium and Low come in; {FLOWS} \
         flows a class, RTT 98 us.\nConverged once each class stays within {BAND} of its part (DCTCP \
         1:1:1, QTCP 3:2:1), over {WINDOW} round trips\nand {} runs. DCTCP after {dctcp} RTTs",
        runs.len()
    );
    for (variant, file) in VARIANTS.iter().zip(["e2e-10b-printed", "e2e-10b-by-target"]) {
        let runs = simulated(Law::Qtcp, variant, request);
        let qtcp = after(Law::Qtcp, &runs);
        plots.push((file, plot(&runs)));
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
                sooner * seconds(RTT) * 1e3,
                Unit::Of(1, "ms"),
                Bound::Near(5.0, 0.1),
            )
            .known(
                Bound::Between(11.5, 16.5),
                "DCTCP takes longer here than in the source, whose flows may start less far apart: its \
                 flows that come in find a full link, and grow by a packet a round trip. The source's \
                 50 round trips are the least.",
            ),
        );
    }
    Made::of(&title, claims, plots)
}

/// Makes the plot of a law: the classes' rates over time.
fn plot(runs: &[Run]) -> Plot {
    let trips = (ENTRY / RTT - 20..END / RTT - WINDOW).step_by(5);
    let points: Vec<(f64, [f64; 3])> =
        trips.map(|trip| (trip as f64, rates(runs, trip * RTT, (trip + WINDOW) * RTT))).collect();
    let lines = CLASSES.into_iter().enumerate().map(|(class, name)| {
        let at = |(trip, rates): &(f64, [f64; 3])| {
            (*trip, rates.get(class).copied().unwrap_or_default() / 1e9)
        };
        Line { name: name.to_owned(), points: points.iter().map(at).collect() }
    });
    let lines = lines.collect();
    Plot::Lines(Chart { title: "throughput, Gb/s of payload", x: "round trips of 98 us", lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e4_qtcp_converges_fifty_round_trips_before_dctcp() {
        let request = Request { seed: 1, scale: 1, quick: false };
        let of = |law, variant| converged(law, &simulated(law, variant, request));
        let dctcp = of(Law::Dctcp, &PRINTED);
        for variant in &VARIANTS {
            let qtcp = of(Law::Qtcp, variant).unwrap();
            assert!(dctcp.is_none_or(|dctcp| dctcp > qtcp + 50), "{variant:?}: {dctcp:?} {qtcp}");
        }
    }
}
