//! What the target tells of itself.
//!
//! What the control socket answers as it is has its type in `sluice-schema`.

use arbitration::PerClass;
pub use sluice_schema::answer::{
    Availability, Connection as ConnectionState, ConnectionNetwork, DirectionState, FlowState,
    LinkClassState, Namespace as NamespaceState, Subsystem as SubsystemState,
};

use sluice_core::stats::{HistogramSnapshot, IoSnapshot};

/// What classes get of the network.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// What the configuration says of its capacity, in bits per second; none: `auto`.
    pub capacity: Option<u64>,
    /// What the target sends.
    pub out: DirectionState,
    /// What hosts send.
    pub into: DirectionState,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// How many commands are in each state. The metrics have it.
    pub states: Vec<(&'static str, u64)>,
    /// CPU time of each part of a change that it took in a turn. The metrics have it.
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
