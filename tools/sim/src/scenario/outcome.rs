//! The results of a run, by hosts and classes.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use sluice_core::stats::{HistogramSnapshot, IoSnapshot, bucket_end_ns};
use units::{Class, nanos};

use super::Scenario;
use super::goal::{GoalVerdict, goal_table};
use crate::model::{DeviceMeasured, Done, HostMeasured, LoadMeasured, Measured};
use crate::network::PortCounters;
use crate::report::{Axis, Chart, Column, Kind, Report, Series, Table};

/// The results of one entry's hosts in one class.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the entry, `[[host]]`.
    pub host: String,
    /// Class.
    pub class: Class,
    /// Number of hosts.
    pub hosts: u32,
    /// Commands that were completed.
    pub commands: u64,
    /// Bytes of data that they moved.
    pub bytes: u64,
    /// Commands that the target answered with an error.
    pub failed: u64,
    /// Latencies in ns, as hosts see them.
    pub latency: Histogram<u64>,
    /// The target's own statistics of these commands.
    pub target: IoSnapshot,
    /// Bytes of each host.
    each: Vec<u64>,
    /// Bytes by interval.
    series: Vec<u64>,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Rows, in the order of the scenario.
    pub rows: Vec<Row>,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Seconds of an interval.
    interval: f64,
    /// The Q of each class over time: the mean of its connections.
    quality: Vec<(Class, Vec<(f64, f64)>)>,
    /// Packet counters of switches, warm-up included.
    pub switches: Switches,
    /// The goals of hosts, in the order of the scenario.
    pub goals: Vec<GoalVerdict>,
    /// The parts of the measured time that the target's cable and the devices were busy, with their names.
    uses: Vec<(String, f64)>,
}

/// Packet counters of a network's switches and adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Packets that were marked (ECN).
    pub marked: u64,
    /// Packets that found no room in a buffer.
    pub dropped: u64,
    /// Packets that were lost at random, as the scenario has it.
    pub lost: u64,
    /// How often a sender was paused (priority flow control).
    pub pauses: u64,
}

impl Switches {
    fn of(measured: &Measured) -> Self {
        let sum =
            |of: fn(&PortCounters) -> u64| measured.ports.iter().map(|(_, port)| of(port)).sum();
        Self {
            marked: sum(|port| port.marked),
            dropped: sum(|port| port.dropped),
            lost: sum(|port| port.lost),
            pauses: sum(|port| port.pauses),
        }
    }
}

impl Row {
    fn new(host: &str, class: Class) -> Self {
        Self {
            host: host.to_owned(),
            class,
            hosts: 0,
            commands: 0,
            bytes: 0,
            failed: 0,
            latency: Done::new().latency,
            target: IoSnapshot::default(),
            each: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Adds the loads of a host that are of this class.
    fn add(&mut self, loads: &[(&LoadMeasured, Option<&IoSnapshot>)]) {
        self.hosts += 1;
        let before = self.bytes;
        for (load, target) in loads {
            if let Some(target) = target {
                self.target.merge(target);
            }
            for done in [&load.read, &load.write] {
                self.commands += done.commands;
                self.bytes += done.bytes;
                // Both have the same precision, and histograms that grow by themselves.
                self.latency.add(&done.latency).unwrap_or_default();
            }
            self.failed += load.failed;
            self.series.resize(self.series.len().max(load.series.len()), 0);
            self.series.iter_mut().zip(&load.series).for_each(|(sum, bytes)| *sum += bytes);
        }
        self.each.push(self.bytes - before);
    }

    /// Returns the name of the row: the host, and the class.
    fn name(&self) -> String {
        format!("{} ({})", self.host, self.class.name())
    }

    /// Returns the times of its commands in the target, from a command's arrival to its answer: the end
    /// of each bucket that has some in ns, and their number.
    #[must_use]
    pub fn target_times(&self) -> Vec<(u64, u64)> {
        let mut all = HistogramSnapshot::default();
        for kind in [&self.target.read, &self.target.write, &self.target.other] {
            all.merge(&kind.latency);
        }
        let filled = all.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (bucket_end_ns(index), *count)).collect()
    }

    /// Computes a percentile of the latency in us; 0 where nothing was completed.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        self.latency.value_at_quantile(percent / 100.0) as f64 / 1e3
    }
}

/// The percentiles that are shown.
const PERCENTILES: [(f64, &str); 3] = [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9")];

impl Outcome {
    /// Adds up the measurements of a run, by the entries of the scenario.
    #[must_use]
    pub fn of(scenario: &Scenario, measured: &Measured) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        let statistics = measured.statistics.iter().map(Some).chain(std::iter::repeat(None));
        let mut hosts = measured.hosts.iter().zip(statistics);
        for entry in &scenario.file.hosts {
            for (host, target) in hosts.by_ref().take(entry.count.unwrap_or(1) as usize) {
                let target = target.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
                let loads: Vec<_> = host.loads.iter().zip(target).collect();
                for class in Class::ALL {
                    let of_class = loads.iter().filter(|(load, _)| load.class == class);
                    let loads: Vec<_> = of_class.copied().collect();
                    if loads.is_empty() {
                        continue;
                    }
                    let same = |row: &Row| row.host == entry.name && row.class == class;
                    let place = rows.iter().position(same).unwrap_or(rows.len());
                    if place == rows.len() {
                        rows.push(Row::new(&entry.name, class));
                    }
                    if let Some(row) = rows.get_mut(place) {
                        row.add(&loads);
                    }
                }
            }
        }
        Self {
            rows,
            seconds: measured.time.as_secs_f64(),
            interval: measured.interval.as_secs_f64(),
            quality: quality(measured, super::plan::warmup(&scenario.file)),
            switches: Switches::of(measured),
            goals: goals(scenario, measured),
            uses: uses(measured),
        }
    }

    /// Computes the throughput of a row in MB (10^6 bytes) per second.
    #[must_use]
    pub fn throughput(&self, row: &Row) -> f64 {
        self.per_second(row.bytes) / 1e6
    }

    fn per_second(&self, number: u64) -> f64 {
        if self.seconds > 0.0 { number as f64 / self.seconds } else { 0.0 }
    }

    /// Makes the report of a run with a seed.
    #[must_use]
    pub fn report(&self, scenario: &Scenario, seed: u64) -> Report {
        let title = match scenario.file.title.as_str() {
            "" => "Simulation",
            title => title,
        };
        let about = format!(
            "{} hosts, {:.3} s measured, seed {seed}. The target's code is the daemon's; hosts, network \
             and devices are models.",
            self.rows.iter().map(|row| row.hosts).sum::<u32>(),
            self.seconds
        );
        let Switches { marked, dropped, lost, pauses } = self.switches;
        let network = format!(
            "Packets on the network, warm-up included: {marked} marked, {dropped} without room, {lost} lost \
             at random; senders were paused {pauses} times."
        );
        let mut tables = vec![self.table()];
        tables.extend(goal_table(&self.goals));
        tables.push(self.use_table());
        let mut charts = vec![self.over_time(), self.latencies()];
        charts.extend(self.qualities());
        Report {
            title: title.to_owned(),
            about: vec![about, network],
            tables,
            charts,
            scenario: scenario.text.clone(),
        }
    }

    /// Makes the table of what hosts had.
    fn table(&self) -> Table {
        let mut columns = vec![
            Column::new("hosts", ""),
            Column::new("class", ""),
            Column::new("number", ""),
            Column::new("throughput", "MB/s"),
            Column::new("each host", "MB/s"),
            Column::new("I/Os", "per s"),
        ];
        columns.extend(PERCENTILES.map(|(_, name)| Column::new(name, "us")));
        columns.push(Column::new("errors", ""));
        let row = |row: &Row| {
            let each = row.each.iter().map(|bytes| self.per_second(*bytes) / 1e6);
            let least = each.clone().fold(f64::INFINITY, f64::min);
            let most = each.fold(0.0, f64::max);
            let each = match row.hosts {
                0 | 1 => String::new(),
                _ => format!("{}..{}", number(least), number(most)),
            };
            let mut cells = vec![
                row.host.clone(),
                row.class.name().to_owned(),
                row.hosts.to_string(),
                number(self.throughput(row)),
                each,
                number(self.per_second(row.commands)),
            ];
            cells.extend(PERCENTILES.map(|(percent, _)| number(row.percentile(percent))));
            cells.push(row.failed.to_string());
            cells
        };
        Table {
            title: "Results per host".to_owned(),
            file: "hosts".to_owned(),
            columns,
            names: 2,
            rows: self.rows.iter().map(row).collect(),
            note: "Latency: from the time at which a host wants an I/O, or its predecessor ends, to its \
                   completion. MB: 10^6 bytes."
                .to_owned(),
        }
    }

    /// Makes the table of how much the target's cable and the devices were used.
    fn use_table(&self) -> Table {
        let row = |(name, used): &(String, f64)| vec![name.clone(), number(used * 100.0)];
        Table {
            title: "Use".to_owned(),
            file: "use".to_owned(),
            columns: vec![Column::new("of", ""), Column::new("busy", "%")],
            names: 1,
            rows: self.uses.iter().map(row).collect(),
            note: String::new(),
        }
    }

    fn over_time(&self) -> Chart {
        let interval = self.interval.max(f64::MIN_POSITIVE);
        let line = |row: &Row| Series {
            name: row.name(),
            points: (0_u32..)
                .zip(&row.series)
                .map(|(at, bytes)| {
                    ((f64::from(at) + 0.5) * interval * 1e3, *bytes as f64 / interval / 1e6)
                })
                .collect(),
        };
        Chart {
            title: "Throughput over time".to_owned(),
            file: "throughput".to_owned(),
            x: Axis::linear("time, ms"),
            y: Axis::linear("throughput, MB/s"),
            kind: Kind::Lines(self.rows.iter().map(line).collect()),
        }
    }

    fn latencies(&self) -> Chart {
        let bars = PERCENTILES.map(|(percent, name)| Series {
            name: name.to_owned(),
            points: self.rows.iter().map(|row| row.percentile(percent)).collect(),
        });
        Chart {
            title: "Latency".to_owned(),
            file: "latency".to_owned(),
            x: Axis::linear(""),
            y: Axis::logarithmic("latency, us"),
            kind: Kind::Bars {
                groups: self.rows.iter().map(Row::name).collect(),
                series: bars.to_vec(),
            },
        }
    }

    /// Makes the chart of Q; `None` where the target's controller has looked at nothing.
    fn qualities(&self) -> Option<Chart> {
        let line = |(class, points): &(Class, Vec<(f64, f64)>)| Series {
            name: class.name().to_owned(),
            points: points.clone(),
        };
        let lines: Vec<_> = self.quality.iter().map(line).collect();
        (!lines.is_empty()).then(|| Chart {
            title:
                "Q: a connection's target by its throughput, mean of a class (above 1: it has less)"
                    .to_owned(),
            file: "quality".to_owned(),
            x: Axis::linear("time, ms"),
            y: Axis::linear("Q"),
            kind: Kind::Lines(lines),
        })
    }
}

/// Judges the goals of all hosts.
fn goals(scenario: &Scenario, measured: &Measured) -> Vec<GoalVerdict> {
    let bytes = |host: &HostMeasured| {
        host.loads.iter().map(|load| load.read.bytes + load.write.bytes).sum::<u64>()
    };
    let all = measured.hosts.iter().map(bytes).sum();
    let mut hosts = measured.hosts.iter();
    let mut verdicts = Vec::new();
    for entry in &scenario.file.hosts {
        let of: Vec<_> = hosts.by_ref().take(entry.count.unwrap_or(1) as usize).collect();
        if let Some(goal) = &entry.goal {
            verdicts.extend(goal.judge(&entry.name, &of, measured.time.as_secs_f64(), all));
        }
    }
    verdicts
}

/// Lists how much the target's cable and the devices were used.
fn uses(measured: &Measured) -> Vec<(String, f64)> {
    let cable = ["cable to the target", "cable from the target"].map(str::to_owned);
    let devices = (1..).zip(&measured.devices);
    let device = |(number, device): (usize, &DeviceMeasured)| {
        Some((format!("device of namespace {number}"), device.used?))
    };
    cable.into_iter().zip(measured.cable).chain(devices.filter_map(device)).collect()
}

/// Writes a number with three digits or more.
fn number(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Computes the mean Q of each class's connections in each interval, from the end of the warm-up on.
fn quality(measured: &Measured, warmup: Duration) -> Vec<(Class, Vec<(f64, f64)>)> {
    let interval = nanos(measured.interval).max(1);
    let of_class = |class: Class| {
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for look in measured.flows.iter().flat_map(|flow| &flow.looks) {
            let counts = look.class == class && look.target.is_some() && look.quality.is_finite();
            let Some(since) = look.at.0.checked_sub(nanos(warmup)).filter(|_| counts) else {
                continue;
            };
            let (sum, number) = sums.entry(since / interval).or_default();
            *sum += look.quality;
            *number += 1.0;
        }
        let middle = |at: u64| (at as f64 + 0.5) * interval as f64 / 1e6;
        let means = sums.into_iter().map(|(at, (sum, number))| (middle(at), sum / number));
        (class, means.collect::<Vec<_>>())
    };
    Class::ALL.map(of_class).into_iter().filter(|(_, points)| !points.is_empty()).collect()
}

/// Makes the table of several seeds: mean and standard deviation of each row's throughput and latency.
#[must_use]
pub fn spread(outcomes: &[Outcome]) -> Table {
    let mut columns = vec![
        Column::new("hosts", ""),
        Column::new("class", ""),
        Column::new("throughput", "MB/s"),
        Column::new("+-", ""),
    ];
    for (_, name) in PERCENTILES {
        columns.extend([Column::new(name, "us"), Column::new("+-", "")]);
    }
    let first = outcomes.first().map(|outcome| outcome.rows.as_slice()).unwrap_or_default();
    let row = |(place, row): (usize, &Row)| {
        let all = |of: &dyn Fn(&Outcome, &Row) -> f64| -> Vec<f64> {
            let rows =
                outcomes.iter().filter_map(|outcome| Some((outcome, outcome.rows.get(place)?)));
            rows.map(|(outcome, row)| of(outcome, row)).collect()
        };
        let mut cells = vec![row.host.clone(), row.class.name().to_owned()];
        cells.extend(mean_and_deviation(&all(&|outcome, row| outcome.throughput(row))));
        for (percent, _) in PERCENTILES {
            cells.extend(mean_and_deviation(&all(&|_, row| row.percentile(percent))));
        }
        cells
    };
    Table {
        title: format!("Mean and standard deviation of {} seeds", outcomes.len()),
        file: "seeds".to_owned(),
        columns,
        names: 2,
        rows: first.iter().enumerate().map(row).collect(),
        note: String::new(),
    }
}

/// Writes the mean of numbers, and their standard deviation.
fn mean_and_deviation(numbers: &[f64]) -> [String; 2] {
    let count = numbers.len().max(1) as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares = numbers.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
    [number(mean), number(deviation)]
}
