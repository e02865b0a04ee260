//! What the control plane asks of the running target: the boundary between the control socket
//! and the reactors.

use std::net::SocketAddr;

use arbitration::{Class, PerClass};
use serde::Serialize;
use thiserror::Error;

use crate::config::{Listener, Namespace, Network, QosConfig, Subsystem};
use crate::ended::HostKey;
use crate::stats::{HistogramSnapshot, IoSnapshot};

/// A change that the running target refuses, with the reason and what would be right.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The object that the change names is not there.
    #[error("{0}")]
    NotFound(String),
    /// The object that the change adds is there already.
    #[error("{0}")]
    Exists(String),
    /// The change asks for something that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused (a port in use, a device that does not open).
    #[error("{0}")]
    System(String),
    /// The target could do it, but hosts or data would be hurt: only with `force`.
    #[error("{0}")]
    Refused(String),
}

/// A running target. All methods may be called from any thread but a reactor; each takes effect
/// before it returns, and is all or nothing.
pub trait Engine: Send + Sync {
    /// Adds a subsystem with its namespaces.
    fn add_subsystem(&self, subsystem: &Subsystem) -> Result<(), EngineError>;
    /// Removes a subsystem; its controllers' connections end.
    fn remove_subsystem(&self, nqn: &str) -> Result<(), EngineError>;
    /// Adds a namespace; answers its NSID. Hosts are told by an asynchronous event.
    fn add_namespace(&self, nqn: &str, namespace: &Namespace) -> Result<u32, EngineError>;
    /// Removes a namespace. Hosts are told by an asynchronous event.
    fn remove_namespace(&self, nqn: &str, nsid: u32) -> Result<(), EngineError>;
    /// Sets a namespace's size in bytes, or with `None` takes the size that its file or device
    /// has now; answers the size. Hosts are told by an asynchronous event.
    fn resize_namespace(&self, nqn: &str, nsid: u32, size: Option<u64>)
    -> Result<u64, EngineError>;
    /// Tries to open namespaces that are not available, of one subsystem or one alone: those that
    /// could be opened are available when this returns.
    fn retry_namespaces(&self, nqn: Option<&str>, nsid: Option<u32>);
    /// The NQNs of connected hosts that would lose something by a change; none too where what it
    /// names is not there.
    fn hosts_hurt(&self, loss: &Loss<'_>) -> Vec<String>;
    /// Starts listening.
    fn add_listener(&self, listener: &Listener) -> Result<(), EngineError>;
    /// Stops listening; connections that came through it end.
    fn remove_listener(&self, address: SocketAddr) -> Result<(), EngineError>;
    /// Lets a host connect to a subsystem.
    fn add_host(&self, nqn: &str, host: &str) -> Result<(), EngineError>;
    /// Refuses a host from now on; its controllers' connections end.
    fn remove_host(&self, nqn: &str, host: &str) -> Result<(), EngineError>;
    /// Sets whether any host may connect to a subsystem. With `false`, connections of hosts that
    /// are not allowed end.
    fn set_allow_any_host(&self, nqn: &str, allow: bool) -> Result<(), EngineError>;
    /// Sets the class of a listener's connections, present ones included.
    fn set_listener_class(
        &self,
        address: SocketAddr,
        class: Option<Class>,
    ) -> Result<(), EngineError>;
    /// Sets the link that a listener's connections share, present ones included; `None`: the
    /// default one.
    fn set_listener_link(&self, address: SocketAddr, link: Option<&str>)
    -> Result<(), EngineError>;
    /// Sets a namespace's class.
    fn set_namespace_class(
        &self,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> Result<(), EngineError>;
    /// Replaces the whole of what `[qos]`, `[[session]]` and `[[policy]]` say. A reservation
    /// that does not fit is refused, with what is left and what would fit.
    fn set_qos(&self, qos: &QosConfig) -> Result<(), EngineError>;
    /// What `[qos]`, `[[session]]` and `[[policy]]` say now.
    fn qos_config(&self) -> QosConfig;
    /// What the stages do now.
    fn qos(&self) -> QosState;
    /// Replaces the whole of what `[network]` and `[[link]]` say.
    fn set_network(&self, network: &Network) -> Result<(), EngineError>;
    /// What `[network]` and `[[link]]` say now.
    fn network_config(&self) -> Network;
    /// What classes get of the network now.
    fn network(&self) -> NetworkState;
    /// The present listeners.
    fn listeners(&self) -> Vec<Listener>;
    /// The present subsystems with their namespaces as they are now.
    fn subsystems(&self) -> Vec<SubsystemState>;
    /// The present connections.
    fn connections(&self) -> Vec<ConnectionState>;
    /// Counters and histograms.
    fn statistics(&self) -> Statistics;
    /// Begins to end the target: no new commands, in-flight ones settled, hosts told. With
    /// `now`, ends at once.
    fn shutdown(&self, now: bool);
}

/// What a change takes from hosts that are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss<'a> {
    /// A subsystem, by its NQN.
    Subsystem(&'a str),
    /// A namespace, by its subsystem's NQN and its NSID.
    Namespace(&'a str, u32),
    /// What lies beyond a namespace's new size in bytes; without one, beyond the size that its
    /// file or device has now. Nothing is lost where that is not less than its present size.
    Size(&'a str, u32, Option<u64>),
    /// A listener, by its address.
    Listener(SocketAddr),
    /// A host's permission to use a subsystem: the subsystem's NQN and the host's.
    Host(&'a str, &'a str),
    /// The permission of all hosts that a subsystem's list does not name.
    UnlistedHosts(&'a str),
}

/// A subsystem as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubsystemState {
    /// Its NQN.
    pub nqn: String,
    /// Serial number.
    pub serial: String,
    /// Model number.
    pub model: String,
    /// Whether any host may connect.
    pub allow_any_host: bool,
    /// The hosts that may connect.
    pub hosts: Vec<String>,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceState>,
}

/// A namespace as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceState {
    /// Namespace identifier.
    pub nsid: u32,
    /// `null`, `memory`, `file`, `block` or `nvme`.
    pub backend: String,
    /// The file or device, where there is one.
    pub path: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// Logical block size in bytes.
    pub block_size: u32,
    /// UUID.
    pub uuid: String,
    /// NGUID, 32 hexadecimal digits.
    pub nguid: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The hosts that see it; none: all that the subsystem allows.
    pub hosts: Option<Vec<String>>,
    /// Whether it serves.
    pub state: Availability,
    /// What is wrong and since when; `None` while nothing is.
    pub reason: Option<String>,
    /// Commands that its device answered with an error, since the daemon's start.
    pub errors: u64,
}

/// Whether a namespace serves its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// Its device works.
    #[default]
    Ready,
    /// It serves, but its device has answered with errors.
    Errors,
    /// Its device is not open, or gone: hosts are told to come again later.
    Unavailable,
}

impl Availability {
    /// `ready`, `errors` or `unavailable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Errors => "errors",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A connection (one queue pair of one controller) as it is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionState {
    /// Unique in this run.
    pub id: u64,
    /// The host's address.
    pub peer: String,
    /// The listener's address.
    pub listener: String,
    /// Index of the reactor that serves it.
    pub reactor: usize,
    /// The host's NQN; none before Connect.
    pub host: Option<String>,
    /// The subsystem's NQN; none before Connect.
    pub subsystem: Option<String>,
    /// Controller identifier.
    pub controller: Option<u16>,
    /// Queue identifier: 0 is the admin queue.
    pub queue: Option<u16>,
    /// Commands in the target now.
    pub in_flight: u32,
    /// Header digest, data digest.
    pub digests: (bool, bool),
    /// What it gets of the network; none where nothing is known yet, or stage S6 is off.
    pub network: Option<ConnectionNetwork>,
}

impl ConnectionState {
    /// The host and the subsystem that it is of; `None` where it carries no I/O commands.
    #[must_use]
    pub fn host_key(&self) -> Option<HostKey> {
        self.queue.filter(|queue| *queue > 0)?;
        Some((self.host.clone()?, self.subsystem.clone()?))
    }
}

/// What a connection gets of the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionNetwork {
    /// The link that it is on.
    pub link: String,
    /// Its class.
    pub class: String,
    /// The kernel's congestion control under it.
    pub base: String,
    /// Round-trip time in microseconds, queues included.
    pub rtt_us: u64,
    /// What the target sends: answers and data that hosts read.
    pub out: FlowState,
    /// What the host sends: data that it writes. As JSON its name is `in`.
    #[serde(rename = "in")]
    pub into: FlowState,
}

/// One direction of a connection. Rates are in bits of payload per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FlowState {
    /// The smoothed rate.
    pub rate: f64,
    /// What it is to have; none: whatever it gets.
    pub target: Option<f64>,
    /// What it may have at most now; none: it is not held back.
    pub limit: Option<f64>,
    /// The smoothed fraction of marked packets.
    pub alpha: f64,
    /// The quality factor Q.
    pub quality: f64,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets that carried a congestion mark.
    pub marked: u64,
}

/// What classes get of the network.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NetworkState {
    /// Whether stage S6 is on.
    pub enabled: bool,
    /// The kernel's congestion control under new connections.
    pub base: String,
    /// What this kernel lacks for the stage to work well, and what to do about it.
    pub advice: Vec<String>,
    /// For each link, the default one first.
    pub links: Vec<LinkState>,
}

/// A link as it is now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// What the configuration says of its capacity, in bits per second; none: `auto`.
    pub capacity: Option<u64>,
    /// What the target sends.
    pub out: DirectionState,
    /// What hosts send. As JSON its name is `in`.
    #[serde(rename = "in")]
    pub into: DirectionState,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionState {
    /// What goes through when it is congested, in bits of payload per second; 0: not known yet.
    pub estimate: f64,
    /// Its classes, the most urgent first.
    pub classes: Vec<LinkClassState>,
}

/// One class on a link.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkClassState {
    /// `urgent`, `high`, `medium` or `low`.
    pub class: String,
    /// Connections that have something to send.
    pub flows: u32,
    /// All of them together. Of alpha and Q it is the mean; counters include connections that
    /// have ended. As JSON its fields stand beside the class.
    #[serde(flatten)]
    pub total: FlowState,
}

/// Counters of the whole target.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// For each namespace: subsystem NQN, NSID, operations.
    pub namespaces: Vec<(String, u32, IoSnapshot)>,
    /// For each host and subsystem: host NQN, subsystem NQN, operations. Includes connections
    /// that have ended.
    pub hosts: Vec<(String, String, IoSnapshot)>,
    /// For each present I/O queue: its connection, operations.
    pub queues: Vec<(ConnectionState, IoSnapshot)>,
    /// For each reactor.
    pub reactors: Vec<ReactorState>,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections ended because the peer broke the protocol.
    pub protocol_errors: u64,
    /// Controllers ended because their keep-alive timer expired.
    pub keep_alive_expired: u64,
}

/// A reactor as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReactorState {
    /// CPU number it is pinned to.
    pub core: usize,
    /// Connections it serves.
    pub connections: u64,
    /// Time spent working, in nanoseconds, since the start.
    pub busy_ns: u64,
    /// Turns of its loop since the start.
    pub turns: u64,
    /// I/O buffer bytes in use.
    pub buffer_used: u64,
    /// I/O buffer bytes in all.
    pub buffer_total: u64,
    /// CPU time of each part of a change that it took in a turn. The metrics have it.
    #[serde(skip)]
    pub changes: HistogramSnapshot,
}

/// What the stages do.
#[derive(Clone, Debug, Default)]
pub struct QosState {
    /// For each class: commands waiting now, and what it has done.
    pub classes: PerClass<Traffic>,
    /// For each session, the root first, a parent before its children.
    pub sessions: Vec<SessionState>,
    /// For each namespace's device.
    pub devices: Vec<DeviceState>,
}

/// What passed through a stage.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Commands waiting now.
    pub waiting: u64,
    /// Commands that were told to come again later.
    pub refused: u64,
    /// What was carried out.
    pub io: IoSnapshot,
}

/// A session as it is now.
#[derive(Clone, Debug, Default)]
pub struct SessionState {
    /// Its name; the root's is `root`.
    pub name: String,
    /// Its parent's name; none: the root itself.
    pub parent: Option<String>,
    /// Whether it comes with a subsystem or a namespace.
    pub automatic: bool,
    /// Operation credits in use, and what there are.
    pub operations: (u64, u64),
    /// Payload credits in use, and what there are, in bytes.
    pub payload: (u64, u64),
    /// Commands per second, at most.
    pub iops: Option<u64>,
    /// Bytes per second, at most.
    pub bandwidth: Option<u64>,
    /// Commands that may wait before hosts are held back.
    pub queue: u32,
    /// Its reservation.
    pub reserve: Option<ReserveState>,
    /// What was done on its account.
    pub traffic: Traffic,
}

/// A reservation as it is now.
#[derive(Clone, Debug, Default)]
pub struct ReserveState {
    /// NQN/NSID of the namespace.
    pub namespace: String,
    /// Budget and period, as in the configuration.
    pub terms: String,
    /// The share of the device that is set aside, 0 to 1.
    pub utilisation: f64,
    /// Periods that have ended with demand.
    pub periods: u64,
    /// Those in which the tenant got its budget, or all it asked for.
    pub kept: u64,
}

/// A namespace's device as the stages see it.
#[derive(Clone, Debug, Default)]
pub struct DeviceState {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// NSID.
    pub nsid: u32,
    /// Whether commands wait here for their turn at all.
    pub arbitrated: bool,
    /// Commands of ordinary size that the device may hold now; none: any number.
    pub window: Option<f64>,
    /// Commands of ordinary size that it holds.
    pub in_use: f64,
    /// Commands waiting, by class.
    pub waiting: PerClass<u64>,
    /// Mean service time of a 4 KiB read and write in ns, as measured; 0: not yet.
    pub mean_ns: (u64, u64),
    /// The share of the device that is reserved, 0 to 1.
    pub reserved: f64,
}
