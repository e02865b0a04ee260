//! What the daemon answers, as far as it is shown. Whatever is missing counts as zero, so that a
//! daemon of another version can be looked at too.

use std::time::Instant;

use serde_json::Value;
use sluice_schema::Method;

use super::client::Client;
use super::histogram::Histogram;
use super::network::{self, Connection, LinkClass};

/// Everything at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) daemon: Daemon,
    /// The settings in a few words; none: the daemon has no quality of service.
    pub(super) order: Option<String>,
    pub(super) classes: Vec<Class>,
    pub(super) sessions: Vec<Session>,
    pub(super) devices: Vec<Device>,
    pub(super) hosts: Vec<Host>,
    /// Whether classes share the network; none: the daemon does not know such a thing.
    pub(super) network: Option<bool>,
    pub(super) links: Vec<LinkClass>,
    pub(super) connections: Vec<Connection>,
}

/// What a daemon answers; none where it does not know the method.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) status: Value,
    pub(super) statistics: Value,
    pub(super) qos: Option<Value>,
    pub(super) network: Option<Value>,
    pub(super) connections: Value,
}

/// The daemon itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Daemon {
    pub(super) version: String,
    pub(super) pid: u64,
    pub(super) uptime_seconds: u64,
    pub(super) connections: u64,
    /// CPU and time spent working, ns, of each reactor.
    pub(super) reactors: Vec<(u64, u64)>,
}

/// What was carried out since the daemon started.
#[derive(Clone, Debug, Default)]
pub(super) struct Io {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    /// Told to come again later.
    pub(super) refused: u64,
    /// From a command's arrival to its answer.
    pub(super) latency: Times,
    pub(super) queueing: Times,
    pub(super) service: Times,
}

/// Times of commands since the daemon started, ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) mean: u64,
    pub(super) p99: u64,
    /// Of all commands together, if the daemon says; begins anew at 2^64.
    pub(super) sum: Option<u64>,
    /// How many commands took how long, if the daemon says.
    pub(super) counts: Option<Histogram>,
}

#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) waiting: u64,
    pub(super) io: Io,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) parent: String,
    pub(super) waiting: u64,
    /// Credits in use, and what there are.
    pub(super) operations: (u64, u64),
    /// The same in bytes.
    pub(super) payload: (u64, u64),
    pub(super) iops: Option<u64>,
    pub(super) bandwidth: Option<u64>,
    pub(super) reserve: Option<Reserve>,
    pub(super) io: Io,
}

#[derive(Clone, Debug)]
pub(super) struct Reserve {
    pub(super) terms: String,
    pub(super) periods: u64,
    pub(super) kept: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    /// NQN/NSID.
    pub(super) name: String,
    /// Whether the stages say anything of it.
    pub(super) known: bool,
    pub(super) window: Option<f64>,
    pub(super) in_use: f64,
    /// Urgent, High, Medium, Low.
    pub(super) waiting: [u64; 4],
    /// Of a read and of a write, ns.
    pub(super) mean_ns: (u64, u64),
    /// 0 to 1.
    pub(super) reserved: f64,
    pub(super) io: Io,
}

#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) host: String,
    pub(super) subsystem: String,
    pub(super) io: Io,
}

impl Sample {
    /// Asks the daemon.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub(super) fn take(client: &mut Client) -> anyhow::Result<Self> {
        let answers = Answers {
            status: client.call(Method::Status)?.unwrap_or_default(),
            statistics: client.call_for_buckets(Method::Statistics)?.unwrap_or_default(),
            qos: client.call_for_buckets(Method::QosShow)?,
            network: client.call(Method::NetworkShow)?,
            connections: client.call(Method::Connections)?.unwrap_or_default(),
        };
        Ok(Self::of(Instant::now(), &answers))
    }

    /// From the answers.
    pub(super) fn of(at: Instant, answers: &Answers) -> Self {
        let nothing = Value::Null;
        let stages = answers.qos.as_ref().unwrap_or(&nothing);
        let network = answers.network.as_ref();
        Self {
            at,
            daemon: daemon(&answers.status),
            order: answers.qos.as_ref().map(order),
            classes: rows(stages, "classes").iter().map(class).collect(),
            sessions: rows(stages, "sessions").iter().map(session).collect(),
            devices: devices(&answers.statistics, stages),
            hosts: rows(&answers.statistics, "hosts").iter().map(host).collect(),
            network: network.and_then(|network| network.get("enabled")?.as_bool()),
            links: network.map(network::links).unwrap_or_default(),
            connections: network::connections(&answers.connections),
        }
    }
}

fn daemon(status: &Value) -> Daemon {
    let reactor = |row: &Value| (number(row, "core"), number(row, "busy_ns"));
    Daemon {
        version: text(status, "version"),
        pid: number(status, "pid"),
        uptime_seconds: number(status, "uptime_seconds"),
        connections: number(status, "connections"),
        reactors: rows(status, "reactors").iter().map(reactor).collect(),
    }
}

/// "weights 3:2:1 by commands, window 128".
fn order(qos: &Value) -> String {
    if qos.get("enabled") == Some(&Value::Bool(false)) {
        return "quality of service is off".to_owned();
    }
    let weights = match qos.get("weights") {
        Some(Value::Array(all)) => all.iter().map(Value::to_string).collect::<Vec<_>>(),
        Some(of) => ["high", "medium", "low"].map(|class| number(of, class).to_string()).into(),
        None => Vec::new(),
    };
    let window = match qos.get("window") {
        Some(Value::Object(rule)) => {
            rule.get("mode").map_or("set", |m| m.as_str().unwrap_or("set")).to_owned()
        }
        _ => text(qos, "window"),
    };
    let parts = [("weights", weights.join(":")), ("by", text(qos, "unit")), ("window", window)];
    let parts = parts.iter().filter(|(_, value)| !value.is_empty());
    parts.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn class(row: &Value) -> Class {
    Class { name: text(row, "class"), waiting: number(row, "waiting"), io: io(row) }
}

fn session(row: &Value) -> Session {
    let pair = |key: &str| {
        let pair = row.get(key).unwrap_or(&Value::Null);
        (number(pair, "used"), number(pair, "credits"))
    };
    let reserve = row.get("reserve").filter(|reserve| !reserve.is_null());
    Session {
        name: text(row, "name"),
        parent: text(row, "parent"),
        waiting: number(row, "waiting"),
        operations: pair("operations"),
        payload: pair("payload"),
        iops: row.get("iops").and_then(Value::as_u64),
        bandwidth: row.get("bandwidth").and_then(Value::as_u64),
        reserve: reserve.map(|reserve| Reserve {
            terms: text(reserve, "terms"),
            periods: number(reserve, "periods"),
            kept: number(reserve, "kept"),
        }),
        io: io(row),
    }
}

/// The namespaces, with what the stages say of their devices.
fn devices(statistics: &Value, qos: &Value) -> Vec<Device> {
    let place = |row: &Value| (text(row, "subsystem"), number(row, "nsid"));
    let stages: std::collections::BTreeMap<_, _> =
        rows(qos, "devices").iter().map(|row| (place(row), row)).collect();
    let device = |row: &Value| {
        let stage = stages.get(&place(row)).copied().unwrap_or(&Value::Null);
        let waiting = stage.get("waiting").unwrap_or(&Value::Null);
        let mean = stage.get("mean_ns").unwrap_or(&Value::Null);
        Device {
            name: format!("{}/{}", text(row, "subsystem"), number(row, "nsid")),
            known: !stage.is_null(),
            window: stage.get("window").and_then(Value::as_f64),
            in_use: fraction(stage, "in_use"),
            waiting: ["urgent", "high", "medium", "low"].map(|class| number(waiting, class)),
            mean_ns: (number(mean, "read"), number(mean, "write")),
            reserved: fraction(stage, "reserved"),
            io: io(row),
        }
    };
    rows(statistics, "namespaces").iter().map(device).collect()
}

fn host(row: &Value) -> Host {
    Host { host: text(row, "host"), subsystem: text(row, "subsystem"), io: io(row) }
}

/// The sums over reads, writes and others of a row's `io`.
fn io(row: &Value) -> Io {
    let io = row.get("io").unwrap_or(&Value::Null);
    let all = || ["read", "write", "other"].into_iter().filter_map(|kind| io.get(kind));
    let sum = |key: &str| all().map(|kind| number(kind, key)).fold(0, u64::saturating_add);
    Io {
        operations: sum("operations"),
        bytes: sum("bytes"),
        errors: sum("errors"),
        refused: number(row, "refused"),
        latency: latency(all()),
        queueing: times(io, "queueing"),
        service: times(io, "service"),
    }
}

/// Of operations of several kinds together; of p99, the kind's with the highest.
fn latency<'a>(kinds: impl Iterator<Item = &'a Value>) -> Times {
    let (mut count, mut total) = (0u64, 0u128);
    let start = Times { sum: Some(0), counts: Some(Histogram::default()), ..Times::default() };
    let all = kinds.fold(start, |mut all, kind| {
        let (done, times) = (number(kind, "operations"), times(kind, "latency"));
        count = count.saturating_add(done);
        total += u128::from(done) * u128::from(times.mean);
        all.p99 = all.p99.max(times.p99);
        all.sum = all.sum.zip(times.sum).map(|(all, sum)| all.wrapping_add(sum));
        all.counts = all.counts.zip(times.counts).map(|(mut all, counts)| {
            all.merge(&counts);
            all
        });
        all
    });
    let mean = total.checked_div(u128::from(count)).unwrap_or(0);
    Times { mean: u64::try_from(mean).unwrap_or(u64::MAX), ..all }
}

/// Under `key`, or under `key` with its unit.
fn times(io: &Value, key: &str) -> Times {
    let with_unit = format!("{key}_ns");
    let times = io.get(key).or_else(|| io.get(with_unit.as_str())).unwrap_or(&Value::Null);
    Times {
        mean: number(times, "mean"),
        p99: number(times, "p99"),
        sum: times.get("sum").and_then(Value::as_u64),
        counts: times.get("buckets").and_then(Histogram::of),
    }
}

pub(super) fn rows<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn fraction(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

pub(super) fn text(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => String::new(),
        // Nothing that a terminal would take for a command, whatever a host calls itself.
        Some(Value::String(text)) => text.chars().filter(|c| !c.is_control()).collect(),
        Some(other) => other.to_string(),
    }
}
