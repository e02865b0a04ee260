//! What the figures of Haechi have in common.

use pmem::experiments::{Outcome, Testbed};

use crate::sim::figure::{Plot, Request};
use crate::sim::plot::bars::{Bars, Series};
use crate::sim::plot::{Chart, Line};

/// Seconds of the paper's figures that show what clients did in 30 periods of a second.
pub(super) const THIRTY: f64 = 30.0;

/// Returns the testbed that a figure asks for.
pub(super) fn testbed(request: Request) -> Testbed {
    Testbed { scale: request.scale, seed: request.seed }
}

/// Makes a plot of bars with a group for each client. Heights are I/Os, shown in thousands.
pub(super) fn by_client(title: &str, series: &[(&str, Vec<f64>)]) -> Plot {
    let clients = series.iter().map(|(_, heights)| heights.len()).max().unwrap_or(0);
    let groups = (1..=clients).map(|client| format!("C{client}")).collect();
    bars(title, groups, series)
}

/// Makes a plot of bars. Heights are I/Os, shown in thousands.
pub(super) fn bars(title: &str, groups: Vec<String>, series: &[(&str, Vec<f64>)]) -> Plot {
    let one = |(name, heights): &(&str, Vec<f64>)| Series {
        name: (*name).to_owned(),
        heights: heights.iter().map(|height| height / 1e3).collect(),
    };
    Plot::Bars(Bars { title: title.to_owned(), groups, series: series.iter().map(one).collect() })
}

/// Makes a plot of lines. Numbers are I/Os, shown in thousands.
pub(super) fn lines(
    title: &'static str,
    x: &'static str,
    lines: Vec<(String, Vec<(f64, f64)>)>,
) -> Plot {
    let one = |(name, points): (String, Vec<(f64, f64)>)| Line {
        name,
        points: points.into_iter().map(|(x, ios)| (x, ios / 1e3)).collect(),
    };
    Plot::Lines(Chart { title, x, lines: lines.into_iter().map(one).collect() })
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

/// Counts the clients that had less than their reservation in some period, but for a part of it.
pub(super) fn short(outcome: &Outcome, tolerance: f64) -> f64 {
    let clients = 0..outcome.reserved.len();
    clients.filter(|client| !outcome.keeps(*client, tolerance)).count() as f64
}
