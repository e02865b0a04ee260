//! Common parts of the figures of Haechi.

use crate::models::experiments::{Distribution, Experiment, Outcome, System, Testbed, measure};
use sluice_sim::report::Chart;

use crate::figure::Request;
use crate::plot::{self, Line};

/// Seconds of the paper's figures that show what clients did in 30 periods of a second.
pub(super) const THIRTY: f64 = 30.0;

/// Runs a set-up at the size and with the seed that a figure asks for.
///
/// # Errors
///
/// The set-up is refused.
pub(super) fn run(set_up: &Experiment, request: Request) -> anyhow::Result<Outcome> {
    Ok(measure(set_up, Testbed { scale: request.scale, seed: request.seed })?)
}

/// Sets another system.
pub(super) fn with(set_up: &Experiment, system: System) -> Experiment {
    Experiment { system, ..set_up.clone() }
}

/// Makes reservations equal.
pub(super) fn uniform(set_up: &Experiment) -> Experiment {
    Experiment { distribution: Distribution::UNIFORM, ..set_up.clone() }
}

/// Makes clients ask at a constant rate, or in bursts.
pub(super) fn paced(set_up: &Experiment, constant: bool) -> Experiment {
    let mut set_up = set_up.clone();
    for client in &mut set_up.clients {
        client.constant = constant;
    }
    set_up
}

/// Returns for each client whether its reservation, if it has one, was met in each measured period.
pub(super) fn verdicts(outcome: &Outcome) -> Vec<&'static str> {
    let (missed, named) = (outcome.missed(), outcome.out_of_reach());
    let wanted = outcome.experiment.requests();
    let each = wanted.iter().zip(&outcome.reserved).enumerate();
    let verdict = |(client, (wanted, reserved)): (usize, (&u64, &f64))| {
        if *reserved == 0.0 {
            "none"
        } else if !missed.contains(&client) {
            "met"
        } else if (*wanted as f64) < *reserved {
            "wants less"
        } else if named.contains(&client) {
            "missed; the monitor names it: out of its reach"
        } else {
            "missed"
        }
    };
    each.map(verdict).collect()
}

/// Makes a plot of bars with a group for each client. Heights are I/Os, shown in thousands.
pub(super) fn by_client(title: &str, series: &[(&str, Vec<f64>)]) -> Chart {
    let clients = series.iter().map(|(_, heights)| heights.len()).max().unwrap_or(0);
    let groups = (1..=clients).map(|client| format!("C{client}")).collect();
    bars(title, groups, series)
}

/// Makes a plot of bars. Heights are I/Os, shown in thousands.
pub(super) fn bars(title: &str, groups: Vec<String>, series: &[(&str, Vec<f64>)]) -> Chart {
    let thousands = |heights: &[f64]| heights.iter().map(|height| height / 1e3).collect::<Vec<_>>();
    plot::bars(title, groups, series.iter().map(|(name, heights)| (*name, thousands(heights))))
}

/// Makes a plot of lines. Numbers are I/Os, shown in thousands.
pub(super) fn lines(title: &str, x: &str, lines: Vec<(String, Vec<(f64, f64)>)>) -> Chart {
    let one = |(name, points): (String, Vec<(f64, f64)>)| Line {
        name,
        points: points.into_iter().map(|(x, ios)| (x, ios / 1e3)).collect(),
    };
    plot::lines(title, x, lines.into_iter().map(one).collect())
}

/// Returns the I/Os that each client has in 30 s, by the mean of the periods.
pub(super) fn in_30_s(outcome: &Outcome) -> Vec<f64> {
    outcome.means.iter().map(|mean| mean * THIRTY).collect()
}

/// Returns the least of some numbers.
pub(super) fn least(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the greatest of some numbers.
pub(super) fn most(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// Counts the clients that had less than their reservation in some period.
pub(super) fn short(outcome: &Outcome) -> f64 {
    let clients = 0..outcome.reserved.len();
    clients.filter(|client| !outcome.keeps(*client, 0.0)).count() as f64
}
