//! Fig. 14 (docs/sources.md, E8): flows that come and go, and flows of DCTCP that interfere.

use std::fmt::Write as _;
use std::ops::Range;

use super::fig9::{self, BY_TARGET, PRINTED, VARIANTS, Variant};
use super::net::Network;
use super::net::bottleneck::{Bottleneck, Law};
use super::net::event::{MICRO, MILLI, Time};
use super::net::record::Record;
use crate::random::Random;

/// The round-trip time of all runs.
const RTT: Time = 98 * MICRO;
/// Flows of an application.
const FLOWS: u32 = 5;
/// The times at which applications come or go (Fig. 14a).
const PHASE: Time = 50 * MILLI;
/// The time that is left out at the start of a phase.
const SETTLING: Time = 15 * MILLI;

/// An application of Fig. 14a: its class, and the phases in which it is there.
#[derive(Debug)]
struct Application {
    name: &'static str,
    class: usize,
    phases: Range<u64>,
}

/// The applications: one for each class from the start, and a second one later. The first ones
/// leave before the second ones.
const APPLICATIONS: [Application; 6] = [
    Application { name: "High 1", class: 0, phases: 0..6 },
    Application { name: "High 2", class: 0, phases: 3..7 },
    Application { name: "Medium 1", class: 1, phases: 0..5 },
    Application { name: "Medium 2", class: 1, phases: 2..7 },
    Application { name: "Low 1", class: 2, phases: 0..4 },
    Application { name: "Low 2", class: 2, phases: 1..7 },
];
const PHASES: u64 = 7;

/// Measures the rate of each application in each phase, in Gb/s of payload.
fn intermittent(bottleneck: &Bottleneck, seed: u64) -> Vec<Vec<f64>> {
    let end = PHASES * PHASE;
    let mut network = bottleneck.network(Record::new(end, MILLI));
    let mut random = Random::new(seed);
    let flows = APPLICATIONS.map(|application| {
        let Application { class, phases, .. } = application;
        let flows = bottleneck.flows(&mut network, Law::Qtcp, Some(class), FLOWS, None);
        for flow in flows.clone() {
            network.start(flow, true, phases.start * PHASE + random.below(RTT));
            network.stop(flow, phases.end * PHASE);
        }
        flows
    });
    network.run(end);
    let rate = |flows: &Range<u32>, phase: u64| {
        let from = phase * PHASE + SETTLING;
        network.record().rates(flows.clone(), from, (phase + 1) * PHASE) / 1e9
    };
    flows.iter().map(|flows| (0..PHASES).map(|phase| rate(flows, phase)).collect()).collect()
}

/// The times at which flows of DCTCP come and go, and the end of the run (Fig. 14b).
const ENTERS: Time = 75 * MILLI;
const LEAVES: Time = 250 * MILLI;
const ENDS: Time = 350 * MILLI;

/// Measures the rates of High, Medium, Low and DCTCP before, beside and after DCTCP, in Gb/s of
/// payload.
fn interference(bottleneck: &Bottleneck, law: Law, seed: u64) -> [[f64; 4]; 3] {
    let (network, flows) = interfered(bottleneck, law, seed);
    // Of the time beside DCTCP and after it, the first 50 ms are left to back off and come back.
    let settled =
        [(40 * MILLI, ENTERS), (ENTERS + 50 * MILLI, LEAVES), (LEAVES + 50 * MILLI, ENDS)];
    settled.map(|(from, until)| {
        flows.clone().map(|flows| network.record().rates(flows, from, until) / 1e9)
    })
}

fn interfered(bottleneck: &Bottleneck, law: Law, seed: u64) -> (Network, [Range<u32>; 4]) {
    let mut network = bottleneck.network(Record::new(ENDS, MILLI));
    let mut random = Random::new(seed);
    let flows = [Some(0), Some(1), Some(2), None].map(|class| {
        let law = if class.is_some() { law } else { Law::Dctcp };
        let flows = bottleneck.flows(&mut network, law, class, FLOWS, None);
        for flow in flows.clone() {
            let start = if class.is_some() { 0 } else { ENTERS };
            network.start(flow, true, start + random.below(RTT));
            if class.is_none() {
                network.stop(flow, LEAVES);
            }
        }
        flows
    });
    network.run(ENDS);
    (network, flows)
}

/// The laws that are shown beside DCTCP.
const BESIDE: [(&str, Law, &Variant); 4] = [
    ("Eq. 5", Law::Qtcp, &PRINTED),
    ("Eq. 5, Fig. 15a", Law::Interference, &PRINTED),
    ("by target", Law::Qtcp, &BY_TARGET),
    ("by target, Fig. 15a", Law::Interference, &BY_TARGET),
];

/// Makes the figure as text.
pub(super) fn run(seed: u64) -> String {
    let mut text = format!(
        "Fig. 14 (E8): QTCP on 100 Gb/s, RTT 98 us, {FLOWS} flows an application, Gb/s of payload\n\n\
         (a) applications that come and go every 50 ms; source: a class's target is shared by its\n    \
         flows, other classes are not affected, what an application leaves goes to its class\n"
    );
    VARIANTS.iter().for_each(|variant| phases(&mut text, variant, seed));
    text += "\n(b) DCTCP from 75 to 250 ms; source: QTCP backs off, and comes back afterwards\n\n\
             growth                  time           High  Medium  Low   DCTCP\n";
    for (name, law, variant) in BESIDE {
        let rates = interference(&fig9::varied(RTT, variant), law, seed);
        for (time, [high, medium, low, dctcp]) in
            ["40..75", "125..250", "300..350"].iter().zip(rates)
        {
            _ = writeln!(
                text,
                "{name:22}  {time:9} ms  {high:6.1} {medium:6.1} {low:6.1}  {dctcp:6.1}"
            );
        }
    }
    text
}

/// Writes the rates of Fig. 14a.
fn phases(text: &mut String, variant: &Variant, seed: u64) {
    _ = write!(text, "\n{:12}", variant.name);
    (0..PHASES).for_each(|phase| _ = write!(text, " {:>4} ms", phase * 50));
    let bottleneck = fig9::varied(RTT, variant);
    for (application, rates) in APPLICATIONS.iter().zip(intermittent(&bottleneck, seed)) {
        _ = write!(text, "\n{:12}", application.name);
        for (phase, rate) in (0..PHASES).zip(rates) {
            let there = application.phases.contains(&phase);
            _ = if there { write!(text, " {rate:7.1}") } else { write!(text, "       -") };
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::net::bottleneck::{SHARES, part};
    use super::*;

    #[test]
    fn e8_applications_of_a_class_share_its_target_and_leave_others_alone() {
        for (variant, bound) in [(PRINTED, 0.125), (BY_TARGET, 0.05)] {
            check_phases(&fig9::varied(RTT, &variant), bound);
        }
    }

    /// Checks that classes stay within `bound` of their targets, and applications close to the
    /// others of their class.
    fn check_phases(bottleneck: &Bottleneck, bound: f64) {
        let rates = intermittent(bottleneck, 1);
        for phase in 0..PHASES {
            for (class, share) in SHARES.into_iter().enumerate() {
                let there = APPLICATIONS.iter().zip(&rates).filter(|(application, _)| {
                    application.class == class && application.phases.contains(&phase)
                });
                let there: Vec<f64> =
                    there.map(|(_, rates)| rates[usize::try_from(phase).unwrap()]).collect();
                let sum: f64 = there.iter().sum();
                let target = bottleneck.shared() / 1e9 * part(share);
                assert!((sum / target - 1.0).abs() < bound, "phase {phase}: {there:?} of {target}");
                let mean = sum / there.len() as f64;
                for rate in &there {
                    assert!((rate / mean - 1.0).abs() < 0.08, "phase {phase}: {there:?}");
                }
            }
        }
    }

    #[test]
    fn e8_qtcp_backs_off_from_dctcp_and_comes_back() {
        for law in [Law::Qtcp, Law::Interference] {
            let [before, beside, after] =
                interference(&fig9::bottleneck(RTT), law, 1).map(|[high, medium, low, dctcp]| {
                    assert!(high + medium + low + dctcp > 94.0, "the link is used");
                    (high + medium + low, dctcp, [high, medium, low])
                });
            assert!(beside.0 < 0.8 * before.0 && beside.1 > 20.0, "{before:?} {beside:?}");
            let [high, _, low] = beside.2;
            assert!(high > 1.3 * low, "{beside:?}");
            assert_eq!(after.1, 0.0);
            for (after, before) in after.2.iter().zip(before.2) {
                assert!((after / before - 1.0).abs() < 0.05, "{before:?} {after:?}");
            }
        }
    }
    #[test]
    fn e8_with_growth_by_target_classes_keep_their_ratio_beside_dctcp() {
        let [before, beside, after] = interference(&fig9::varied(RTT, &BY_TARGET), Law::Qtcp, 1);
        for [high, medium, low, dctcp] in [before, beside, after] {
            assert!(high + medium + low + dctcp > 94.0, "the link is used");
            let total = high + medium + low;
            for (rate, share) in [high, medium, low].into_iter().zip(SHARES) {
                assert!((rate / total / part(share) - 1.0).abs() < 0.05, "{high} {medium} {low}");
            }
        }
        assert!(beside[3] > 9.0 && after[3] == 0.0, "{beside:?} {after:?}");
    }
}
