//! A prediction beside the daemon's measurements, as tables and for programs.

use anyhow::Context as _;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::counts::Counts;
use super::super::daemon::Seen;
use super::beside::Watched;
use super::scenario::Group;
use crate::report::{Column, Table};
use crate::scenario::Outcome;

/// Results of some commands.
#[derive(Clone, Debug)]
struct Sum {
    commands: u64,
    bytes: u64,
    errors: u64,
    /// Latencies in ns, as hosts see them.
    latency: Histogram<u64>,
    /// Times in the target, in its buckets.
    target: Counts,
    measured: Option<Seen>,
}

/// A row: a host, a class or a session.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// Hosts that are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<Vec<String>>,
    predicted: Figures,
    /// Latencies as hosts see them: from the time at which a command is due, or its predecessor ends, to
    /// its completion.
    at_hosts: Percentiles,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Figures>,
}

/// Rates, the share, and times in the target: from a command's arrival to its answer.
#[derive(Clone, Copy, Debug, Serialize)]
struct Figures {
    iops: f64,
    bytes_per_second: f64,
    /// Part of all rows' commands, or bytes where weights count bytes.
    share: f64,
    #[serde(flatten)]
    times: Percentiles,
}

/// Percentiles in ns.
#[derive(Clone, Copy, Debug, Serialize)]
struct Percentiles {
    p50_ns: f64,
    p99_ns: f64,
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Results {
    pub(super) seconds: f64,
    pub(super) seed: u64,
    pub(super) hosts: Vec<Row>,
    pub(super) classes: Vec<Row>,
    pub(super) sessions: Vec<Row>,
    /// Parts that are not modelled, and other remarks for the reader.
    pub(super) notes: Vec<String>,
}

impl Sum {
    fn new() -> anyhow::Result<Self> {
        let latency = Histogram::new(3).context("a histogram of three digits")?;
        let target = Counts::default();
        Ok(Self { commands: 0, bytes: 0, errors: 0, latency, target, measured: None })
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.commands += other.commands;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.add(&other.latency).context("histograms are alike")?;
        self.target.merge(&other.target);
        match (&mut self.measured, &other.measured) {
            (Some(sum), Some(one)) => sum.add(one),
            (sum @ None, one) => sum.clone_from(one),
            (Some(_), None) => {}
        }
        Ok(())
    }
}

/// Makes the results of a prediction.
///
/// # Errors
///
/// The simulation has no row for a group.
pub(super) fn results(
    (groups, outcome): (&[Group], &Outcome),
    watched: Option<&Watched>,
    (by_bytes, seed): (bool, u64),
    mut notes: Vec<String>,
) -> anyhow::Result<Results> {
    let mut sums = Vec::new();
    for group in groups {
        let mut sum = Sum::new()?;
        let row = outcome.rows.iter().find(|row| row.host == group.entry);
        let row = row.with_context(|| format!("nothing was simulated for {}", group.host))?;
        (sum.commands, sum.bytes, sum.errors) = (row.commands, row.bytes, row.failed);
        sum.latency.add(&row.latency).context("histograms are alike")?;
        sum.target = row.target_times().into_iter().collect();
        sum.measured = watched.map(|watched| watched.of(group));
        sums.push(sum);
    }
    if let Some(watched) = watched {
        let others = watched.others(groups);
        let known = |sum: &Sum| sum.measured.as_ref().map_or(0, |seen| seen.commands);
        if sums.iter().map(known).sum::<u64>() == 0 {
            notes.push("no host of the load was seen: is the load running?".to_owned());
        }
        if others >= 1.0 {
            notes.push(format!(
                "{others:.0} I/Os a second of hosts and classes that the load does not name are not in \
                 the prediction"
            ));
        }
    }
    let all = Totals::of(&sums, by_bytes);
    let mut hosts = Vec::new();
    for (group, sum) in groups.iter().zip(&sums) {
        hosts.push(Row {
            host: Some(group.host.clone()),
            hosts: Some(group.count),
            class: Some(group.class.name().to_owned()),
            session: Some(group.session.clone()),
            namespaces: Some(
                group.namespaces.iter().map(|(nqn, n)| format!("{nqn}/{n}")).collect(),
            ),
            ..all.row(sum, outcome.seconds)
        });
    }
    let class = |group: &Group| group.class.name().to_owned();
    let session = |group: &Group| group.session.clone();
    let pairs = || groups.iter().zip(&sums);
    let classes = together(pairs().map(|(group, sum)| (class(group), sum)))?;
    let sessions = together(pairs().map(|(group, sum)| (session(group), sum)))?;
    let of_class = |(name, sum): &(String, Sum)| Row {
        class: Some(name.clone()),
        ..all.row(sum, outcome.seconds)
    };
    let of_session = |(name, sum): &(String, Sum)| Row {
        session: Some(name.clone()),
        ..all.row(sum, outcome.seconds)
    };
    Ok(Results {
        seconds: outcome.seconds,
        seed,
        hosts,
        classes: classes.iter().map(of_class).collect(),
        sessions: sessions.iter().map(of_session).collect(),
        notes,
    })
}

/// Adds up the sums with the same name, in the order of first appearance.
fn together<'a>(
    pairs: impl Iterator<Item = (String, &'a Sum)>,
) -> anyhow::Result<Vec<(String, Sum)>> {
    let mut sums: Vec<(String, Sum)> = Vec::new();
    for (name, sum) in pairs {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.add(sum)?,
            None => sums.push((name, sum.clone())),
        }
    }
    Ok(sums)
}

/// The totals that shares are computed from, predicted and measured.
#[derive(Clone, Copy, Debug)]
struct Totals {
    by_bytes: bool,
    predicted: f64,
    measured: f64,
}

impl Totals {
    fn of(sums: &[Sum], by_bytes: bool) -> Self {
        let counted =
            |(commands, bytes): (u64, u64)| if by_bytes { bytes } else { commands } as f64;
        let seen =
            |sum: &Sum| sum.measured.as_ref().map_or((0, 0), |one| (one.commands, one.bytes));
        Self {
            by_bytes,
            predicted: sums.iter().map(|sum| counted((sum.commands, sum.bytes))).sum(),
            measured: sums.iter().map(|sum| counted(seen(sum))).sum(),
        }
    }

    /// Makes the row of a sum, without names.
    fn row(&self, of: &Sum, seconds: f64) -> Row {
        let at_hosts = |part: f64| of.latency.value_at_quantile(part) as f64;
        let measured = of.measured.as_ref().map(|seen| {
            let moved = (seen.commands, seen.bytes);
            self.figures(moved, seen.seconds, &seen.times, self.measured)
        });
        Row {
            host: None,
            hosts: None,
            class: None,
            session: None,
            namespaces: None,
            predicted: self.figures((of.commands, of.bytes), seconds, &of.target, self.predicted),
            at_hosts: Percentiles { p50_ns: at_hosts(0.5), p99_ns: at_hosts(0.99) },
            errors: of.errors,
            measured,
        }
    }

    fn figures(
        &self,
        (commands, bytes): (u64, u64),
        seconds: f64,
        times: &Counts,
        all: f64,
    ) -> Figures {
        let part = if self.by_bytes { bytes } else { commands } as f64;
        let per_second = |number: u64| number as f64 / seconds.max(f64::MIN_POSITIVE);
        Figures {
            iops: per_second(commands),
            bytes_per_second: per_second(bytes),
            share: if all > 0.0 { part / all } else { 0.0 },
            times: Percentiles { p50_ns: times.quantile(0.5), p99_ns: times.quantile(0.99) },
        }
    }
}

impl Results {
    pub(super) fn tables(&self) -> Vec<Table> {
        let kinds = [
            ("Hosts", "hosts", &self.hosts),
            ("Classes", "classes", &self.classes),
            ("Sessions", "sessions", &self.sessions),
        ];
        let mut tables: Vec<Table> =
            kinds.iter().map(|(title, file, rows)| predicted(title, file, rows)).collect();
        if let Some(last) = tables.last_mut() {
            "Latency: as hosts see it, from the time at which they want an I/O, or its predecessor ends, \
             to its completion. MB: 10^6 bytes."
                .clone_into(&mut last.note);
        }
        if self.hosts.iter().any(|row| row.measured.is_some()) {
            let beside = kinds.iter().map(|(title, file, rows)| beside(title, file, rows));
            tables.extend(beside);
            if let Some(last) = tables.last_mut() {
                "Latency: in the target, from a command's arrival to its answer. off: the \
                 deviation of the prediction from the measurement."
                    .clone_into(&mut last.note);
            }
        }
        tables
    }
}

/// Returns the columns that name a row, and its names.
fn names(rows: &[Row]) -> (Vec<Column>, Vec<Vec<String>>) {
    let of = |row: &Row| {
        let host = row.host.as_ref().map(|host| match row.hosts {
            Some(hosts @ 2..) => format!("{hosts} x {host}"),
            _ => host.clone(),
        });
        [("host", host), ("class", row.class.clone()), ("session", row.session.clone())]
    };
    let named = |row: &Row| of(row).into_iter().filter_map(|(key, name)| Some((key, name?)));
    let columns = rows.first().map(|row| named(row).map(|(key, _)| Column::new(key, "")).collect());
    let names = rows.iter().map(|row| named(row).map(|(_, name)| name).collect());
    (columns.unwrap_or_default(), names.collect())
}

/// Makes the table of a prediction.
fn predicted(title: &str, file: &str, rows: &[Row]) -> Table {
    let (mut columns, mut cells) = names(rows);
    let names = columns.len();
    columns.extend([
        Column::new("I/Os", "per s"),
        Column::new("throughput", "MB/s"),
        Column::new("share", "%"),
        Column::new("p50", "us"),
        Column::new("p99", "us"),
    ]);
    for (cells, row) in cells.iter_mut().zip(rows) {
        let Figures { iops, bytes_per_second, share, .. } = row.predicted;
        cells.extend([iops, bytes_per_second / 1e6, share * 100.0].map(number));
        cells.extend([row.at_hosts.p50_ns, row.at_hosts.p99_ns].map(|ns| number(ns / 1e3)));
    }
    Table {
        title: format!("{title}, predicted"),
        file: file.to_owned(),
        columns,
        names,
        rows: cells,
        note: String::new(),
    }
}

/// Makes the table of a prediction beside the measurements.
fn beside(title: &str, file: &str, rows: &[Row]) -> Table {
    let (mut columns, mut cells) = names(rows);
    let names = columns.len();
    for (name, unit) in [("I/Os", "per s"), ("share", "%"), ("p50", "us"), ("p99", "us")] {
        columns.push(Column::new(name, unit));
        columns.push(Column::new("measured", ""));
        columns.push(Column::new("off", "%"));
    }
    for (cells, row) in cells.iter_mut().zip(rows) {
        let Some(measured) = row.measured else { continue };
        let is = row.predicted;
        let pairs = [
            (is.iops, measured.iops),
            (is.share * 100.0, measured.share * 100.0),
            (is.times.p50_ns / 1e3, measured.times.p50_ns / 1e3),
            (is.times.p99_ns / 1e3, measured.times.p99_ns / 1e3),
        ];
        for (predicted, measured) in pairs {
            cells.extend([number(predicted), number(measured), off(predicted, measured)]);
        }
    }
    Table {
        title: format!("{title}, predicted and measured"),
        file: format!("{file}-measured"),
        columns,
        names,
        rows: cells,
        note: String::new(),
    }
}

/// Writes the deviation of a prediction from the measurement, in per cent.
fn off(predicted: f64, measured: f64) -> String {
    if measured <= 0.0 {
        return "-".to_owned();
    }
    let off = ((predicted / measured - 1.0) * 100.0).round();
    // There is no -0.
    format!("{:+.0}", off + 0.0)
}

/// Writes a number with three digits or more.
fn number(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}
