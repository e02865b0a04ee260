//! The file of a scenario, as it is written. Tables that the daemon's configuration has too are spelled
//! as there (docs/reference/configuration.md).

use std::collections::BTreeMap;

use serde::Deserialize;
use units::Class;

use super::disk::DiskGeometry;
use super::error::{ScenarioError, value};
use super::goal::HostGoal;
use super::profile::DeviceProfile;
use super::value::{Bandwidth, Bits, Bytes, Count, LoadRate, Part, Time};
use crate::load::{Format, Places};
use crate::model::Transport;

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The question that the scenario answers, or its description.
    #[serde(default)]
    pub(super) title: String,
    pub(super) duration: Time,
    pub(super) warmup: Option<Time>,
    pub(super) interval: Option<Time>,
    pub(super) seed: Option<u64>,
    pub(super) topology: Topology,
    pub(super) tcp: Option<Tcp>,
    pub(super) rdma: Option<Rdma>,
    #[serde(default)]
    pub(super) target: Target,
    #[serde(default)]
    pub(super) qos: Qos,
    #[serde(default)]
    pub(super) network: Network,
    #[serde(default, rename = "session")]
    pub(super) sessions: Vec<Session>,
    #[serde(default, rename = "namespace")]
    pub(super) namespaces: Vec<Namespace>,
    #[serde(default, rename = "host")]
    pub(super) hosts: Vec<Host>,
}

/// `[topology]`: cables and switches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) kind: TopologyKind,
    pub(super) rate: Bits,
    pub(super) target_rate: Option<Bits>,
    pub(super) between: Option<Bits>,
    pub(super) pods: Option<u32>,
    pub(super) delay: Option<Time>,
    pub(super) mtu: Option<u32>,
    pub(super) buffer: Option<Bytes>,
    pub(super) threshold: Option<u32>,
    pub(super) urgent_first: Option<bool>,
    pub(super) urgent_buffer: Option<Bytes>,
    pub(super) pause: Option<Bytes>,
    pub(super) resume: Option<Bytes>,
    pub(super) loss: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TopologyKind {
    /// All hosts and the target at one switch.
    Rack,
    /// The hosts at one switch, the target at another.
    Dumbbell,
    /// A fat tree of three levels.
    FatTree,
}

/// `[tcp]`: the kernels' TCP.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tcp {
    #[serde(default)]
    pub(super) control: TcpControl,
    pub(super) ecn: Option<bool>,
}

/// Congestion controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TcpControl {
    #[default]
    Dctcp,
    Cubic,
    Reno,
}

/// `[rdma]`: the adapters of hosts over RDMA, and the target's for them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rdma {
    #[serde(default)]
    pub(super) control: RdmaControl,
}

/// The limit of queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RdmaControl {
    /// DCQCN with the settings of its paper, at the rate of the adapter's cable.
    #[default]
    Dcqcn,
    /// The rate of the adapter's cable.
    Line,
}

/// `[target]`: keys of the daemon's `[target]`, and the CPU costs of its machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) reactors: Option<usize>,
    pub(super) io_memory: Option<Bytes>,
    pub(super) max_transfer: Option<Bytes>,
    pub(super) in_capsule_data: Option<Bytes>,
    pub(super) rdma_in_capsule_data: Option<Bytes>,
    pub(super) queue_depth: Option<u16>,
    pub(super) turn_time: Option<Time>,
    pub(super) command_time: Option<Time>,
    pub(super) sent_per_second: Option<Bandwidth>,
    pub(super) received_per_second: Option<Bandwidth>,
}

/// `[qos]`, as the daemon's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Qos {
    pub(super) enabled: Option<bool>,
    pub(super) weights: Option<[u16; 3]>,
    pub(super) unit: Option<Unit>,
    pub(super) burst: Option<Burst>,
    pub(super) urgent_share: Option<Part>,
    pub(super) window: Option<Window>,
    pub(super) latency_target: Option<Time>,
    pub(super) window_max: Option<u32>,
    #[serde(alias = "operations")]
    pub(super) credits: Option<u32>,
    pub(super) payload: Option<Bytes>,
    pub(super) queue: Option<u32>,
    pub(super) wrr: Option<bool>,
    pub(super) mark: Option<bool>,
}

/// The unit in which shares are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    Commands,
    Bytes,
    Time,
}

/// A number of commands, or no limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a burst is 1 to 64 commands, or \"unlimited\"")]
pub(super) enum Burst {
    Commands(u16),
    Word(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a window is 1 to 65536 commands, \"off\" or \"adaptive\"")]
pub(super) enum Window {
    Commands(u32),
    Word(String),
}

/// `[network]`, as the daemon's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    pub(super) enabled: Option<bool>,
    pub(super) writes: Option<bool>,
    pub(super) capacity: Option<String>,
    #[serde(default)]
    pub(super) classes: BTreeMap<ClassName, Goal>,
}

/// The name of a class, as scenarios and the daemon's configuration spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassName {
    /// `urgent`.
    Urgent,
    /// `high`.
    High,
    /// `medium`.
    Medium,
    /// `low`.
    Low,
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::Urgent => Self::Urgent,
            ClassName::High => Self::High,
            ClassName::Medium => Self::Medium,
            ClassName::Low => Self::Low,
        }
    }
}

/// The goal of a class on the link.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a goal is { share = 3 }, { rate = \"2 Gbit/s\" }, { latency = \"2 ms\" } or \"free\""
)]
pub(super) enum Goal {
    Word(String),
    Table(GoalTable),
}

/// A goal with a number: one of these.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalTable {
    pub(super) share: Option<f64>,
    pub(super) rate: Option<Bits>,
    pub(super) latency: Option<Time>,
}

/// `[[session]]`, as the daemon's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) parent: Option<String>,
    #[serde(alias = "operations")]
    pub(super) credit_share: Option<Part>,
    #[serde(alias = "payload")]
    pub(super) payload_share: Option<Part>,
    pub(super) iops: Option<Count>,
    pub(super) bandwidth: Option<Bandwidth>,
    pub(super) read_iops: Option<Count>,
    pub(super) read_bandwidth: Option<Bandwidth>,
    pub(super) write_iops: Option<Count>,
    pub(super) write_bandwidth: Option<Bandwidth>,
    pub(super) burst: Option<Time>,
    pub(super) queue: Option<u32>,
    pub(super) weight: Option<u16>,
    pub(super) reserve: Option<Reserve>,
}

/// `reserve`, as the daemon's; the namespace by its number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserve {
    #[serde(alias = "operations")]
    pub(super) commands: Option<Count>,
    pub(super) bytes: Option<Bytes>,
    pub(super) time: Option<Time>,
    pub(super) period: Option<Time>,
    pub(super) request_size: Option<Bytes>,
    pub(super) writes: Option<Part>,
    pub(super) latency: Option<Time>,
    pub(super) burst: Option<u32>,
    pub(super) buffers: Option<u32>,
    pub(super) locality: Option<LocalityName>,
    pub(super) namespace: Option<usize>,
}

/// The places of a reservation's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LocalityName {
    Random,
    Sequential,
}

/// `[[namespace]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Namespace {
    pub(super) device: DeviceKind,
    pub(super) size: Option<Bytes>,
    pub(super) ssd: Option<Ssd>,
    pub(super) disk: Option<DiskGeometry>,
    pub(super) pm: Option<Pm>,
    pub(super) profile: Option<DeviceProfile>,
    pub(super) window: Option<Window>,
    pub(super) window_max: Option<u32>,
    pub(super) latency_target: Option<Time>,
    pub(super) mean_time: Option<Time>,
    pub(super) worst_time: Option<Time>,
    pub(super) parallelism: Option<u32>,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeviceKind {
    /// Memory, without a time of its own.
    Memory,
    /// A drive of flash.
    Ssd,
    /// A hard disk.
    Disk,
    /// Persistent memory.
    Pm,
    /// A device of which measured times are known.
    Profile,
}

/// `ssd`: the properties of a drive of flash.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ssd {
    pub(super) channels: Option<u32>,
    pub(super) chips: Option<u32>,
    pub(super) dies: Option<u32>,
    pub(super) planes: Option<u32>,
    pub(super) blocks: Option<u32>,
    pub(super) pages: Option<u32>,
    pub(super) page: Option<Bytes>,
    pub(super) read: Option<Time>,
    pub(super) program: Option<Time>,
    pub(super) erase: Option<Time>,
    pub(super) channel_rate: Option<Bandwidth>,
    pub(super) host_rate: Option<Bandwidth>,
    pub(super) controller: Option<Time>,
    pub(super) write_buffer: Option<Bytes>,
    pub(super) spare: Option<Part>,
    pub(super) collect_below: Option<Part>,
    pub(super) order: Option<ChipOrder>,
}

/// The order in which a drive's chips serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChipOrder {
    /// In order of arrival: as drives that know no classes.
    Arrival,
    /// By class, with the weights of `[qos]`.
    Classes,
}

/// `pm`: the properties of persistent memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pm {
    pub(super) least: Option<Time>,
    pub(super) longest: Option<Time>,
    pub(super) rate: Option<Bandwidth>,
}

/// `[[host]]`: a host, or several that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) name: String,
    #[serde(default)]
    pub(super) transport: Transport,
    pub(super) count: Option<u32>,
    pub(super) rate: Option<Bits>,
    pub(super) class: Option<ClassName>,
    pub(super) session: Option<String>,
    pub(super) queues: Option<u16>,
    pub(super) depth: Option<u16>,
    pub(super) begins: Option<Time>,
    pub(super) goal: Option<HostGoal>,
    #[serde(default, rename = "load")]
    pub(super) loads: Vec<Load>,
}

/// `[[host.load]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) process: ProcessName,
    pub(super) namespace: Option<usize>,
    pub(super) class: Option<ClassName>,
    pub(super) rate: Option<LoadRate>,
    pub(super) depth: Option<u32>,
    pub(super) count: Option<u32>,
    pub(super) on: Option<Time>,
    pub(super) off: Option<Time>,
    pub(super) reads: Option<Part>,
    pub(super) size: Option<SizeValue>,
    pub(super) places: Option<Places>,
    pub(super) begins: Option<Time>,
    pub(super) file: Option<String>,
    pub(super) format: Option<Format>,
    pub(super) speed: Option<f64>,
}

/// How accesses come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProcessName {
    Constant,
    Poisson,
    Burst,
    OnOff,
    Closed,
    Trace,
}

/// A size, or how sizes are distributed.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a size is \"64 KiB\", { mean = \"32 KiB\", most = \"1 MiB\" } or { least = \"4 KiB\", \
                 most = \"64 KiB\" }"
)]
pub(super) enum SizeValue {
    Fixed(Bytes),
    Distributed(Distributed),
}

/// How sizes are distributed: `mean` with `most`, or `least` with `most` and `step`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Distributed {
    pub(super) mean: Option<Bytes>,
    pub(super) least: Option<Bytes>,
    pub(super) most: Bytes,
    pub(super) step: Option<Bytes>,
}

/// Returns the index of a namespace that is named by its number, from 1.
pub(super) fn namespace(
    file: &File,
    at: &str,
    number: Option<usize>,
) -> Result<usize, ScenarioError> {
    let number = number.unwrap_or(1);
    if (1..=file.namespaces.len()).contains(&number) {
        return Ok(number - 1);
    }
    let must = format!("write 1 to {}, or add a [[namespace]]", file.namespaces.len());
    Err(value(format!("{at}.namespace"), number, must))
}
