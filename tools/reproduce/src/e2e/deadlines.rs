//! Fig. 15b (docs/research/sources.md, E9) on whole targets: transfers with deadlines, with DCTCP and with the daemon's
//! stage. [`fig15`](super::fig15) has laws of windows on the same link.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim};
use sluice_sim::model::Plan;

use super::pm::with;
use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::plot;
use crate::whole;

/// The scenario: the stressed situation.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-15.toml");
/// The deadlines of High, Medium and Low in ms.
pub(super) const LATE: [u64; 3] = [5, 6, 8];

/// Returns the scenario in the normal situation: High and Medium are 10 and 20 % of the load.
fn normal() -> anyhow::Result<String> {
    let mut rates = ["8 Gbit/s", "16 Gbit/s", "56 Gbit/s"].into_iter();
    let mut parts = SCENARIO.split("26.7 Gbit/s");
    let mut scenario = parts.next().unwrap_or_default().to_owned();
    for (part, rate) in parts.zip(rates.by_ref()) {
        scenario = scenario + rate + part;
    }
    anyhow::ensure!(rates.next().is_none(), "the scenario has a load for each class");
    with(&scenario, "Fig. 15b", "Fig. 15b, normal")
}

/// The runs that are added up, each with a seed of its own: which transfers meet is chance, and a run has about
/// a thousand of them.
const SEEDS: u64 = 4;

/// The parts of the transfers of High, Medium and Low that miss their deadlines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Misses {
    /// Of each class, in all runs.
    classes: [f64; 3],
    /// The least and the most that a run had, in the mean of its classes.
    spread: (f64, f64),
}

impl Misses {
    /// Runs a scenario with several seeds, as [`whole::measure`] does.
    ///
    /// # Errors
    ///
    /// A run cannot be made.
    pub(super) fn over_seeds(
        scenario: &str,
        daemon: bool,
        request: Request,
        change: impl Fn(&mut Plan),
    ) -> anyhow::Result<Self> {
        let (mut late, mut done) = ([0.0; 3], [0.0; 3]);
        let mut spread = (f64::MAX, 0.0_f64);
        for place in 0..SEEDS {
            let seed = request.seed.wrapping_mul(SEEDS).wrapping_add(place);
            let measured = whole::measure(scenario, daemon, Request { seed, ..request }, &change)?;
            let mut mean = 0.0;
            for (class, name) in CLASSES.iter().enumerate() {
                let Some(limit) = LATE.get(class) else { continue };
                let of = whole::latency(&measured, name, Duration::from_millis(*limit))?;
                if let (Some(late), Some(done)) = (late.get_mut(class), done.get_mut(class)) {
                    *late += of.late * of.done as f64;
                    *done += of.done as f64;
                }
                mean += of.late / 3.0;
            }
            spread = (spread.0.min(mean), spread.1.max(mean));
        }
        let mut classes = late;
        classes.iter_mut().zip(done).for_each(|(late, done)| *late /= done);
        Ok(Self { classes, spread })
    }

    /// Returns the mean of the classes.
    pub(super) fn mean(&self) -> f64 {
        self.classes.iter().sum::<f64>() / 3.0
    }

    /// Returns the classes' parts in per cent.
    pub(super) fn percent(&self) -> [f64; 3] {
        self.classes.map(|part| part * 100.0)
    }

    /// Writes the classes' parts in per cent, and what runs had.
    pub(super) fn text(&self) -> String {
        let (least, most) = self.spread;
        let classes = series(&self.percent());
        format!("{classes} (runs: {:.1} to {:.1} in the mean)", least * 100.0, most * 100.0)
    }
}

/// Makes Fig. 15b on whole targets.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let mut title = "Whole targets, with writes: per cent of High, Medium and Low that take longer than 5, 6 and \
         8 ms\n"
        .to_owned();
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    let normal = normal()?;
    let situations = [
        (
            "normal",
            normal.as_str(),
            "e2e-15b-normal-target",
            [("5..8 %", Bound::Between(0.05, 0.08)), ("about 0 %", Bound::AtMost(0.005))],
            Bound::Between(0.033, 0.077),
        ),
        (
            "stressed",
            SCENARIO,
            "e2e-15b-stressed-target",
            [("30..65 %", Bound::Between(0.3, 0.65)), ("15..18 %", Bound::Between(0.15, 0.18))],
            Bound::Between(0.05, 0.084),
        ),
    ];
    for (situation, scenario, file, sources, known) in situations {
        let mut bars = Vec::new();
        for ((name, daemon), (source, bound)) in
            [("DCTCP", false), ("the daemon", true)].into_iter().zip(sources)
        {
            let of = Misses::over_seeds(scenario, daemon, request, |_| ())?;
            _ = writeln!(title, "{situation}, {name}: {}", of.text());
            let what = format!("whole target, {situation}, {name}: a class's transfers that miss");
            let claim = Claim::percent(what, source, of.mean(), bound);
            claims.push(claim.known(known, LIMITS));
            bars.push((name, of.percent()));
        }
        let title =
            format!("{situation}, whole target: per cent of transfers that miss their deadline");
        plots.push((file, plot::bars(&title, CLASSES, bars)));
    }
    Ok(Made::of(&title, claims, plots))
}

/// The reason why misses are not the source's.
const LIMITS: &str = "The daemon's effect cannot appear here. It keeps a class's latency by \
    holding back classes without a latency, and all three have one. So it limits no class, even \
    with goals of 110 us or a load beyond the link, and its numbers equal DCTCP's. The device is \
    memory that takes no time, so that no commands wait for classes to order. How many transfers \
    are late depends on how they meet at 80 % of the link: four runs are added up, which differ by \
    more than the two situations (2 to 15 % are late).";
