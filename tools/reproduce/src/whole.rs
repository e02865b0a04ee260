//! Whole targets, for figures about the daemon.
//!
//! All parts of the target come from `sluice_sim`, which runs the daemon's reactors, stages and controllers: this file
//! imports no other crate of the workspace, which `tests/figures.rs` checks.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use sluice_sim::load::Until;
use sluice_sim::model::{HostMeasured, LoadMeasured, LoadPlan, Measured, Plan, Transport};
use sluice_sim::network::{Control, RateControl, Sender};
use sluice_sim::scenario::Scenario;
use units::{Nanos, nanos};

use super::figure::Request;

/// The data that the hosts of a scenario moved, in Gb/s, in the order of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moved {
    /// Data of completed writes.
    pub(super) writes: Vec<f64>,
    /// Data of completed reads.
    pub(super) reads: Vec<f64>,
}

/// Runs a scenario; with `classes` the network's stage acts, without them the kernel's congestion control
/// alone decides. At reduced length half of the time is measured, and the warm-up is as long: classes take
/// hundreds of milliseconds to find their parts.
///
/// # Errors
///
/// The scenario cannot be run, or commands failed.
pub(super) fn run(scenario: &str, classes: bool, request: Request) -> anyhow::Result<Moved> {
    Ok(moved(&measure(scenario, classes, request, |_| ())?))
}

/// Runs a scenario whose plan is changed before, as [`run`] does.
///
/// # Errors
///
/// As [`run`].
pub(super) fn measure(
    scenario: &str,
    classes: bool,
    request: Request,
    change: impl FnOnce(&mut Plan),
) -> anyhow::Result<Measured> {
    let mut scenario = Scenario::parse(scenario)?;
    scenario.set_network_classes(classes);
    if request.quick {
        scenario.shorten(2);
    }
    sluice_sim::scenario::measure(&scenario, request.seed, change)
}

/// Computes the throughput of each host.
pub(super) fn moved(measured: &Measured) -> Moved {
    let rate = |bytes: u64| gigabits(bytes, measured.time);
    let each = |of: &dyn Fn(&LoadMeasured) -> u64| {
        let hosts = measured.hosts.iter();
        hosts.map(|host| rate(host.loads.iter().map(of).sum())).collect()
    };
    Moved { writes: each(&|load| load.write.bytes), reads: each(&|load| load.read.bytes) }
}

/// Finds the hosts of an entry of a scenario, which are NAME or NAME-NUMBER.
fn named<'a>(measured: &'a Measured, name: &'a str) -> impl Iterator<Item = &'a HostMeasured> {
    let of = move |host: &&HostMeasured| {
        let rest = host.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    measured.hosts.iter().filter(of)
}

/// Computes the throughput of an entry's hosts, reads and writes, in Gb/s.
pub(super) fn rate(measured: &Measured, name: &str) -> f64 {
    let loads = named(measured, name).flat_map(|host| &host.loads);
    gigabits(loads.map(|load| load.read.bytes + load.write.bytes).sum(), measured.time)
}

/// The latencies of the hosts of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    /// Percentiles in us: 50, 90 and 99.
    pub(super) percentiles: [f64; 3],
    /// Mean in us.
    pub(super) mean: f64,
    /// The part that took longer than the time that was asked for.
    pub(super) late: f64,
    /// The number of commands.
    pub(super) done: u64,
}

/// The percentiles of [`Latency`].
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];
/// Their names.
pub(super) const PERCENTS: [&str; 3] = ["50 %", "90 %", "99 %"];

/// Computes the latencies of the hosts of an entry, and which part took longer than `late`.
///
/// # Errors
///
/// Nothing was completed.
pub(super) fn latency(measured: &Measured, name: &str, late: Duration) -> anyhow::Result<Latency> {
    let done = || {
        let loads = named(measured, name).flat_map(|host| &host.loads);
        loads.flat_map(|load| [&load.read, &load.write])
    };
    let mut all = done().next().context("there is no such host")?.latency.clone();
    all.reset();
    for one in done() {
        all.add(&one.latency)?;
    }
    ensure!(!all.is_empty(), "{name} completed nothing");
    let limit = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
    let in_time = all.count_between(0, limit);
    Ok(Latency {
        percentiles: PERCENTILES.map(|percent| all.value_at_quantile(percent / 100.0) as f64 / 1e3),
        mean: all.mean() / 1e3,
        late: 1.0 - in_time as f64 / all.len() as f64,
        done: all.len(),
    })
}

/// Computes how long commands of the hosts of an entry were in their devices, as the target's own statistics have
/// it, to the width of a bucket: an eighth. `late` is 0.
///
/// # Errors
///
/// Nothing was completed.
pub(super) fn in_device(measured: &Measured, name: &str) -> anyhow::Result<Latency> {
    let named: Vec<&str> = self::named(measured, name).map(|host| host.name.as_str()).collect();
    let hosts = measured.hosts.iter().zip(&measured.statistics);
    let of = hosts.filter(|(host, _)| named.contains(&host.name.as_str()));
    let mut times = of.flat_map(|(_, loads)| loads).map(|load| &load.service);
    let mut all = times.next().context("there is no such host")?.clone();
    times.for_each(|of| all.merge(of));
    let done = all.count();
    ensure!(done > 0, "{name} completed nothing");
    Ok(Latency {
        percentiles: PERCENTILES.map(|percent| all.quantile_ns(percent / 100.0) as f64 / 1e3),
        mean: all.sum_ns as f64 / done as f64 / 1e3,
        late: 0.0,
        done,
    })
}

/// Computes how long commands of the hosts of an entry were in the target before their device in the mean, in us, as
/// the target's own statistics have it; 0 where nothing was completed.
pub(super) fn before_device(measured: &Measured, name: &str) -> f64 {
    let hosts = measured.hosts.iter().zip(&measured.statistics);
    let of = hosts.filter(|(host, _)| host.name == name);
    let loads = of.flat_map(|(_, loads)| loads).map(|load| &load.queueing);
    let (sum, count) = loads.fold((0, 0), |(sum, count), waits| {
        (waits.sum_ns.saturating_add(sum), waits.count().saturating_add(count))
    });
    sum as f64 / count.max(1) as f64 / 1e3
}

/// Connects the hosts of an entry over RDMA, with such control of rates at both ends.
pub(super) fn over_rdma(plan: &mut Plan, name: &str, control: RateControl) {
    for host in plan.hosts.iter_mut().filter(|host| host.name.starts_with(name)) {
        host.transport = Transport::Rdma;
        host.sender = Sender::Rate { control };
        host.answers = Some(host.sender);
    }
}

/// Sets Eq. 5 as printed in the sockets of an entry's hosts, at both ends, with a target in Gb/s that their connections
/// share.
pub(super) fn by_eq_5(plan: &mut Plan, name: &str, target: f64) {
    let hosts = plan.hosts.iter().filter(|host| host.name.starts_with(name));
    let connections: u16 = hosts.map(|host| host.queues).sum();
    let each = target * 1e9 / 8.0 / f64::from(connections.max(1));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    let control = Control::Qtcp { target: each as u64 };
    for host in plan.hosts.iter_mut().filter(|host| host.name.starts_with(name)) {
        host.sender = Sender::Window { control };
        host.answers = Some(host.sender);
    }
}

/// Computes the throughput of an entry's hosts in each interval: the time in ms, and Gb/s.
pub(super) fn over_time(measured: &Measured, name: &str) -> Vec<(f64, f64)> {
    let loads = named(measured, name).flat_map(|host| &host.loads);
    let each: Vec<&[u64]> = loads.map(|load| load.series.as_slice()).collect();
    points(&each, measured.interval)
}

/// Connects a host at a time from the start, and ends its loads at another.
pub(super) fn there(plan: &mut Plan, name: &str, from: Duration, to: Duration) {
    let end = Nanos(nanos(to));
    for host in plan.hosts.iter_mut().filter(|host| host.name == name) {
        host.begins = from;
        let loads = std::mem::take(&mut host.loads).into_iter();
        let until = |load: LoadPlan| {
            let source = Box::new(Until::new(load.source, end));
            LoadPlan { source, ..load }
        };
        host.loads = loads.map(until).collect();
    }
}

/// Computes what flows of others moved together in each interval: the time in ms, and Gb/s.
pub(super) fn others_over_time(measured: &Measured) -> Vec<(f64, f64)> {
    let each: Vec<&[u64]> = measured.others.iter().map(|of| of.series.as_slice()).collect();
    points(&each, measured.interval)
}

/// Adds up bytes by interval, and computes of each interval its middle in ms, and Gb/s.
fn points(each: &[&[u64]], interval: Duration) -> Vec<(f64, f64)> {
    let count = each.iter().map(|of| of.len()).max().unwrap_or(0);
    let at = |place: usize| {
        let bytes = each.iter().filter_map(|of| of.get(place)).sum();
        let middle = interval.as_secs_f64() * (place as f64 + 0.5) * 1e3;
        (middle, gigabits(bytes, interval))
    };
    (0..count).map(at).collect()
}

fn gigabits(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64().max(f64::MIN_POSITIVE) / 1e9
}
