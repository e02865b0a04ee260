//! Fig. 10 (docs/sources.md, E4): flows that start later, and how soon each class has its part.

use std::fmt::Write as _;
use std::ops::Range;

use super::fig9::{self, FLOWS, PRINTED, VARIANTS, Variant};
use super::net::Network;
use super::net::bottleneck::{Law, SHARES, part};
use super::net::event::{MICRO, Time, seconds};
use super::net::record::Record;
use crate::random::Random;

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
/// The number of runs whose mean is shown.
const RUNS: u64 = 5;

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

/// Counts the round trips from the entry until each class's part of the throughput, in the mean
/// over the runs, stays within [`BAND`] of its part.
fn converged(law: Law, variant: &Variant, seed: u64) -> Option<u64> {
    let simulate = |run| simulate(law, variant, seed.wrapping_add(run));
    let runs: Vec<Run> = (0..RUNS).map(simulate).collect();
    let near = |from: Time| {
        let rates = rates(&runs, from, from + WINDOW * RTT);
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

/// Makes the figure as text.
pub(super) fn run(seed: u64) -> String {
    let mut text = format!(
        "Fig. 10 (E4): High alone on 100 Gb/s, then Medium and Low come in; {FLOWS} flows a class, \
         RTT 98 us\nconverged once each class stays within {BAND} of its part (DCTCP 1:1:1, QTCP \
         3:2:1), over {WINDOW} round trips and {RUNS} runs\n\n\
         law                converged after\n"
    );
    let dctcp = converged(Law::Dctcp, &PRINTED, seed);
    _ = writeln!(text, "DCTCP              {}", after(dctcp));
    for variant in &VARIANTS {
        let qtcp = converged(Law::Qtcp, variant, seed);
        _ = write!(text, "QTCP, {:12} {}", variant.name, after(qtcp));
        if let (Some(dctcp), Some(qtcp)) = (dctcp, qtcp) {
            let sooner = dctcp as f64 - qtcp as f64;
            let millis = sooner * seconds(RTT) * 1e3;
            _ = write!(text, ": sooner by {sooner} RTTs, {millis:.1} ms");
        }
        text.push('\n');
    }
    text + "\nsource: QTCP is sooner by more than 50 RTTs, about 5 ms\n"
}

/// Writes a time in round trips.
fn after(trips: Option<u64>) -> String {
    trips.map_or("never".to_owned(), |trips| {
        format!("{trips} RTTs, {:.1} ms", seconds(trips * RTT) * 1e3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e4_qtcp_converges_fifty_round_trips_before_dctcp() {
        let dctcp = converged(Law::Dctcp, &PRINTED, 1);
        for variant in &VARIANTS {
            let qtcp = converged(Law::Qtcp, variant, 1).unwrap();
            assert!(dctcp.is_none_or(|dctcp| dctcp > qtcp + 50), "{variant:?}: {dctcp:?} {qtcp}");
        }
    }
}
