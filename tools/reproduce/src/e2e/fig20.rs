//! Fig. 20 and 21 (docs/research/sources.md, E12): the latency of accesses to persistent memory beside three classes
//! that congest the link, with switches that send Urgent first and without, and the cost for the classes. Whole
//! targets: the [runs](super::pm).

use std::fmt::Write as _;

use sluice_sim::claim::{Bound, Claim, Unit};

use super::fig12;
use super::fig23::TURNS;
use super::pm::{LAWS, Law, Run, latency, rates};
use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::net::bottleneck::{SHARES, part};
use crate::plot;
use crate::whole::PERCENTS;

/// The scenarios of the figures.
const LATENCIES: &str = include_str!("../../../scenarios/e2e-20.toml");
const CLASSES_BESIDE: &str = include_str!("../../../scenarios/e2e-21.toml");

const WAYS: [(&str, bool); 2] = [("reads", false), ("writes", true)];

/// Makes Fig. 20: latencies of persistent memory.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn latencies(request: Request) -> anyhow::Result<Made> {
    let mut title =
        "End-to-end QoS, Fig. 20 (E12): accesses to persistent memory over RDMA, beside High, \
         Medium and Low with 90, 60\nand 30 Gb/s on a link of 100. p50, p90 and p99 in us:\n"
            .to_owned();
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    for ((way, writes), file) in WAYS.into_iter().zip(["e2e-20a", "e2e-20b"]) {
        let mut bars = Vec::new();
        for (name, law) in LAWS {
            let run = Run { scenario: LATENCIES, writes, first: true, law, pm: 3.0 };
            let first = latency(&run.measure(request)?)?;
            let in_turn = latency(&Run { first: false, ..run }.measure(request)?)?;
            let [with, without] = [first, in_turn].map(|of| of.percentiles);
            _ = writeln!(
                title,
                "{way}, {name}: {} with Urgent first, {} without",
                series(&with),
                series(&without)
            );
            let us = Unit::Of(1, "us");
            let what = format!("{name}, {way}");
            for (percent, ours) in [("50", with[0]), ("99", with[2])] {
                let of = format!("{what}, Urgent first: {percent} %");
                let claim = Claim::new(of, "3..4 us", ours, us, Bound::Between(3.0, 4.0));
                claims.push(claim.known(Bound::Between(4.0, 4.8), TURNS));
            }
            let of = format!("{what}, in turn: mean");
            let claim = Claim::new(of, "> 20 us", in_turn.mean, us, Bound::AtLeast(20.0));
            claims.push(claim.known(Bound::Between(8.0, 20.0), THRESHOLD));
            let better = 1.0 - first.mean / in_turn.mean;
            let of = format!("{what}: shorter with Urgent first");
            let claim = Claim::percent(of, "82 %", better, Bound::Within(0.82, 0.05));
            claims.push(claim.known(Bound::Between(0.55, 0.77), THRESHOLD));
            for (kind, heights) in [("Urgent first", with), ("in turn", without)] {
                bars.push((format!("{name}, {kind}"), heights));
            }
        }
        let title = format!("us that an access to persistent memory takes, beside {way}");
        plots.push((file, plot::bars(&title, PERCENTS, bars)));
    }
    Ok(Made::of(&title, claims, plots))
}

/// Makes Fig. 21: the classes of storage beside persistent memory.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn classes(request: Request) -> anyhow::Result<Made> {
    let mut title =
        "End-to-end QoS, Fig. 21 (E12): what High, Medium and Low have of a link of 100 Gb/s, \
         beside persistent memory (3 Gb/s)\nand alone, in Gb/s:\n"
            .to_owned();
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    for ((way, writes), file) in WAYS.into_iter().zip(["e2e-21a", "e2e-21b"]) {
        let mut bars = Vec::new();
        for (name, law) in LAWS {
            let run = Run { scenario: CLASSES_BESIDE, writes, first: true, law, pm: 3.0 };
            let beside = rates(&run.measure(request)?);
            let alone = rates(&Run { pm: 0.0, ..run }.measure(request)?);
            _ = writeln!(
                title,
                "{way}, {name}: {} beside, {} alone",
                series(&beside),
                series(&alone)
            );
            let what = format!("{name}, {way}");
            claims.extend(parts(&what, law, &beside));
            let costs = (alone.iter().sum::<f64>() - beside.iter().sum::<f64>()) / 3.0;
            let of = format!("{what}: what PM costs each class");
            let (unit, bound) = (Unit::Of(1, "Gb/s"), Bound::Within(1.0, 0.2));
            let claim = Claim::new(of, "about 1 Gb/s", costs, unit, bound);
            claims.push(claim.known(Bound::Between(0.0, 2.0), THIRD));
            for (kind, heights) in [("beside PM", beside), ("alone", alone)] {
                bars.push((format!("{name}, {kind}"), heights));
            }
        }
        plots.push((file, plot::bars(&format!("Gb/s of {way}"), CLASSES, bars)));
    }
    Ok(Made::of(&title, claims, plots))
}

/// The reason why accesses wait for less than the source's.
const THRESHOLD: &str = "Congestion control holds the queue at the threshold: 140 packets, which take 17 us of the \
    link, and less in some runs while classes are held back. The source's Fig. 23 has 17 to 23 us for the same.";

/// The reason for the cost of persistent memory.
const THIRD: &str = "The source does not say how much persistent memory has: 3 Gb/s were chosen, of which a third for \
    each class is about 1 Gb/s by construction. Each block of 512 bytes has headers beside. It is the difference of two \
    runs, and differs by 1 Gb/s and more from seed to seed.";

/// The reason why Low has more than its part.
const PACKETS: &str = "By Eq. 5 every flow grows by the same packet a round trip, which is more of a small window \
    than of a large one: see e2e-9.";

/// Claims that classes have their parts of what all have.
pub(super) fn parts(what: &str, law: Law, rates: &[f64; 3]) -> Vec<Claim> {
    let claims = fig12::parts(what, rates).into_iter().zip(SHARES);
    let of = |(claim, share): (Claim, f64)| match law {
        Law::Daemon => claim,
        Law::Printed => claim.known(Bound::Near(part(share), 0.25), PACKETS),
    };
    claims.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_of_one_set_up() {
        let [latencies, beside] = [LATENCIES, CLASSES_BESIDE].map(|text| {
            let mut file: toml::Table = text.parse().unwrap();
            assert!(file.remove("title").is_some());
            file
        });
        assert_eq!(latencies, beside);
    }
}
