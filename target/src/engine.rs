//! What the control plane asks of the running target: the boundary between the control socket
//! and the reactors.

use std::net::SocketAddr;

use serde::Serialize;
use thiserror::Error;

use crate::config::{Listener, Namespace, Subsystem};
use crate::stats::IoSnapshot;

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
    /// `None` while the device works; else what is wrong with it.
    pub fault: Option<String>,
}

/// A connection (one queue pair of one controller) as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
}
