//! Fig. 16 to 19 (docs/research/sources.md, H4): the capacity as it is estimated while it changes.

use crate::models::experiments::{AGGREGATE, Outcome};
use sluice_sim::claim::{Bound, Claim};
use sluice_sim::report::Chart;

use super::scenario;
use super::show::{least, lines, run, uniform};
use crate::figure::{Made, Request};

/// The period in which congestion begins or ends in the figures' scenarios.
pub(super) const CHANGE: usize = 15;

/// Returns what C1 has reserved.
fn reserved(run: &Outcome) -> f64 {
    run.reserved.first().copied().unwrap_or_default()
}

/// Makes the claim of a uniform run that C1 has its reservation in each period but the first.
fn keeps_reservation(run: &Outcome) -> Claim {
    Claim::percent(
        "uniform: least of C1, of its reservation",
        "met",
        least(run.completed(0..1).into_iter().skip(1)) / reserved(run),
        Bound::AtLeast(1.0),
    )
}

/// Runs a scenario with equal reservations, and as it is, with Zipf's.
fn both(scenario: &str, request: Request) -> anyhow::Result<[Outcome; 2]> {
    let set_up = scenario::read(scenario)?.experiment;
    Ok([run(&uniform(&set_up), request)?, run(&set_up, request)?])
}

/// Counts the steps from one number to the next in which they do not fall.
fn not_falling(numbers: &[f64]) -> f64 {
    numbers.windows(2).filter(|two| matches!(two, [before, after] if after >= before)).count()
        as f64
}

/// Makes a line over the periods.
fn over_time(name: &str, numbers: &[f64]) -> (String, Vec<(f64, f64)>) {
    (name.to_owned(), (0_u32..).zip(numbers).map(|(at, ios)| (f64::from(at), *ios)).collect())
}

/// Makes the plot of throughput and estimate.
fn throughput(run: &Outcome) -> Chart {
    lines(
        "all clients: thousand I/Os in a period",
        "period",
        vec![
            over_time("completed", &run.completed(0..10)),
            over_time("estimated capacity", &run.estimates()),
        ],
    )
}

/// Makes the plot of C1.
fn first_client(run: &Outcome) -> Chart {
    let done = run.completed(0..1);
    lines(
        "C1: thousand I/Os in a period",
        "period",
        vec![
            over_time("reserved", &vec![reserved(run); done.len()]),
            over_time("completed", &done),
        ],
    )
}

/// Makes Fig. 16: congestion begins.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn sixteen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-16.toml");
    let [uniform, zipf] = both(scenario, request)?;
    let mut claims = Vec::new();
    for (name, run) in [("uniform", &uniform), ("Zipf", &zipf)] {
        let (before, after) = (run.mean(0..10, 8..15), run.mean(0..10, 20..35));
        let falls = Claim::percent(
            format!("{name}: throughput from period 20 on, of before"),
            "falls",
            after / before,
            Bound::AtMost(0.96),
        );
        claims.push(falls);
        let estimates = run.estimates();
        let falling = estimates.get(CHANGE + 1..=CHANGE + 5).unwrap_or_default();
        claims.push(Claim::count(
            format!("{name}: periods 17 to 20 where the estimate stays"),
            "none",
            not_falling(falling),
            Bound::AtMost(0.0),
        ));
        let settled = estimates.get(CHANGE + 6).copied().unwrap_or_default();
        claims.push(Claim::percent(
            format!("{name}: the estimate of period 21, of the completed I/Os"),
            "stabilizes",
            settled / after,
            Bound::Near(1.0, 0.03),
        ));
    }
    let title = "Haechi, Fig. 16 (H4): from period 15 on, background jobs take a ninth of the data node \
                 at most;\n80 % are reserved";
    Ok(Made::of(
        title,
        claims,
        [("haechi-16a", throughput(&uniform)), ("haechi-16b", throughput(&zipf))],
    ))
}

/// Makes Fig. 17: C1 in the runs of Fig. 16.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn seventeen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-17.toml");
    let [uniform, zipf] = both(scenario, request)?;
    let (before, first) = (zipf.mean(0..1, 8..15), zipf.mean(0..1, 15..17));
    let last = zipf.mean(0..1, 27..35);
    let drop = uniform.mean(0..1, 20..35) / uniform.mean(0..1, 8..15);
    let claims = vec![
        Claim::percent(
            "uniform: C1 from period 20 on, of before",
            "drops",
            drop,
            Bound::AtMost(0.96)),
        keeps_reservation(&uniform),
        Claim::percent(
            "Zipf: C1 when congestion begins, of before",
            "drops",
            first / before,
            Bound::AtMost(0.97)),
        Claim::percent(
            "Zipf: C1 from period 27 on, of when it began",
            "more, gradually",
            last / first,
            Bound::AtLeast(1.03)),
        Claim::percent(
            "Zipf: C1 from period 27 on, of its reservation",
            "met",
            last / reserved(&zipf),
            Bound::AtLeast(1.0))
        .known(
            Bound::Within(0.85, 0.04),
            "C1's reservation with 80 % reserved is out of its reach without congestion too: see\n    \
             haechi-9. It loses when congestion begins, and gains as the estimate falls.",
        ),
    ];
    let title =
        "Haechi, Fig. 17 (H4): C1, whose reservation is the largest, in the runs of Fig. 16";
    Ok(Made::of(
        title,
        claims,
        [("haechi-17a", first_client(&uniform)), ("haechi-17b", first_client(&zipf))],
    ))
}

/// Makes Fig. 18: congestion ends.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn eighteen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-18.toml");
    let [uniform, zipf] = both(scenario, request)?;
    let mut claims = Vec::new();
    for (name, run) in [("uniform", &uniform), ("Zipf", &zipf)] {
        let estimates = run.estimates();
        let growing = estimates.get(CHANGE + 1..=CHANGE + 8).unwrap_or_default();
        let steps: Vec<f64> = growing
            .windows(2)
            .filter_map(|two| match two {
                [before, after] => Some((after - before) / AGGREGATE as f64),
                _ => None,
            })
            .collect();
        claims.push(Claim::percent(
            format!("{name}: least step of the estimate, periods 17 to 23"),
            "an increment",
            least(steps),
            Bound::Within(0.01, 0.0002),
        ));
        let (during, after) = (run.mean(0..10, 8..15), run.mean(0..10, 25..35));
        claims.push(Claim::percent(
            format!("{name}: throughput from period 25 on, of before"),
            "increases",
            after / during,
            Bound::AtLeast(1.05),
        ));
        let at_once = (run.mean(0..10, 16..18) - during) / (after - during);
        claims.push(
            Claim::percent(
                format!("{name}: part of the increase after two periods"),
                "gradually",
                at_once,
                Bound::AtMost(0.6))
            .known(
                Bound::AtLeast(0.85),
                "Conversion sets the pool to the estimate for the remaining time, regardless of\n    \
                 completed I/Os, so that the pool of a node that does more than estimated does not run dry.",
            ),
        );
    }
    let title = "Haechi, Fig. 18 (H4): background jobs until period 15; 80 % are reserved";
    Ok(Made::of(
        title,
        claims,
        [("haechi-18a", throughput(&uniform)), ("haechi-18b", throughput(&zipf))],
    ))
}

/// Makes Fig. 19: C1 in the runs of Fig. 18.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn nineteen(request: Request) -> anyhow::Result<Made> {
    let scenario = include_str!("../../../scenarios/haechi-19.toml");
    let [uniform, zipf] = both(scenario, request)?;
    let gain = |run: &Outcome, clients: core::ops::Range<usize>| {
        run.mean(clients.clone(), 20..30) / run.mean(clients, 8..14)
    };
    let claims = vec![
        keeps_reservation(&uniform),
        Claim::percent(
            "uniform: C1 from period 20 on, of before",
            "more",
            gain(&uniform, 0..1),
            Bound::AtLeast(1.05),
        ),
        Claim::percent(
            "Zipf: C1 from period 20 on, of before",
            "no more",
            gain(&zipf, 0..1),
            Bound::Near(1.0, 0.03),
        ),
        Claim::percent(
            "Zipf: C9 and C10 from period 20 on, of before",
            "more",
            gain(&zipf, 8..10),
            Bound::AtLeast(1.1),
        ),
        Claim::percent(
            "Zipf: C1 before congestion ends, of its reservation",
            "met",
            zipf.mean(0..1, 8..14) / reserved(&zipf),
            Bound::AtLeast(1.0),
        )
        .known(
            Bound::Within(0.85, 0.04),
            "C1's reservation with 80 % reserved is out of its reach: see haechi-9.",
        ),
    ];
    let title =
        "Haechi, Fig. 19 (H4): C1, whose reservation is the largest, in the runs of Fig. 18";
    Ok(Made::of(
        title,
        claims,
        [("haechi-19a", first_client(&uniform)), ("haechi-19b", first_client(&zipf))],
    ))
}
