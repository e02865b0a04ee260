//! The state that the target reports.
//!
//! A part that the control socket answers unchanged has its type in `sluice-config`.

use arbitration::PerClass;
use arbitration::reservation::Profile;
use arbitration::session::SessionLimits;
use fabric::controller::RefusalKind;
use sluice_config::Listener;
pub use sluice_config::answer::{
    Availability, Connection as ConnectionState, ConnectionNetwork, DirectionState, FlowState,
    LinkClassState, LostHost, Namespace as NamespaceState, Subsystem as SubsystemState,
    WindowBound,
};

use sluice_core::stats::{HistogramSnapshot, IoSnapshot};

use crate::serve::workloads::WorkloadKey;

/// A listener as it is now.
#[derive(Clone, Debug)]
pub struct ListenerState {
    /// Its settings.
    pub listener: Listener,
    /// Why it is not open, in words; `None` where it is.
    pub closed: Option<String>,
}

/// The state of the network.
#[derive(Clone, Debug, Default)]
pub struct NetworkState {
    /// Whether stage S6 is on.
    pub enabled: bool,
    /// The kernel's congestion control under new connections.
    pub base: String,
    /// Advice: what this kernel lacks for the stage to work well, and the remedy.
    pub advice: Vec<String>,
    /// The links, the default one first.
    pub links: Vec<LinkState>,
}

/// A link as it is now.
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    /// The link's name.
    pub name: String,
    /// The configured capacity in bits per second; `None` means `auto`.
    pub capacity: Option<u64>,
    /// The direction from the target to hosts.
    pub out: DirectionState,
    /// The direction from hosts to the target.
    pub into: DirectionState,
}

/// Counters of the whole target.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The operations of each namespace, with its subsystem's NQN and its NSID.
    pub namespaces: Vec<(String, u32, IoSnapshot)>,
    /// The operations of each host in each subsystem, with both NQNs. Connections that have ended
    /// are included.
    pub hosts: Vec<(String, String, IoSnapshot)>,
    /// The operations of each present I/O queue, with its connection.
    pub queues: Vec<(ConnectionState, IoSnapshot)>,
    /// The operations of each host in each class at each namespace, as far as they are known by
    /// their names, and of all others.
    pub workloads: Vec<(WorkloadKey, IoSnapshot)>,
    /// The reactors.
    pub reactors: Vec<ReactorState>,
    /// Hosts that did not shut down and may come back, each once for each way to a subsystem.
    pub hosts_lost: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections ended because the peer broke the protocol.
    pub protocol_errors: u64,
    /// Connections closed, or not taken, because too many had sent no Connect.
    pub waiting_closed: u64,
    /// Connections refused before they were served, on listeners with TLS.
    pub tls_refused: u64,
    /// Connect commands that were refused, for each kind of reason.
    pub connects_refused: Vec<(RefusalKind, u64)>,
    /// Lines about peers that were left out of the log.
    pub lines_left_out: u64,
    /// Controllers ended because their keep-alive timer expired.
    pub keep_alive_expired: u64,
}

/// A reactor as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReactorState {
    /// The number of the CPU that the reactor is pinned to.
    pub core: usize,
    /// Connections of the reactor.
    pub connections: u64,
    /// Time spent working, in nanoseconds, since the start.
    pub busy_ns: u64,
    /// Turns of the reactor's loop since the start.
    pub turns: u64,
    /// System calls of the reactor's loop since the start.
    pub calls: u64,
    /// Receives from sockets that brought something since the start, and their bytes.
    pub receives: (u64, u64),
    /// Sends to sockets since the start, and their bytes.
    pub sends: (u64, u64),
    /// I/O buffer bytes in use.
    pub buffer_used: u64,
    /// I/O buffer bytes in all.
    pub buffer_total: u64,
    /// The number of commands in each state, for the metrics.
    pub states: Vec<(&'static str, u64)>,
    /// CPU time that the reactor spent on a change of the configuration in one turn, in ns.
    pub changes: HistogramSnapshot,
}

/// The state of the stages.
#[derive(Clone, Debug, Default)]
pub struct QosState {
    /// The traffic of each class.
    pub classes: PerClass<Traffic>,
    /// The sessions, the root first, a parent before its children.
    pub sessions: Vec<SessionState>,
    /// The devices of namespaces.
    pub devices: Vec<DeviceState>,
}

/// The traffic through a stage.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Commands waiting now.
    pub waiting: u64,
    /// Commands that were rejected with a status that asks the host to retry later.
    pub refused: u64,
    /// The operations that were carried out.
    pub io: IoSnapshot,
}

/// A session as it is now.
#[derive(Clone, Debug, Default)]
pub struct SessionState {
    /// The session's name; the root's is `root`.
    pub name: String,
    /// The parent's name; `None` for the root.
    pub parent: Option<String>,
    /// Whether the session comes with a subsystem or a namespace.
    pub automatic: bool,
    /// The credits in use, and all of them, in commands.
    pub operations: (u64, u64),
    /// The payload credits in use, and all of them, in bytes.
    pub payload: (u64, u64),
    /// The session's own limits, without its ancestors'.
    pub limits: SessionLimits,
    /// Commands that may wait before hosts are held back.
    pub queue: u32,
    /// The weight beside the other sessions of the parent.
    pub weight: u32,
    /// The session's reservation.
    pub reserve: Option<ReserveState>,
    /// Time that a command which comes now is expected to wait, in ns; 0 where none waits.
    pub wait: u64,
    /// The traffic on the session's account.
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
    /// Periods in which the tenant got its budget, or its whole demand; with an allowed latency, periods in which
    /// no command was late.
    pub kept: u64,
    /// Periods in which less than the reservation was complete, by cause.
    pub missed: [(&'static str, u64); 5],
    /// The latest of them in words.
    pub last_miss: Option<String>,
    /// Rate that the tenant gets at least, by its depth, in words; empty where it is not known.
    pub floors: String,
    /// Commands that had to be complete by a deadline, by the allowed latency.
    pub promised: u64,
    /// Those of them that were late.
    pub late: u64,
}

/// The device of a namespace, as the stages see it.
#[derive(Clone, Debug, Default)]
pub struct DeviceState {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// NSID.
    pub nsid: u32,
    /// Whether the target arbitrates, so that commands may wait for their turn.
    pub arbitrated: bool,
    /// Commands of ordinary size that the device may hold now; `None` means any number.
    pub window: Option<f64>,
    /// Bound that a reservation sets to it, where that is lower.
    pub bound: Option<WindowBound>,
    /// Commands of ordinary size that the device holds.
    pub in_use: f64,
    /// Commands waiting, by class.
    pub waiting: PerClass<u64>,
    /// Measured mean service time of a 4 KiB read and write in ns; 0 until it is known.
    pub mean_ns: (u64, u64),
    /// The share of the device that is reserved, 0 to 1.
    pub reserved: f64,
    /// The device's times; `None` until they are known.
    pub profile: Option<Profile>,
}
