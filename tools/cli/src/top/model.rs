//! Rates from differences between samples, and their history.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::io::{Io, Times};
use super::network::counts;
use super::sample::{Daemon, Sample};

/// The number of rates that are remembered of each row: more than a wide screen shows.
pub(super) const HISTORY: usize = 120;

/// The panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pane {
    Classes,
    Sessions,
    Devices,
    Hosts,
    Links,
    Connections,
    Workloads,
}

pub(super) const PANES: usize = 7;

impl Pane {
    pub(super) const ALL: [Self; PANES] = [
        Self::Classes,
        Self::Sessions,
        Self::Devices,
        Self::Hosts,
        Self::Links,
        Self::Connections,
        Self::Workloads,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Classes => "Classes",
            Self::Sessions => "Sessions",
            Self::Devices => "Devices",
            Self::Hosts => "Hosts",
            Self::Workloads => "Workloads",
            Self::Links => "Links",
            Self::Connections => "Connections",
        }
    }
}

/// The rates of one row in the last interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    pub(super) iops: f64,
    pub(super) bytes: f64,
    pub(super) errors: f64,
    pub(super) refused: f64,
    /// The times in all, before the device and in it: of the interval if the daemon sends
    /// histograms, else since the daemon started.
    pub(super) latency: Time,
    pub(super) queueing: Time,
    pub(super) service: Time,
    /// The commands (on the network: packets) per second in the last intervals, the newest last.
    pub(super) history: VecDeque<f64>,
}

/// The times of commands in ns; 0 where there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Time {
    pub(super) mean: f64,
    /// The time that 99 % of the commands did not exceed.
    pub(super) p99: f64,
}

#[derive(Clone, Debug)]
struct Track {
    last: Io,
    rates: Rates,
    /// The number of the last sample with the row.
    generation: u64,
}

/// The model of the daemon: its last sample, and the rates of all rows.
#[derive(Debug, Default)]
pub(super) struct Model {
    tracks: BTreeMap<(Pane, String), Track>,
    generation: u64,
    pub(super) sample: Option<Sample>,
    /// The CPU of each reactor, and the part of the last interval in which it worked.
    pub(super) busy: Vec<(u64, f64)>,
    /// The commands and bytes per second of all devices.
    pub(super) total: Rates,
    /// The number of times that the daemon was found to be another process.
    pub(super) restarts: u32,
}

impl Model {
    /// Adds a new sample, and forgets rows that are not in it.
    pub(super) fn take(&mut self, sample: Sample) {
        let before = self.sample.take();
        if before.as_ref().is_some_and(|before| is_another(&before.daemon, &sample.daemon)) {
            let restarts = self.restarts + 1;
            *self = Self { restarts, ..Self::default() };
        }
        let before = before.filter(|_| self.generation > 0);
        let elapsed = before.as_ref().map(|before| sample.at.duration_since(before.at));
        self.generation += 1;
        self.busy = busy(before.as_ref().map(|before| &before.daemon), &sample.daemon, elapsed);
        self.total.iops = 0.0;
        self.total.bytes = 0.0;
        for (pane, key, io) in entries(&sample) {
            self.track(pane, key, io, elapsed);
        }
        self.tracks.retain(|_, track| track.generation == self.generation);
        if elapsed.is_some() {
            push(&mut self.total.history, self.total.iops);
        }
        self.sample = Some(sample);
    }

    fn track(&mut self, pane: Pane, key: String, io: Io, elapsed: Option<Duration>) {
        let generation = self.generation;
        // A row that is new in this sample began at zero.
        let new = || Track { last: Io::default(), rates: Rates::default(), generation };
        let track = self.tracks.entry((pane, key)).or_insert_with(new);
        track.generation = generation;
        match elapsed {
            Some(elapsed) => track.rates.update(&track.last, &io, elapsed.as_secs_f64()),
            None => track.rates.since_start(&io),
        }
        track.last = io;
        if pane == Pane::Devices {
            self.total.iops += track.rates.iops;
            self.total.bytes += track.rates.bytes;
        }
    }

    /// Returns the rates of a row; zero before there are two samples.
    pub(super) fn rates(&self, pane: Pane, key: &str) -> Rates {
        let track = self.tracks.get(&(pane, key.to_owned()));
        track.map(|track| track.rates.clone()).unwrap_or_default()
    }
}

/// Returns whether another process answers than before.
fn is_another(before: &Daemon, now: &Daemon) -> bool {
    before.pid != now.pid || before.uptime_seconds > now.uptime_seconds
}

/// Lists all rows of a sample: pane, key and counts.
fn entries(sample: &Sample) -> impl Iterator<Item = (Pane, String, Io)> {
    let classes =
        sample.classes.iter().map(|row| (Pane::Classes, row.name.clone(), row.io.clone()));
    let sessions =
        sample.sessions.iter().map(|row| (Pane::Sessions, row.name.clone(), row.io.clone()));
    let devices =
        sample.devices.iter().map(|row| (Pane::Devices, row.name.clone(), row.io.clone()));
    let hosts = sample.hosts.iter();
    let hosts = hosts.map(|row| (Pane::Hosts, host_key(&row.host, &row.subsystem), row.io.clone()));
    let workloads = sample.workloads.iter();
    let workloads = workloads.map(|row| (Pane::Workloads, row.key(), row.io.clone()));
    let links = sample.links.iter().map(|row| (Pane::Links, row.key(), counts(&row.flow)));
    let connections = sample.connections.iter();
    let connections = connections.map(|row| (Pane::Connections, row.key(), counts(&row.flow)));
    classes
        .chain(sessions)
        .chain(devices)
        .chain(hosts)
        .chain(workloads)
        .chain(links)
        .chain(connections)
}

/// Makes the key under which a host's rates are kept.
pub(super) fn host_key(host: &str, subsystem: &str) -> String {
    // No NQN contains a line break, since control characters are left out.
    format!("{host}\n{subsystem}")
}

fn busy(before: Option<&Daemon>, now: &Daemon, elapsed: Option<Duration>) -> Vec<(u64, f64)> {
    let (Some(before), Some(elapsed)) = (before, elapsed) else { return Vec::new() };
    let pairs = before.reactors.iter().zip(&now.reactors);
    let part = |((_, before), (core, now)): (&(u64, u64), &(u64, u64))| {
        let worked = Duration::from_nanos(now.saturating_sub(*before));
        (*core, (worked.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)).min(1.0))
    };
    pairs.map(part).collect()
}

impl Rates {
    fn update(&mut self, last: &Io, now: &Io, seconds: f64) {
        let seconds = seconds.max(1e-3);
        let rate = |last: u64, now: u64| now.saturating_sub(last) as f64 / seconds;
        self.iops = rate(last.operations, now.operations);
        self.bytes = rate(last.bytes, now.bytes);
        self.errors = rate(last.errors, now.errors);
        self.refused = rate(last.refused, now.refused);
        let done = now.operations.saturating_sub(last.operations);
        self.latency = Time::between(&last.latency, &now.latency, done);
        self.queueing = Time::between(&last.queueing, &now.queueing, done);
        self.service = Time::between(&last.service, &now.service, done);
        push(&mut self.history, self.iops);
    }

    fn since_start(&mut self, now: &Io) {
        self.latency = Time::since_start(&now.latency);
        self.queueing = Time::since_start(&now.queueing);
        self.service = Time::since_start(&now.service);
    }
}

impl Time {
    /// Computes the times of the `done` commands between two samples.
    fn between(last: &Times, now: &Times, done: u64) -> Self {
        let whole = Self::since_start(now);
        let mean = match (last.sum.unwrap_or(0), now.sum) {
            (last, Some(now)) if done > 0 => now.wrapping_sub(last) as f64 / done as f64,
            (_, Some(_)) => 0.0,
            (_, None) => whole.mean,
        };
        let p99 = match (&last.counts, &now.counts) {
            (_, None) => whole.p99,
            (None, Some(now)) => now.quantile(990).unwrap_or(0) as f64,
            (Some(last), Some(now)) => now.since(last).quantile(990).unwrap_or(0) as f64,
        };
        Self { mean, p99 }
    }

    fn since_start(now: &Times) -> Self {
        Self { mean: now.mean as f64, p99: now.p99 as f64 }
    }
}

fn push(history: &mut VecDeque<f64>, value: f64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}
