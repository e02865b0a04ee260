//! Fig. 13 to 15 (docs/research/sources.md, H5): bursts against a constant rate.

use std::fmt::Write as _;

use crate::models::experiments::{AGGREGATE, Latencies, Outcome};
use sluice_sim::claim::{Bound, Claim};

use super::scenario;
use super::show::{THIRTY, bars, by_client, in_30_s, least, most, paced, run};
use crate::figure::{Made, Request};

/// Runs a scenario in bursts and at a constant rate.
fn both(scenario: &str, request: Request) -> anyhow::Result<[Outcome; 2]> {
    let set_up = scenario::read(scenario)?.experiment;
    Ok([run(&paced(&set_up, false), request)?, run(&paced(&set_up, true), request)?])
}

/// Makes Fig. 13: what clients have of the spike reservation.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn thirteen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-13.toml");
    let outcomes = both(scenario, request)?;
    let met = |outcome: &Outcome| -> Vec<f64> {
        let each = outcome.means.iter().zip(&outcome.reserved);
        each.map(|(mean, reserved)| mean / reserved).collect()
    };
    let [burst, constant] = outcomes.each_ref().map(met);
    let first = |met: &[f64]| met.iter().take(3).copied().collect::<Vec<f64>>();
    let rest = |met: &[f64]| least(met.iter().skip(3).copied());
    let whole = Bound::AtLeast(0.995);
    let claims = vec![
        Claim::percent(
            "bursts: C1 to C3, of their reservation",
            "not met",
            most(first(&burst)),
            Bound::AtMost(0.98),
        ),
        Claim::percent(
            "constant rate: C1 to C3, of their reservation",
            "more than met",
            least(first(&constant)),
            Bound::AtLeast(1.05),
        ),
        Claim::percent("bursts: C4 to C10, of theirs", "met", rest(&burst), whole),
        Claim::percent("constant rate: C4 to C10, of theirs", "met", rest(&constant), whole),
    ];
    let [burst, constant] = &outcomes;
    let reserved = burst.reserved.iter().map(|reserved| reserved * THIRTY).collect();
    let plot = by_client(
        "spike reservation: thousand I/Os in 30 s",
        &[("reserved", reserved), ("bursts", in_30_s(burst)), ("constant rate", in_30_s(constant))],
    );
    let title = "Haechi, Fig. 13 (H5): 285 K reserved for C1 to C3 and 80 K for the others (90 %)";
    Ok(Made::of(title, claims, [("haechi-13", plot)]))
}

/// Makes Fig. 14: the throughput of the runs of Fig. 13.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn fourteen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-14.toml");
    let [burst, constant] = both(scenario, request)?.map(|outcome| outcome.total);
    let drop = |total: f64| 1.0 - total / AGGREGATE as f64;
    let claims = vec![
        Claim::percent(
            "bursts: throughput that is lost",
            "12.9 %",
            drop(burst),
            Bound::Within(0.129, 0.02),
        ),
        Claim::percent(
            "constant rate: throughput that is lost",
            "0.7 %",
            drop(constant),
            Bound::Within(0.007, 0.01),
        ),
    ];
    let groups = ["bursts", "constant rate"].map(str::to_owned).to_vec();
    let plot = bars("thousand I/Os per second", groups, &[("Haechi", vec![burst, constant])]);
    let title = "Haechi, Fig. 14 (H5): throughput with the spike reservation, of 1570 K";
    Ok(Made::of(title, claims, [("haechi-14", plot)]))
}

/// Makes Fig. 15: the latencies of the runs of Fig. 13.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn fifteen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-15.toml");
    let [burst, constant] = both(scenario, request)?.map(|outcome| outcome.latencies);
    let kinds = |of: &Latencies| [of.mean, of.p99, of.p999].map(|time| time.as_secs_f64() * 1e6);
    let (burst, constant) = (kinds(&burst), kinds(&constant));
    let names = ["mean", "99 %", "99.9 %"];
    let each = names.iter().zip(burst.iter().zip(&constant));
    let mut title = "Haechi, Fig. 15 (H5): latencies with the spike reservation, from the start of an I/O to\n\
                     its completion (the paper prints no numbers, and may count the wait for a token)"
        .to_owned();
    let claims: Vec<Claim> = each
        .map(|(name, (burst, constant))| {
            // Writing to a string does not fail.
            let _ = write!(
                title,
                "\n{name}: {burst:.0} us in bursts, {constant:.0} us at a constant rate"
            );
            let what = format!("{name}: at a constant rate, of that in bursts");
            let less = Bound::AtMost(0.75);
            Claim::times(what, "far lower", constant / burst, less)
        })
        .collect();
    // Heights are shown in thousands.
    let nanos = |micros: [f64; 3]| micros.map(|micros| micros * 1e3).to_vec();
    let groups = names.map(str::to_owned).to_vec();
    let series = [("bursts", nanos(burst)), ("constant rate", nanos(constant))];
    let plot = bars("latency of I/Os in us", groups, &series);
    Ok(Made::of(&title, claims, [("haechi-15", plot)]))
}
