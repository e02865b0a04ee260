//! Goals of hosts, and whether a run has met them.

use serde::Deserialize;

use super::error::ScenarioError;
use super::value::{Bandwidth, Count, Part, Time};
use crate::model::{Done, HostMeasured};
use crate::report::{Column, Table};

/// `goal` of a host: bounds of its own measurements. Of an entry with `count`, of each host.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostGoal {
    p99: Option<Time>,
    p99_9: Option<Time>,
    iops: Option<Count>,
    bandwidth: Option<Bandwidth>,
    share: Option<Part>,
}

/// A quantity that a goal bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    P99,
    P999,
    Iops,
    Bandwidth,
    Share,
}

impl Quantity {
    /// Returns the key in `goal`, and the unit of reports.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::P99 => ("p99", "us"),
            Self::P999 => ("p99_9", "us"),
            Self::Iops => ("iops", "per s"),
            Self::Bandwidth => ("bandwidth", "MB/s"),
            Self::Share => ("share", "%"),
        }
    }

    /// Returns whether the goal is an upper bound; otherwise it is a lower one.
    const fn is_upper(self) -> bool {
        matches!(self, Self::P99 | Self::P999)
    }
}

impl HostGoal {
    /// Returns the goals that are given, with their bars in the units of reports.
    fn bars(&self) -> impl Iterator<Item = (Quantity, f64)> {
        let us = |time: Time| time.0.as_secs_f64() * 1e6;
        [
            (Quantity::P99, self.p99.map(us)),
            (Quantity::P999, self.p99_9.map(us)),
            (Quantity::Iops, self.iops.map(|count| count.0 as f64)),
            (Quantity::Bandwidth, self.bandwidth.map(|bytes| bytes.0 as f64 / 1e6)),
            (Quantity::Share, self.share.map(|part| part.0 * 100.0)),
        ]
        .into_iter()
        .filter_map(|(quantity, bar)| Some((quantity, bar?)))
    }

    /// Refuses a goal that bounds nothing.
    pub(super) fn check(&self, host: &str) -> Result<(), ScenarioError> {
        match self.bars().next() {
            Some(_) => Ok(()),
            None => Err(ScenarioError::Missing {
                key: format!("host {host}.goal"),
                must: "write one or more of `p99`, `p99_9`, `iops`, `bandwidth` and `share`",
            }),
        }
    }

    /// Judges the hosts of an entry. `seconds` is the measured time, `all` the bytes of all hosts.
    pub(super) fn judge(
        &self,
        name: &str,
        hosts: &[&HostMeasured],
        seconds: f64,
        all: u64,
    ) -> Vec<GoalVerdict> {
        let judge = |(quantity, bar): (Quantity, f64)| {
            let mut verdict =
                GoalVerdict { host: name.to_owned(), quantity, bar, worst: None, hosts: 0, met: 0 };
            for host in hosts {
                let measured = measure(host, quantity, seconds, all);
                verdict.hosts += 1;
                verdict.met += u32::from(verdict.holds(measured));
                if verdict.worst.is_none_or(|worst| verdict.is_worse(measured, worst)) {
                    verdict.worst = Some(measured);
                }
            }
            verdict
        };
        self.bars().map(judge).collect()
    }
}

/// Computes a quantity of a host, in the unit of reports. A host that completed nothing has an infinite
/// latency.
fn measure(host: &HostMeasured, quantity: Quantity, seconds: f64, all: u64) -> f64 {
    let done = || host.loads.iter().flat_map(|load| [&load.read, &load.write]);
    let bytes = || done().map(|done| done.bytes).sum::<u64>() as f64;
    let percentile = |part: f64| {
        let mut latency = Done::new().latency;
        // All have the same precision, and histograms that grow by themselves.
        done().for_each(|done| latency.add(&done.latency).unwrap_or_default());
        match latency.is_empty() {
            true => f64::INFINITY,
            false => latency.value_at_quantile(part) as f64 / 1e3,
        }
    };
    let per_second = |number: f64| number / seconds.max(f64::MIN_POSITIVE);
    match quantity {
        Quantity::P99 => percentile(0.99),
        Quantity::P999 => percentile(0.999),
        Quantity::Iops => per_second(done().map(|done| done.commands).sum::<u64>() as f64),
        Quantity::Bandwidth => per_second(bytes() / 1e6),
        Quantity::Share => bytes() / all.max(1) as f64 * 100.0,
    }
}

/// A goal of a host, or of several hosts that are alike, and the result.
#[derive(Clone, Debug, PartialEq)]
pub struct GoalVerdict {
    /// Name of the entry, `[[host]]`.
    host: String,
    quantity: Quantity,
    bar: f64,
    /// The measured value of the host that is farthest from the goal; `None` where there is no host.
    worst: Option<f64>,
    hosts: u32,
    met: u32,
}

impl GoalVerdict {
    /// Returns whether every host met the goal.
    #[must_use]
    pub const fn is_met(&self) -> bool {
        self.met == self.hosts
    }

    fn holds(&self, measured: f64) -> bool {
        if self.quantity.is_upper() { measured <= self.bar } else { measured >= self.bar }
    }

    fn is_worse(&self, one: f64, other: f64) -> bool {
        if self.quantity.is_upper() { one > other } else { one < other }
    }

    /// Writes the worst value and the bar, as `tenant: p99 1234 us, at most 1000 us`.
    #[must_use]
    pub fn text(&self) -> String {
        let (name, unit) = self.quantity.names();
        let bound = if self.quantity.is_upper() { "at most" } else { "at least" };
        format!("{}: {name} {} {unit}, {bound} {} {unit}", self.host, self.measured(), self.bar)
    }

    /// Writes the worst value, in digits that tell it from the bar.
    fn measured(&self) -> String {
        match self.worst {
            Some(worst) if worst.is_finite() => format!("{worst:.2}"),
            _ => "-".to_owned(),
        }
    }
}

/// Keeps of the verdicts of several runs, which have the same goals, the worst of each goal.
#[must_use]
pub fn worst_of<'a>(runs: impl Iterator<Item = &'a [GoalVerdict]>) -> Vec<GoalVerdict> {
    let mut all: Vec<GoalVerdict> = Vec::new();
    for run in runs {
        for (place, verdict) in run.iter().enumerate() {
            match all.get_mut(place) {
                None => all.push(verdict.clone()),
                Some(before) => {
                    before.met = before.met.min(verdict.met);
                    if let (Some(one), Some(other)) = (verdict.worst, before.worst)
                        && before.is_worse(one, other)
                    {
                        before.worst = Some(one);
                    }
                }
            }
        }
    }
    all
}

/// Makes the table of goals; `None` where there are none.
#[must_use]
pub fn goal_table(verdicts: &[GoalVerdict]) -> Option<Table> {
    let columns = ["hosts", "goal", "verdict", "bar", "measured", "unit", "met by", "of"];
    let row = |of: &GoalVerdict| {
        let (name, unit) = of.quantity.names();
        let bound = if of.quantity.is_upper() { "<=" } else { ">=" };
        vec![
            of.host.clone(),
            format!("{name} {bound}"),
            if of.is_met() { "met" } else { "missed" }.to_owned(),
            of.bar.to_string(),
            of.measured(),
            unit.to_owned(),
            of.met.to_string(),
            of.hosts.to_string(),
        ]
    };
    (!verdicts.is_empty()).then(|| Table {
        title: "Goals".to_owned(),
        file: "goals".to_owned(),
        columns: columns.map(|name| Column::new(name, "")).to_vec(),
        names: 3,
        rows: verdicts.iter().map(row).collect(),
        note: "Measured: the host that is farthest from the goal.".to_owned(),
    })
}
