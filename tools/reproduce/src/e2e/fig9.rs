//! Fig. 9 (docs/research/sources.md, E1): how soon the quality factors of three classes settle, for three
//! round-trip times.
//!
//! The source's figure is of one run, and its text says that Q "remained fairly stable within 0.95 to
//! 1". It is read in three ways here: Q of a class over ten round trips, by the mean rate of dozens of
//! runs; the same *in one run*; and, strictest, the Q that a flow's controller computes (Eq. 1) in each
//! round trip of one run. The last two are parts of a run's round trips, in the mean over the runs.
//!
//! All classes' Q can be 1 or less only if targets add up to no more than the link's throughput. So beside Eq. 5 as
//! printed ([`PRINTED`]), whose targets are parts of the link's capacity, there is a law whose targets are parts of the
//! throughput under that law ([`BY_TARGET`]).

use std::fmt::Write as _;

use crate::models::law::Growth;
use sluice_sim::claim::{Bound, Claim, Unit};

use super::CLASSES;
use crate::figure::{Made, Request};
use crate::net::bottleneck::Bottleneck;
use crate::net::scenario::{Run, Scenario};
use crate::net::time::MICRO;
use crate::plot::{self, Line};

/// The scenario of the figure.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-9.toml");
/// The round trips over which a quality factor is averaged.
const WINDOW: u64 = 10;
/// The distance from its mean within which Q counts as settled.
const BAND: f64 = 0.1;

/// Round-trip times in microseconds, and the round trips that Q takes to settle in the source.
const CASES: [(u64, &str); 3] = [(25, "50"), (62, "30..40"), (98, "30..40")];

/// A growth of windows, and the sum of targets.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    /// Whether growth is by target, whose targets are [`TARGETS`] of the payload that the link can carry; else
    /// both are as the scenario has them.
    by_target: bool,
}

/// The sum of targets with growth by target, which uses 98.7 % of the link and more.
const TARGETS: f64 = 0.975;

/// The variant of Eq. 5 as printed.
pub(super) const PRINTED: Variant = Variant { name: "Eq. 5", by_target: false };

/// The variant with growth by target.
pub(super) const BY_TARGET: Variant = Variant { name: "by target", by_target: true };

/// Both variants.
pub(super) const VARIANTS: [Variant; 2] = [PRINTED, BY_TARGET];

impl Variant {
    /// Reads a scenario, and makes this variant of it.
    pub(super) fn of(&self, text: &str) -> anyhow::Result<Scenario> {
        let mut scenario = Scenario::parse(text)?;
        if self.by_target {
            scenario.bottleneck.settings.growth = Growth::Target;
            scenario.bottleneck.targets = TARGETS;
        }
        Ok(scenario)
    }

    /// Makes the figure's scenario with another round-trip time.
    fn scenario(&self, micros: u64) -> anyhow::Result<Scenario> {
        let mut scenario = self.of(SCENARIO)?;
        scenario.bottleneck.rtt = micros * MICRO;
        Ok(scenario)
    }

    /// Makes the figure's bottleneck.
    pub(super) fn bottleneck(&self) -> anyhow::Result<Bottleneck> {
        Ok(self.of(SCENARIO)?.bottleneck)
    }
}

/// Counts the flows of each class, which are equally many.
pub(super) fn flows(scenario: &Scenario) -> u32 {
    scenario.classes.first().map_or(0, |class| class.flows)
}

/// Returns the number of runs whose mean is shown. At reduced length there are as many as round trips in 980 us, so
/// that equally many packets are counted for any round trip; else twice as many.
const fn runs(micros: u64, quick: bool) -> u64 {
    980 / micros * if quick { 1 } else { 2 }
}

/// The course of a class's quality factor.
#[derive(Debug)]
struct Course {
    /// The round trip from which Q, over the [`WINDOW`] round trips around it and by the mean rate
    /// of all runs, stays within [`BAND`] of its mean.
    settled: Option<u64>,
    /// The mean of Q from the round trip on that the source names.
    mean: f64,
    /// The least and the greatest Q from there on, over ten round trips.
    range: (f64, f64),
}

/// Computes the course of each class by the mean rate of all runs of one round-trip time.
fn courses(scenario: &Scenario, micros: u64, runs: &[Run]) -> [Course; 3] {
    let rtt = scenario.bottleneck.rtt;
    [0, 1, 2].map(|class| {
        let target = scenario.bottleneck.target(class);
        let rate = |from: u64, until: u64| {
            let of_run = |run: &Run| run.rate(class, from * rtt, until * rtt);
            runs.iter().map(of_run).sum::<f64>() / runs.len() as f64
        };
        let trips = scenario.warm + scenario.counted;
        course(&|from, until| target / rate(from, until), limit(micros), trips)
    })
}

/// Returns the round trip by which Q has settled in the source.
const fn limit(micros: u64) -> u64 {
    if micros < 50 { 50 } else { 40 }
}

fn course(quality: &dyn Fn(u64, u64) -> f64, limit: u64, trips: u64) -> Course {
    let starts = || 0..=trips.saturating_sub(WINDOW);
    let series: Vec<f64> = starts().map(|from| quality(from, from + WINDOW)).collect();
    let mean = quality(limit, trips);
    let outside = series.iter().rposition(|q| (q - mean).abs() > BAND);
    let first = starts().nth(outside.map_or(0, |at| at + 1));
    let after = starts().zip(&series).filter(|&(from, _)| from + WINDOW / 2 >= limit);
    let range = after.fold((f64::INFINITY, 0.0_f64), |(least, most), (_, &quality)| {
        (least.min(quality), most.max(quality))
    });
    Course { settled: first.map(|from| from + WINDOW / 2), mean, range }
}

/// Q in single runs, from the round trip on that the source names, for each class.
#[derive(Debug, Default)]
struct SingleRuns {
    /// The part of a run's round trips in which the Q of the class is within 0.95..1, over the [`WINDOW`]
    /// round trips from there on, in the mean over the runs.
    class: [f64; 3],
    /// The part of a run's round trips in which the Q that a flow's controller computes is within 0.95..1, in
    /// the mean over the flows of the class and over the runs.
    flow: [f64; 3],
    /// The course of the Q of the first flow of each class in the first run.
    lines: Vec<Line>,
}

/// Judges each run of one round-trip time by itself.
fn single_runs(scenario: &Scenario, micros: u64, runs: &[Run]) -> SingleRuns {
    let mut all = SingleRuns::default();
    for run in runs {
        let one = single_run(scenario, micros, run);
        let sums = all.class.iter_mut().zip(one.class).chain(all.flow.iter_mut().zip(one.flow));
        sums.for_each(|(sum, part)| *sum += part / runs.len() as f64);
        if all.lines.is_empty() {
            all.lines = one.lines;
        }
    }
    all
}

/// Judges one run.
fn single_run(scenario: &Scenario, micros: u64, ran: &Run) -> SingleRuns {
    let bottleneck = &scenario.bottleneck;
    let (rtt, trips) = (bottleneck.rtt, scenario.warm + scenario.counted);
    // As a controller computes it: the rate of each round trip, smoothed.
    let course = |flow: u32, target: f64| -> Vec<f64> {
        let mut smoothed: Option<f64> = None;
        let gamma = bottleneck.settings.gamma;
        let qualities = (0..trips).map(|trip| {
            let rate = ran.network.record().rate(flow as usize, trip * rtt, (trip + 1) * rtt);
            let rate = smoothed.map_or(rate, |before| gamma * before + (1.0 - gamma) * rate);
            smoothed = Some(rate);
            target / rate.max(1.0)
        });
        qualities.collect()
    };
    let settled = usize::try_from(limit(micros)).unwrap_or(0);
    let within = |course: &[f64]| {
        let after = course.get(settled..).unwrap_or_default();
        let inside = after.iter().filter(|quality| (0.95..=1.0).contains(*quality)).count();
        inside as f64 / after.len().max(1) as f64
    };
    let mut run = SingleRuns::default();
    let each = ran.classes.iter().enumerate().zip(&mut run.class).zip(&mut run.flow).zip(CLASSES);
    for ((((class, flows), of_class), of_flow), name) in each {
        let target = bottleneck.target(class);
        let count = flows.len().max(1) as f64;
        let over_ten = |from: u64| {
            let until = (from + WINDOW) * rtt;
            target / ran.rate(class, from * rtt, until).max(1.0)
        };
        *of_class = within(&(0..=trips.saturating_sub(WINDOW)).map(over_ten).collect::<Vec<f64>>());
        let of_each = |flow| course(flow, target / count);
        let courses: Vec<Vec<f64>> = flows.clone().map(of_each).collect();
        *of_flow = courses.iter().map(|course| within(course)).sum::<f64>() / count;
        let first = courses.into_iter().next().unwrap_or_default();
        let points =
            (0_u32..).map(f64::from).zip(first.into_iter().map(|quality| quality.min(3.0)));
        run.lines.push(Line { name: name.to_owned(), points: points.collect() });
    }
    run
}

/// The reason why Q is not within 0.95..1 in the mean, with Eq. 5 as printed.
pub(super) const PAST: &str = "Every flow grows by the same packet a round trip, and each congestion takes that \
    growth back from all of them; a flow with a small window must be further past its target to give \
    back as much. The smaller the windows, the further Low stays above its target and High below.";

/// The reason why Q of the worst class is hardly ever within 0.95..1 in one run, with Eq. 5 as printed.
const OUTSIDE: &str = "The mean Q of the class is outside 0.95..1 already, so that Q of one run is inside only while it \
    is away from its mean.";

/// The reason why Q is not within 0.95..1 in each round trip of one run.
const ONE_RUN: &str = "A flow's window is a few packets at 25 us and some dozens at 98 us, and \
    changes by a packet and more each round trip, and requests come at random: in one run Q moves \
    more than the source's band is wide, even over ten round trips. Only the mean is stable.";

/// Makes the figure.
///
/// # Errors
///
/// The scenario is wrong.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    let mut title = format!(
        "End-to-end QoS, Fig. 9 (E1): the quality factors of High, Medium and Low, offered 90, 60 and \
         30 Gb/s on 100.\n{} flows a class, K = 140 packets. In the mean: Q of a class over \
         {WINDOW} round trips and dozens of runs, which has\nsettled once it stays within {BAND} of \
         its mean. In one run: the part of round trips afterwards in which Q is in 0.95..1, of a class \
         over {WINDOW} round\ntrips, and of a flow in each, in the mean over the runs.\n\n\
         growth     RTT    class   settles after   Q, in the mean     in one run: class, flow\n",
        flows(&Scenario::parse(SCENARIO)?)
    );
    for (variant, names) in VARIANTS.iter().zip(PLOTS) {
        for ((micros, expected), file) in CASES.into_iter().zip(names) {
            let scenario = variant.scenario(micros)?;
            let simulate = |run| scenario.simulate(request.seed.wrapping_add(run));
            let runs: Vec<Run> = (0..runs(micros, request.quick)).map(simulate).collect();
            let courses = courses(&scenario, micros, &runs);
            let single = single_runs(&scenario, micros, &runs);
            let within = single.class.iter().zip(single.flow);
            for ((class, course), (of_class, of_flow)) in CLASSES.iter().zip(&courses).zip(within) {
                let settled = course.settled.map_or("never".to_owned(), |at| format!("{at} RTTs"));
                let (name, mean, (least, most)) = (variant.name, course.mean, course.range);
                // Writing to a string does not fail.
                let _ = writeln!(
                    title,
                    "{name:10} {micros} us  {class:7} {settled:13}   {mean:.3}, {least:.2}..{most:.2}   \
                     {:5.0} %  {:5.0} %",
                    of_class * 100.0,
                    of_flow * 100.0
                );
            }
            claims.extend(mean_claims(variant, micros, expected, &courses));
            claims.extend(single_run_claims(variant, micros, &single));
            let (title, x) = ("quality factor Q of a flow, one run", "round trips");
            plots.push((file, plot::lines(title, x, single.lines)));
        }
    }
    Ok(Made::of(&title, claims, plots))
}

/// The files of the plots: one for each variant and round-trip time.
const PLOTS: [[&str; 3]; 2] = [
    ["e2e-9a-printed", "e2e-9b-printed", "e2e-9c-printed"],
    ["e2e-9a-by-target", "e2e-9b-by-target", "e2e-9c-by-target"],
];

/// Claims of the mean of many runs.
fn mean_claims(
    variant: &Variant,
    micros: u64,
    expected: &str,
    courses: &[Course; 3],
) -> Vec<Claim> {
    let at = format!("{}, {micros} us", variant.name);
    let last = courses.iter().map(|course| course.settled.map_or(f64::INFINITY, |at| at as f64));
    let means = courses.each_ref().map(|course| course.mean);
    let settled = Claim::new(
        format!("{at}: all classes have settled after"),
        format!("{expected} RTTs"),
        last.fold(0.0, f64::max),
        Unit::Of(0, "RTTs"),
        Bound::AtMost(limit(micros) as f64),
    );
    let [least, most] =
        [("least", f64::min as fn(f64, f64) -> f64), ("greatest", f64::max)].map(|(which, of)| {
            let ours = means.into_iter().reduce(of).unwrap_or(f64::NAN);
            let (unit, bound) = (Unit::Of(3, ""), Bound::Between(0.95, 1.0));
            let what = format!("{at}, in the mean: {which} Q of a class");
            let claim = Claim::new(what, "0.95..1", ours, unit, bound);
            if variant.by_target { claim } else { claim.known(Bound::Between(0.9, 1.06), PAST) }
        });
    vec![settled, least, most]
}

/// Returns the bounds of the part of a run's round trips in which Q is in 0.95..1, known for the worst class and for
/// the best.
fn known_of_single_runs(by_target: bool, micros: u64) -> [Bound; 2] {
    let [worst, best] = match (by_target, micros) {
        (false, ..50) => [(0.04, 0.14), (0.42, 0.58)],
        (false, 50..80) => [(0.0, 0.12), (0.56, 0.76)],
        (false, _) => [(0.0, 0.06), (0.57, 0.78)],
        (true, ..50) => [(0.4, 0.58), (0.66, 0.82)],
        (true, 50..80) => [(0.55, 0.83), (0.77, 0.95)],
        (true, _) => [(0.48, 0.74), (0.68, 0.95)],
    };
    [worst, best].map(|(least, most)| Bound::Between(least, most))
}

/// Claims of the Q of classes in one run, in the mean over the runs.
fn single_run_claims(variant: &Variant, micros: u64, runs: &SingleRuns) -> [Claim; 2] {
    let [worst, best] = known_of_single_runs(variant.by_target, micros);
    let outside = if variant.by_target { ONE_RUN } else { OUTSIDE };
    let extremes = [
        ("worst", worst, outside, f64::min as fn(f64, f64) -> f64),
        ("best", best, ONE_RUN, f64::max),
    ];
    extremes.map(|(which, known, why, of)| {
        let ours = runs.class.into_iter().reduce(of).unwrap_or(f64::NAN);
        let what = format!("{}, {micros} us, one run: Q in 0.95..1, {which} class", variant.name);
        Claim::percent(what, "fairly stable", ours, Bound::AtLeast(0.95)).known(known, why)
    })
}
