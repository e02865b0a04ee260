//! Fig. 7a (docs/research/sources.md, E5): three applications at a drive, which neither protocol nor drive tells
//! apart, which the protocol does, and which both do. The protocol is a whole target, the daemon's, over a
//! network that takes no time.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim, Unit};

use super::pm::with;
use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::plot;
use crate::whole;

/// The scenario of the figure.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-7.toml");

/// Returns a scenario without classes, with classes in the protocol, and in the drive, too.
///
/// # Errors
///
/// The scenario has no keys for it.
pub(super) fn scenarios(scenario: &str) -> anyhow::Result<[String; 3]> {
    let protocol = with(scenario, "[qos]\nenabled = false", "[qos]\nenabled = true")?;
    let both = with(&protocol, "order = \"arrival\"", "order = \"classes\"")?;
    Ok([scenario.to_owned(), protocol, both])
}

/// Means of High, Medium and Low.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// Latencies in us.
    pub(super) latencies: [f64; 3],
    /// Times before the drive, as the target's own statistics have them, in us.
    pub(super) waits: [f64; 3],
}

/// Computes the means of High, Medium and Low.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn means(scenario: &str, request: Request) -> anyhow::Result<Means> {
    let measured = whole::measure(scenario, false, request, |_| ())?;
    let [high, medium, low] =
        CLASSES.map(|class| whole::latency(&measured, class, Duration::ZERO).map(|of| of.mean));
    let waits = CLASSES.map(|class| whole::before_device(&measured, class));
    Ok(Means { latencies: [high?, medium?, low?], waits })
}

/// Makes Fig. 7a.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let scenarios = ["1", "2", "3"].into_iter().zip(scenarios(SCENARIO)?);
    let mut title =
        "End-to-end QoS, Fig. 7a (E5): mean latencies of High, Medium and Low at a drive, in us:\n"
            .to_owned();
    let mut all = Vec::new();
    for (name, scenario) in scenarios {
        let Means { latencies, waits } = means(&scenario, request)?;
        let waits = series(&waits);
        _ = writeln!(title, "scenario {name}: {}; before the drive: {waits}", series(&latencies));
        all.push((name, latencies));
    }
    let mut claims = Vec::new();
    let us = Unit::Of(1, "us");
    if let [(_, one), (_, two), (_, three)] = all.as_slice() {
        let [high, medium, low] = *one;
        for (class, ours, source, bound, known) in [
            ("High", high, "> 85 us", Bound::AtLeast(85.0), 85.0),
            ("Medium", medium, "< 70 us", Bound::AtMost(70.0), 77.0),
            ("Low", low, "< 40 us", Bound::AtMost(40.0), 60.0),
        ] {
            let claim = Claim::new(format!("1, no classes: {class}"), source, ours, us, bound);
            claims.push(claim.known(Bound::Near(known, 0.2), TRACES));
        }
        let [high_2, medium_2, low_2] = *two;
        let (reduced, worse) = (Bound::AtMost(0.98), Bound::AtLeast(1.02));
        for (what, ours, source, bound) in [
            ("High, of scenario 1", high_2 / high, "reduced", reduced),
            ("Medium, of scenario 1", medium_2 / medium, "reduced", reduced),
            ("Low, of scenario 1", low_2 / low, "worse", worse),
            ("High, of Medium", high_2 / medium_2, "still worse", worse),
        ] {
            let claim = Claim::times(format!("2, the daemon: {what}"), source, ours, bound);
            claims.push(claim.known(Bound::Between(0.98, 1.02), BURSTS));
        }
        let [high_3, medium_3, low_3] = *three;
        for (class, ours, source, known) in
            [("High", high_3, 50.0, 95.0), ("Medium", medium_3, 60.0, 80.0)]
        {
            let what = format!("3, the daemon and the drive: {class}");
            let claim = Claim::new(
                what,
                format!("close to {source} us"),
                ours,
                us,
                Bound::Near(source, 0.15),
            );
            claims.push(claim.known(Bound::Near(known, 0.2), BURSTS));
        }
        let what = "3, the daemon and the drive: Low, of scenario 1";
        claims.push(Claim::times(what, "worse", low_3 / low, worse));
    }
    let bars = all.iter().map(|(name, means)| (format!("scenario {name}"), *means));
    let chart = plot::bars("us that a read takes, mean", CLASSES, bars);
    Ok(Made::of(&title, claims, [("e2e-7a", chart)]))
}

/// The reason why the first scenario's numbers are not the source's.
const TRACES: &str = "The traces are not here, and sizes and bursts were chosen: a read of 4 KiB takes 41 us on \
    the drive alone, and bursts of others come on top.";

/// The reason why classes change little.
const BURSTS: &str = "Hardly any command waits in the target, where the order of classes is: the \
    window holds 128 commands. High waits in the drive for its own bursts, which no order of \
    classes makes shorter. A window of 16 raises all three medians, most of all the median of High \
    (from 87 to 142 us): 62 % of the commands are its own, and its weight is half of all.";
