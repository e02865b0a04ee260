//! The shown part of the daemon's answers. A missing value counts as zero, so that daemons of other
//! versions can be shown too.

use std::time::Instant;

use serde::Deserialize as _;
use serde_json::Value;
use sluice_config::Method;
use sluice_config::answer::Limits;

use super::answer::{fraction, number, rows, text};
use super::client::Client;
use super::io::Io;
use super::network::{self, ConnectionSample, LinkClass};

/// A sample of the daemon at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) daemon: Daemon,
    /// The settings in a few words; `None` where the daemon has no quality of service.
    pub(super) order: Option<String>,
    pub(super) classes: Vec<ClassSample>,
    pub(super) sessions: Vec<SessionSample>,
    pub(super) devices: Vec<DeviceSample>,
    pub(super) hosts: Vec<HostSample>,
    pub(super) workloads: Vec<WorkloadSample>,
    /// Whether classes share the network; `None` where the daemon does not know the method.
    pub(super) network: Option<bool>,
    pub(super) links: Vec<LinkClass>,
    pub(super) connections: Vec<ConnectionSample>,
}

/// The answers of a daemon; `None` where it does not know the method.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) status: Value,
    pub(super) statistics: Value,
    pub(super) qos: Option<Value>,
    pub(super) network: Option<Value>,
    pub(super) connections: Value,
}

/// The facts of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Daemon {
    pub(super) version: String,
    pub(super) pid: u64,
    pub(super) uptime_seconds: u64,
    pub(super) connections: u64,
    /// The CPU and the time spent working, in ns, of each reactor.
    pub(super) reactors: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub(super) struct ClassSample {
    pub(super) name: String,
    pub(super) waiting: u64,
    pub(super) io: Io,
}

#[derive(Clone, Debug)]
pub(super) struct SessionSample {
    pub(super) name: String,
    pub(super) parent: String,
    pub(super) waiting: u64,
    /// The credits in use, and all of them, in commands.
    pub(super) operations: (u64, u64),
    /// The payload credits in use, and all of them, in bytes.
    pub(super) payload: (u64, u64),
    pub(super) limits: Limits,
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
pub(super) struct DeviceSample {
    /// The namespace as NQN/NSID.
    pub(super) name: String,
    /// Whether the daemon's stages of quality of service know the device.
    pub(super) known: bool,
    pub(super) window: Option<f64>,
    pub(super) in_use: f64,
    /// The commands that wait: Urgent, High, Medium, Low.
    pub(super) waiting: [u64; 4],
    /// The mean times of a read and of a write, in ns.
    pub(super) mean_ns: (u64, u64),
    /// The reserved share, 0 to 1.
    pub(super) reserved: f64,
    pub(super) io: Io,
}

#[derive(Clone, Debug)]
pub(super) struct HostSample {
    pub(super) host: String,
    pub(super) subsystem: String,
    pub(super) io: Io,
}

/// Counters of a host's commands in a class at a namespace.
#[derive(Clone, Debug)]
pub(super) struct WorkloadSample {
    pub(super) host: String,
    /// The namespace: `NQN/NSID`.
    pub(super) namespace: String,
    pub(super) class: String,
    pub(super) io: Io,
}

impl WorkloadSample {
    /// Makes the key under which its rates are kept.
    pub(super) fn key(&self) -> String {
        format!("{}\n{}\n{}", self.host, self.namespace, self.class)
    }
}

impl Sample {
    /// Asks the daemon.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
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

    /// Makes the sample from the answers.
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
            workloads: rows(&answers.statistics, "workloads").iter().map(workload).collect(),
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

/// Writes the settings, as in "weights 3:2:1 by commands, window 128".
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

fn class(row: &Value) -> ClassSample {
    ClassSample { name: text(row, "class"), waiting: number(row, "waiting"), io: Io::of(row) }
}

fn session(row: &Value) -> SessionSample {
    let pair = |key: &str| {
        let pair = row.get(key).unwrap_or(&Value::Null);
        (number(pair, "used"), number(pair, "credits"))
    };
    let reserve = row.get("reserve").filter(|reserve| !reserve.is_null());
    SessionSample {
        name: text(row, "name"),
        parent: text(row, "parent"),
        waiting: number(row, "waiting"),
        operations: pair("commands"),
        payload: pair("payload"),
        limits: Limits::deserialize(row).unwrap_or_default(),
        reserve: reserve.map(|reserve| Reserve {
            terms: text(reserve, "terms"),
            periods: number(reserve, "periods"),
            kept: number(reserve, "kept"),
        }),
        io: Io::of(row),
    }
}

/// Reads the namespaces, with the QoS stage's state of their devices.
fn devices(statistics: &Value, qos: &Value) -> Vec<DeviceSample> {
    let place = |row: &Value| (text(row, "subsystem"), number(row, "nsid"));
    let stages: std::collections::BTreeMap<_, _> =
        rows(qos, "devices").iter().map(|row| (place(row), row)).collect();
    let device = |row: &Value| {
        let stage = stages.get(&place(row)).copied().unwrap_or(&Value::Null);
        let waiting = stage.get("waiting").unwrap_or(&Value::Null);
        let mean = stage.get("mean_ns").unwrap_or(&Value::Null);
        DeviceSample {
            name: format!("{}/{}", text(row, "subsystem"), number(row, "nsid")),
            known: !stage.is_null(),
            window: stage.get("window").and_then(Value::as_f64),
            in_use: fraction(stage, "in_use"),
            waiting: ["urgent", "high", "medium", "low"].map(|class| number(waiting, class)),
            mean_ns: (number(mean, "read"), number(mean, "write")),
            reserved: fraction(stage, "reserved"),
            io: Io::of(row),
        }
    };
    rows(statistics, "namespaces").iter().map(device).collect()
}

fn host(row: &Value) -> HostSample {
    HostSample { host: text(row, "host"), subsystem: text(row, "subsystem"), io: Io::of(row) }
}

fn workload(row: &Value) -> WorkloadSample {
    WorkloadSample {
        host: text(row, "host"),
        namespace: format!("{}/{}", text(row, "subsystem"), number(row, "nsid")),
        class: text(row, "class"),
        io: Io::of(row),
    }
}
