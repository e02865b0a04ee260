//! Fig. 6 to 8 (docs/research/sources.md, H5): the system without Haechi.

use crate::models::experiments::{AGGREGATE, CLIENTS, Demand, Experiment, LOCAL, Outcome};
use sluice_sim::claim::{Bound, Claim};

use super::scenario;
use super::show::{by_client, least, lines, most, paced, run};
use crate::figure::{Made, Request};

/// Periods of the profile; the paper has 1000.
const PROFILED: usize = 20;

/// Makes Fig. 6: the throughput of each client alone.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn six(request: Request) -> anyhow::Result<Made> {
    let set_up = scenario::read(include_str!("../../../scenarios/haechi-6.toml"))?.experiment;
    let alone = run(&set_up, request)?.total;
    let near = Bound::Near(LOCAL as f64, 0.005);
    let claims = vec![Claim::kilo("one client alone (C_L)", "around 400 K", alone, near)];
    let plot = by_client(
        "thousand I/Os per second of each client alone",
        &[("one-sided", vec![alone; CLIENTS])],
    );
    let title = "Haechi, Fig. 6 (H5): throughput of one client alone; ten clients that do not \
                 differ here.\n\
                 The paper's two-sided I/Os, which take the data node's processor, are not modelled.";
    Ok(Made::of(title, claims, [("haechi-6", plot)]))
}

/// Makes Fig. 7: the throughput of 1 to 10 clients together, and the profile of the data node.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn seven(request: Request) -> anyhow::Result<Made> {
    let set_up = scenario::read(include_str!("../../../scenarios/haechi-7.toml"))?.experiment;
    let mut totals = Vec::new();
    for count in 1..=set_up.clients.len() {
        let clients = set_up.clients.iter().copied().take(count).collect();
        totals.push(run(&Experiment { clients, ..set_up.clone() }, request)?.total);
    }
    let mut claims: Vec<Claim> = (1_u32..)
        .zip(&totals)
        .map(|(clients, total)| {
            let alone = f64::from(clients) * LOCAL as f64;
            let (paper, expected) = match clients {
                ..4 => ("linear", alone),
                _ => ("1570 K", AGGREGATE as f64),
            };
            let plural = if clients == 1 { "" } else { "s" };
            let what = format!("{clients} client{plural} together");
            Claim::kilo(what, paper, *total, Bound::Near(expected, 0.005))
        })
        .collect();
    let long = run(&Experiment { periods: PROFILED, ..set_up }, request)?;
    let (profile, testbed) = (long.profile()?, long.testbed);
    let mean = testbed.up(profile.mean.0 as f64);
    let near = Bound::Near(AGGREGATE as f64, 0.005);
    claims.push(Claim::kilo("profiled mean (C_G)", "1570 K", mean, near));
    let sigma = testbed.up(profile.sigma) / mean.max(1.0);
    let small = Bound::AtMost(0.01);
    claims.push(Claim::percent("profiled sigma of it", "not given", sigma, small));
    let points = (1_u32..).zip(&totals).map(|(clients, total)| (f64::from(clients), *total));
    let plot = lines(
        "thousand I/Os per second",
        "clients",
        vec![("one-sided".to_owned(), points.collect())],
    );
    let title =
        "Haechi, Fig. 7 (H5): what 1 to 10 clients do together, and the data node's profile";
    Ok(Made::of(title, claims, [("haechi-7", plot)]))
}

/// Makes Fig. 8: demands of 1580 K that are uniform or a spike, in bursts or at a constant rate.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn eight(request: Request) -> anyhow::Result<Made> {
    let set_up = scenario::read(include_str!("../../../scenarios/haechi-8.toml"))?.experiment;
    let uniform = run(&equal(&set_up), request)?;
    let (burst, constant) = (run(&set_up, request)?, run(&paced(&set_up, true), request)?);
    let large = |outcome: &Outcome| least(outcome.means.iter().take(3).copied());
    let small = |outcome: &Outcome| least(outcome.means.iter().skip(3).copied());
    let all = |outcome: &Outcome| outcome.means.clone();
    let claims = vec![
        kilo("(a) uniform bursts: least of the clients", 157e3, least(all(&uniform)), 0.01),
        kilo("(a) uniform bursts: most of the clients", 157e3, most(all(&uniform)), 0.01),
        kilo("(a) uniform bursts: all together", 1570e3, uniform.total, 0.005),
        kilo("(b) spike of bursts: C1 to C3", 278e3, large(&burst), 0.01),
        kilo("(b) spike of bursts: C4 to C10", 80e3, small(&burst), 0.01),
        kilo("(b) spike of bursts: all together", 1380e3, burst.total, 0.02),
        kilo("(c) spike, constant rate: C1 to C3", 332e3, large(&constant), 0.03),
        kilo("(c) spike, constant rate: C4 to C10", 80e3, small(&constant), 0.01),
        kilo("(c) spike, constant rate: all together", 1564e3, constant.total, 0.01),
    ];
    let title = "Haechi, Fig. 8 (H5): demands of 1580 K I/Os per second, without Haechi";
    let plot = |name, outcome: &Outcome| by_client(name, &[("completed", outcome.means.clone())]);
    Ok(Made::of(
        title,
        claims,
        [
            ("haechi-8a", plot("uniform demand with bursts: thousand I/Os", &uniform)),
            ("haechi-8b", plot("spike demand with bursts: thousand I/Os", &burst)),
            ("haechi-8c", plot("spike demand at a constant rate: thousand I/Os", &constant)),
        ],
    ))
}

/// Makes the demands of all clients equal, with the same sum.
fn equal(set_up: &Experiment) -> Experiment {
    let requests = set_up.requests();
    let count = u64::try_from(requests.len()).unwrap_or(u64::MAX).max(1);
    let mut set_up = set_up.clone();
    for client in &mut set_up.clients {
        client.demand = Demand::Ios(requests.iter().sum::<u64>() / count);
    }
    set_up
}

/// Makes a claim of a number of I/Os.
fn kilo(what: &str, paper: f64, ours: f64, tolerance: f64) -> Claim {
    let text = format!("{} K", paper / 1e3);
    Claim::kilo(what, text, ours, Bound::Near(paper, tolerance))
}
