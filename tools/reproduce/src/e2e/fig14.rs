//! Fig. 14 (docs/research/sources.md, E8): flows that come and go, and flows of DCTCP that interfere.

use std::ops::Range;

use crate::models::law::{FLOOR, SIGMA};
use fastrand::Rng;
use sluice_sim::claim::{Bound, Claim};
use sluice_sim::report::Chart;

use super::fig9::{BY_TARGET, PAST, PRINTED, VARIANTS, Variant};
use crate::figure::{Made, Request};
use crate::net::Network;
use crate::net::bottleneck::{Bottleneck, Law, SHARES, part};
use crate::net::record::Record;
use crate::net::time::{MILLI, Time};
use crate::plot::{self, Line};
use crate::random::Draw as _;

/// Flows of an application.
const FLOWS: u32 = 5;
/// The times of a run.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// The time between applications that come or go (Fig. 14a).
    phase: Time,
    /// The time that is left out at the start of a phase.
    settling: Time,
    /// The time from which on rates before DCTCP count (Fig. 14b).
    counted: Time,
    /// The times at which flows of DCTCP come and go, and the end of the run.
    enters: Time,
    leaves: Time,
    ends: Time,
    /// The time that is left to back off, and to come back.
    adapting: Time,
}

/// The source's times.
const LONG: Times = Times {
    phase: 50 * MILLI,
    settling: 15 * MILLI,
    counted: 40 * MILLI,
    enters: 75 * MILLI,
    leaves: 250 * MILLI,
    ends: 350 * MILLI,
    adapting: 50 * MILLI,
};

/// The times at reduced length.
const SHORT: Times = Times {
    phase: 30 * MILLI,
    settling: 15 * MILLI,
    counted: 20 * MILLI,
    enters: 45 * MILLI,
    leaves: 140 * MILLI,
    ends: 220 * MILLI,
    adapting: 45 * MILLI,
};

impl Times {
    fn of(request: Request) -> Self {
        if request.quick { SHORT } else { LONG }
    }
}

/// An application of Fig. 14a: its class, and the phases in which it is there.
#[derive(Debug)]
pub(super) struct Application {
    pub(super) name: &'static str,
    pub(super) class: usize,
    pub(super) phases: Range<u32>,
}

/// The applications: one for each class from the start, and a second one later. The first ones
/// leave before the second ones.
pub(super) const APPLICATIONS: [Application; 6] = [
    Application { name: "High 1", class: 0, phases: 0..6 },
    Application { name: "High 2", class: 0, phases: 3..7 },
    Application { name: "Medium 1", class: 1, phases: 0..5 },
    Application { name: "Medium 2", class: 1, phases: 2..7 },
    Application { name: "Low 1", class: 2, phases: 0..4 },
    Application { name: "Low 2", class: 2, phases: 1..7 },
];
pub(super) const PHASES: u32 = 7;

/// A run of Fig. 14a.
#[derive(Debug)]
struct Intermittent {
    network: Network,
    times: Times,
    flows: [Range<u32>; 6],
}

impl Intermittent {
    fn new(bottleneck: &Bottleneck, times: Times, seed: u64) -> Self {
        let end = Time::from(PHASES) * times.phase;
        let mut network = bottleneck.network(Record::new(end, MILLI));
        let mut random = Rng::with_seed(seed);
        let flows = APPLICATIONS.map(|application| {
            let Application { class, phases, .. } = application;
            let flows = bottleneck.flows(&mut network, Law::Qtcp, Some(class), FLOWS, None);
            for flow in flows.clone() {
                let [begins, ends] =
                    [phases.start, phases.end].map(|phase| Time::from(phase) * times.phase);
                network.start(flow, true, begins + random.below(bottleneck.rtt));
                network.stop(flow, ends);
            }
            flows
        });
        network.run(end);
        Self { network, times, flows }
    }

    /// Measures the rates of a class's applications that are there in a phase, in Gb/s of payload.
    fn rates(&self, class: usize, phase: u32) -> Vec<f64> {
        let Times { phase: length, settling, .. } = self.times;
        let begins = Time::from(phase) * length;
        let (from, until) = (begins + settling, begins + length);
        let there = APPLICATIONS.iter().zip(&self.flows).filter(|(application, _)| {
            application.class == class && application.phases.contains(&phase)
        });
        let rate = |flows: &Range<u32>| self.network.record().rates(flows.clone(), from, until);
        there.map(|(_, flows)| rate(flows) / 1e9).collect()
    }

    /// Computes the largest deviation of a class from its target in any phase, and of an application
    /// from the mean of its class.
    fn deviations(&self, bottleneck: &Bottleneck) -> (f64, f64) {
        let (mut class, mut application) = (0.0_f64, 0.0_f64);
        for phase in 0..PHASES {
            for (number, share) in SHARES.into_iter().enumerate() {
                let rates = self.rates(number, phase);
                let sum: f64 = rates.iter().sum();
                let target = bottleneck.shared() / 1e9 * part(share);
                class = class.max((sum / target - 1.0).abs());
                let mean = sum / rates.len().max(1) as f64;
                let off = rates.iter().map(|rate| (rate / mean - 1.0).abs());
                application = off.fold(application, f64::max);
            }
        }
        (class, application)
    }

    /// Makes the plot: the rate of each application over time.
    fn plot(&self) -> Chart {
        let applications = APPLICATIONS.iter().zip(&self.flows);
        let line = |(application, flows): (&Application, &Range<u32>)| Line {
            name: application.name.to_owned(),
            points: over_time(&self.network, flows, Time::from(PHASES) * self.times.phase),
        };
        plot(applications.map(line).collect())
    }
}

/// Measures the rate of flows over time: milliseconds, and Gb/s of payload.
fn over_time(network: &Network, flows: &Range<u32>, end: Time) -> Vec<(f64, f64)> {
    let milli = |at: Time| {
        let rate = network.record().rates(flows.clone(), at * MILLI, (at + 1) * MILLI);
        (at as f64, rate / 1e9)
    };
    (0..end / MILLI).map(milli).collect()
}

fn plot(lines: Vec<Line>) -> Chart {
    plot::lines("throughput, Gb/s of payload", "time, ms", lines)
}

/// How interference from flows of DCTCP is detected (Fig. 15a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detection {
    /// Nobody.
    None,
    /// Each flow, with a lambda of its own.
    Each,
    /// All flows, with one lambda.
    All,
}

/// A run of Fig. 14b.
#[derive(Debug)]
struct Interfered {
    network: Network,
    times: Times,
    flows: [Range<u32>; 4],
}

impl Interfered {
    fn new(bottleneck: &Bottleneck, detection: Detection, times: Times, seed: u64) -> Self {
        let law = if detection == Detection::Each { Law::Interference } else { Law::Qtcp };
        let mut network = bottleneck.network(Record::new(times.ends, MILLI));
        if detection == Detection::All {
            network.detect(bottleneck.rtt, SIGMA, FLOOR);
        }
        let mut random = Rng::with_seed(seed);
        let flows = [Some(0), Some(1), Some(2), None].map(|class| {
            let law = if class.is_some() { law } else { Law::Dctcp };
            let flows = bottleneck.flows(&mut network, law, class, FLOWS, None);
            for flow in flows.clone() {
                let start = if class.is_some() { 0 } else { times.enters };
                network.start(flow, true, start + random.below(bottleneck.rtt));
                if class.is_none() {
                    network.stop(flow, times.leaves);
                }
            }
            flows
        });
        network.run(times.ends);
        Self { network, times, flows }
    }

    /// Measures the rates of High, Medium, Low and DCTCP before, beside and after DCTCP, in Gb/s of
    /// payload.
    fn rates(&self) -> [[f64; 4]; 3] {
        let Times { counted, enters, leaves, ends, adapting, .. } = self.times;
        let settled = [(counted, enters), (enters + adapting, leaves), (leaves + adapting, ends)];
        settled.map(|(from, until)| {
            let rate = |flows| self.network.record().rates(flows, from, until) / 1e9;
            self.flows.clone().map(rate)
        })
    }

    fn plot(&self) -> Chart {
        let names = ["High", "Medium", "Low", "DCTCP"].into_iter().zip(&self.flows);
        let line = |(name, flows): (&str, &Range<u32>)| Line {
            name: name.to_owned(),
            points: over_time(&self.network, flows, self.times.ends),
        };
        plot(names.map(line).collect())
    }
}

/// Computes the largest deviation of a class from its part of what all classes have.
fn deviation([high, medium, low, _]: [f64; 4]) -> f64 {
    let total = high + medium + low;
    let off = |(rate, share): (f64, f64)| (rate / total / part(share) - 1.0).abs();
    [high, medium, low].into_iter().zip(SHARES).map(off).fold(0.0, f64::max)
}

/// A law that is shown beside DCTCP.
#[derive(Debug)]
struct Beside {
    name: &'static str,
    detection: Detection,
    variant: &'static Variant,
    /// The deviation from the ratio that is known, where it is more than sigma.
    known: Option<(f64, f64)>,
}

const fn shown(
    name: &'static str,
    detection: Detection,
    variant: &'static Variant,
    known: Option<(f64, f64)>,
) -> Beside {
    Beside { name, detection, variant, known }
}

/// The laws that are shown beside DCTCP.
const BESIDE: [Beside; 6] = [
    shown("Eq. 5, no detection", Detection::None, &PRINTED, Some((0.3, 0.5))),
    shown("Eq. 5, a lambda for each flow", Detection::Each, &PRINTED, Some((0.36, 0.56))),
    shown("Eq. 5, one lambda", Detection::All, &PRINTED, Some((0.05, 0.08))),
    shown("by target, no detection", Detection::None, &BY_TARGET, None),
    shown("by target, a lambda for each flow", Detection::Each, &BY_TARGET, Some((0.05, 0.33))),
    shown("by target, one lambda", Detection::All, &BY_TARGET, None),
];

/// The reason why ratios are lost beside DCTCP with Eq. 5.
const RATIO: &str = "Q only takes from flows that are above their targets. Beside DCTCP none is, so \
    without detection all are flows of DCTCP; and where each flow has a lambda of its own, Low, which is \
    at its target, finds no interference, while High gives way. With one lambda for all flows the ratio \
    is kept to within 8 %.";

/// Makes the figure.
///
/// # Errors
///
/// The scenario is wrong.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let times = Times::of(request);
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    for (variant, file) in VARIANTS.iter().zip(["e2e-14a-printed", "e2e-14a-by-target"]) {
        let bottleneck = variant.bottleneck()?;
        let run = Intermittent::new(&bottleneck, times, request.seed);
        let known = (variant.name == PRINTED.name).then_some((Bound::Between(0.09, 0.13), PAST));
        claims.extend(phases(variant.name, run.deviations(&bottleneck), known));
        plots.push((file, run.plot()));
    }
    for Beside { name, detection, variant, known } in BESIDE {
        let run = Interfered::new(&variant.bottleneck()?, detection, times, request.seed);
        let [backs, comes, ratio] = beside(name, run.rates());
        let ratio = match known {
            Some((least, most)) => ratio.known(Bound::Between(least, most), RATIO),
            None => ratio,
        };
        claims.extend([backs, comes, ratio]);
        if detection == Detection::All {
            let by_target = variant.name == BY_TARGET.name;
            plots.push((
                if by_target { "e2e-14b-by-target" } else { "e2e-14b-printed" },
                run.plot(),
            ));
        }
    }
    let title = format!(
        "End-to-end QoS, Fig. 14 (E8): QTCP on 100 Gb/s, RTT 98 us, {FLOWS} flows an application.\n(a) \
         Applications come and go every {} ms. (b) Flows of DCTCP interfere from {} to {} ms; the \
         algorithm of\nFig. 15a finds out (sigma = 5 %), with a lambda for each flow or one for all",
        times.phase / MILLI,
        times.enters / MILLI,
        times.leaves / MILLI
    );
    Ok(Made::of(&title, claims, plots))
}

/// Makes the claims of Fig. 14a. `known` explains a class that is further off than it should be.
pub(super) fn phases(
    name: &str,
    (class, application): (f64, f64),
    known: Option<(Bound, &'static str)>,
) -> [Claim; 2] {
    let what = format!("(a) {name}: a class off its target, at most");
    let class = Claim::percent(what, "not affected", class, Bound::AtMost(0.05));
    let class = match known {
        Some((bound, why)) => class.known(bound, why),
        None => class,
    };
    let what = format!("(a) {name}: an application off its class's mean");
    let bound = Bound::AtMost(0.05);
    [class, Claim::percent(what, "shared", application, bound)]
}

/// Makes the claims of Fig. 14b from the rates of High, Medium, Low and others before, beside and after the
/// others.
pub(super) fn beside(name: &str, [before, beside, after]: [[f64; 4]; 3]) -> [Claim; 3] {
    let together = |[high, medium, low, _]: [f64; 4]| high + medium + low;
    let back = [before, after].map(together);
    let [before_all, after_all] = back;
    let ratio = Claim::percent(
        format!("(b) {name}: off 3:2:1 beside DCTCP"),
        "ratio_i",
        deviation(beside),
        // Sigma, within which the source's algorithm sees nothing.
        Bound::AtMost(SIGMA),
    );
    [
        Claim::percent(
            format!("(b) {name}: beside DCTCP, of before"),
            "backs off",
            together(beside) / before_all,
            Bound::AtMost(0.95),
        ),
        Claim::percent(
            format!("(b) {name}: afterwards, of before"),
            "comes back",
            after_all / before_all,
            // If classes have not settled before the others come, they have more afterwards.
            Bound::AtLeast(0.95),
        ),
        ratio,
    ]
}
