//! Fig. 5 (docs/research/sources.md, E5 and E12): how long a drive and persistent memory take, here and over the network.
//! Whole targets, with one host at a time.
//!
//! The source measured a drive of its own beside its simulator's. No drive is measured here: our rows are from the
//! simulated one, whose properties were chosen for the source's range.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim, Unit};
use sluice_sim::network::RateControl;

use super::fig23::TURNS;
use super::pm::with;
use super::series;
use crate::figure::{Made, Request};
use crate::plot;
use crate::whole::{self, Latency, PERCENTS};

/// The scenario of the figure.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-5.toml");

/// The latencies of a host: in all, and in the device.
#[derive(Clone, Copy, Debug)]
struct Waits {
    whole: Latency,
    device: Latency,
}

/// Runs the host of that name alone.
fn alone(scenario: &str, name: &str, request: Request) -> anyhow::Result<Waits> {
    let measured = whole::measure(scenario, true, request, |plan| {
        plan.hosts.retain(|host| host.name == name);
        whole::over_rdma(plan, "PM", RateControl::Line);
    })?;
    let whole = whole::latency(&measured, name, Duration::ZERO)?;
    Ok(Waits { whole, device: whole::in_device(&measured, name)? })
}

/// The reason why persistent memory takes longer than the source's at the endpoint.
const NOTICED: &str = "Until a reactor's turn takes the completion, as the target's own statistics count it: half a \
    microsecond beside the 300 to 800 ns of the memory.";

/// Makes Fig. 5.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let near = with(SCENARIO, "delay = \"200 ns\"", "delay = \"0 ns\"")?;
    let near = with(&near, "rate = \"100 Gbit/s\"", "rate = \"1000 Gbit/s\"")?;
    let here = alone(&near, "Drive", request)?.whole;
    let there = alone(SCENARIO, "Drive", request)?.whole;
    let pm = alone(SCENARIO, "PM", request)?;
    let us = Unit::Of(1, "us");
    let mut claims = Vec::new();
    for (percent, ours) in PERCENTS.iter().zip(here.percentiles) {
        let what = format!("(a) a drive, here: {percent}");
        claims.push(Claim::new(what, "40..90 us", ours, us, Bound::Between(40.0, 90.0)));
    }
    let more = there.mean - here.mean;
    let what = "(a) a drive, over the network: mean, more than here";
    claims.push(Claim::new(what, "more", more, us, Bound::AtLeast(0.1)));
    let what = "(b) persistent memory, at the endpoint: mean";
    let mean = pm.device.mean;
    let claim = Claim::new(what, "< 0.9 us", mean, Unit::Of(2, "us"), Bound::AtMost(0.9));
    claims.push(claim.known(Bound::Within(1.2, 0.1), NOTICED));
    for (percent, ours) in PERCENTS.iter().zip(pm.whole.percentiles) {
        let what = format!("(b) persistent memory, over the network: {percent}");
        let claim = Claim::new(what, "3..4 us", ours, us, Bound::Between(3.0, 4.0));
        claims.push(claim.known(Bound::Between(4.0, 4.8), TURNS));
    }
    let mut title = "End-to-end QoS, Fig. 5 (E5, E12): p50, p90 and p99 in us of reads of 4 to 64 KiB from a drive, \
         one at a time,\nand of accesses to persistent memory:\n"
        .to_owned();
    let rows = [
        ("the drive, here", here),
        ("the drive, over the network", there),
        ("persistent memory, in the device", pm.device),
        ("persistent memory, over the network", pm.whole),
    ];
    for (name, of) in &rows {
        _ = writeln!(title, "{name}: {}; mean {:.2}", series(&of.percentiles), of.mean);
    }
    let bars = |some: [(&str, Latency); 2], title: &str| {
        plot::bars(title, PERCENTS, some.map(|(name, of)| (name, of.percentiles)))
    };
    let [a, b, c, d] = rows;
    let plots = [
        ("e2e-5a", bars([a, b], "us that a read from a drive takes")),
        ("e2e-5b", bars([c, d], "us that an access to persistent memory takes")),
    ];
    Ok(Made::of(&title, claims, plots))
}
