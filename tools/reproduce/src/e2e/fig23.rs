//! Fig. 23 (docs/research/sources.md, E12): tail latencies of persistent memory and of the writes of Fig. 16 beside it,
//! with switches that send Urgent first and without. A whole target, with the daemon's stage.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim, Unit};

use super::pm::with;
use super::series;
use crate::figure::{Made, Request};
use crate::plot;
use crate::whole::{self, Latency, PERCENTS};

/// The scenario of the figure: the writes of Fig. 16 and 17, with the cables of Fig. 20. Longer ones leave no room
/// for an access of 3 to 4 us.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-23.toml");

/// The applications of [`SCENARIO`], and their classes.
const APPS: [(&str, &str); 3] = [("App1", "High"), ("App2", "Medium"), ("App3", "Low")];

/// The latencies of persistent memory, and of High, Medium and Low.
struct Latencies {
    pm: Latency,
    classes: [Latency; 3],
}

fn latencies(first: bool, request: Request) -> anyhow::Result<Latencies> {
    let scenario = with(SCENARIO, "urgent_first = true", &format!("urgent_first = {first}"))?;
    let measured = whole::measure(&scenario, true, request, |_| ())?;
    let of = |name| whole::latency(&measured, name, Duration::ZERO);
    let [high, medium, low] = APPS.map(|(app, _)| of(app));
    Ok(Latencies { pm: of("PM")?, classes: [high?, medium?, low?] })
}

/// Makes Fig. 23.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let first = latencies(true, request)?;
    let in_turn = latencies(false, request)?;
    let mut claims = Vec::new();
    let us = Unit::Of(1, "us");
    for (percent, ours) in PERCENTS.iter().zip(first.pm.percentiles) {
        let of = format!("PM, Urgent first: {percent}");
        let claim = Claim::new(of, "3..4 us", ours, us, Bound::Between(3.0, 4.0));
        claims.push(claim.known(Bound::Between(4.0, 4.8), TURNS));
    }
    let known = [16.0, 21.2, 27.5];
    for ((percent, ours), known) in PERCENTS.iter().zip(in_turn.pm.percentiles).zip(known) {
        let of = format!("PM, in turn: {percent}");
        let claim = Claim::new(of, "17..23 us", ours, us, Bound::Between(17.0, 23.0));
        claims.push(claim.known(Bound::Near(known, 0.2), QUEUES));
    }
    let tail = |of: Latency| of.percentiles.last().copied().unwrap_or(f64::NAN);
    let better = 1.0 - tail(first.pm) / tail(in_turn.pm);
    let of = "PM, 99 %: shorter with Urgent first";
    claims.push(Claim::percent(of, "83 %", better, Bound::Within(0.83, 0.05)));
    let sources = [
        ("10 to 11 ms: 1.10 x", 1.0, 1.2),
        ("13 to 15.3 ms: 1.18 x", 1.08, 1.28),
        ("slightly longer", 1.0, 1.28),
    ];
    let ninety = |of: &Latency| of.percentiles.get(1).copied().unwrap_or(f64::NAN);
    for (place, (source, least, most)) in sources.into_iter().enumerate() {
        let (Some((_, class)), Some(with), Some(without)) =
            (APPS.get(place), first.classes.get(place), in_turn.classes.get(place))
        else {
            continue;
        };
        let ours = ninety(with) / ninety(without);
        let of = format!("{class}: 90 % with Urgent first, of without");
        let claim = Claim::times(of, source, ours, Bound::Between(least, most));
        claims.push(claim.known(Bound::Between(0.9, least), SMALL));
    }
    for (kind, of) in [("Urgent first", &first), ("in turn", &in_turn)] {
        let [high, medium, low] = of.classes.map(|of| ninety(&of));
        for (what, ours) in [("High, of Medium", high / medium), ("Medium, of Low", medium / low)] {
            let what = format!("{kind}, 90 %: {what}");
            claims.push(Claim::times(what, "maintained", ours, Bound::AtMost(0.95)));
        }
    }
    let mut title =
        "End-to-end QoS, Fig. 23 (E12): writes of three classes (40 Gb/s each, a link of 100) beside \
         accesses to persistent memory,\nthe daemon. p50, p90 and p99 in us:\n"
            .to_owned();
    let mut plots = Vec::new();
    for (of, kind, file) in [(&first, "Urgent first", "e2e-23c"), (&in_turn, "in turn", "e2e-23b")]
    {
        _ = writeln!(title, "{kind}: PM {}", series(&of.pm.percentiles));
        let mut bars = Vec::new();
        for ((_, class), latency) in APPS.iter().zip(&of.classes) {
            _ = writeln!(title, "{kind}: {class} {}", series(&latency.percentiles));
            bars.push((*class, latency.percentiles.map(|us| us / 1e3)));
        }
        plots.push((file, plot::bars(&format!("ms that a write takes, {kind}"), PERCENTS, bars)));
    }
    let bars = [("Urgent first", &first), ("in turn", &in_turn)]
        .map(|(name, of)| (name, of.pm.percentiles));
    let chart = plot::bars("us that an access to persistent memory takes", PERCENTS, bars);
    plots.push(("e2e-23a", chart));
    Ok(Made::of(&title, claims, plots))
}

/// The reason why some accesses take a little longer than the source's.
pub(super) const TURNS: &str = "A reactor takes half a microsecond for a turn, and an access \
    two turns: an access that comes during a turn waits for its end.";

/// The reason why the queue is not the source's.
const QUEUES: &str = "Congestion control holds the queue about the threshold: 140 packets, which take 17 us of \
    the link. It is shorter for half of the accesses, and longer after bursts.";

/// The reason why writes do not take longer.
const SMALL: &str = "Urgent's share of the link is the same with its own queue and without: the \
    order of packets moves a write by microseconds, and writes take milliseconds.";
