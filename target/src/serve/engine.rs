//! The running target as the control plane uses it: the boundary between the control socket and the
//! reactors.

mod error;
mod loss;
mod pmem;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arbitration::Class;
pub use error::EngineError;
use fabric::Nanos;
pub use loss::{HurtHosts, Loss};
pub use pmem::{EvictedHost, PmemState, ProfileState, RegionClient, RegionFacts, RegionState};
pub use sluice_config::answer::FileSystem;
use sluice_config::{
    AllowedHost, Config, Endpoint, Listener, Namespace, Network, PmemConfig, QosConfig,
    RegionConfig, Subsystem,
};
use sluice_core::TraceFilter;
pub use state::{
    Availability, ConnectionNetwork, ConnectionState, DeviceState, DirectionState, FlowState,
    LinkClassState, LinkState, ListenerState, LostHost, NamespaceState, NetworkState, QosState,
    ReactorState, ReserveState, SessionState, Statistics, SubsystemState, Traffic, WindowBound,
};
use uuid::Uuid;

use super::host_keys::HostKeys;
use super::traces::TracedCommands;

/// A running target. Any thread but a reactor may call the methods. A change takes effect as a
/// whole before its method returns, or not at all.
pub trait Engine: Send + Sync {
    /// Adds a subsystem with its namespaces. Returns its serial number.
    fn add_subsystem(&self, subsystem: &Subsystem) -> Result<String, EngineError>;
    /// Removes a subsystem; its controllers' connections end.
    fn remove_subsystem(&self, nqn: &str) -> Result<(), EngineError>;
    /// Adds a namespace. Returns its UUID. Hosts get an asynchronous event.
    fn add_namespace(&self, nqn: &str, namespace: &Namespace) -> Result<Uuid, EngineError>;
    /// Removes a namespace. Hosts get an asynchronous event. Its identity stays until the change that it is part of
    /// is complete, since a failed change is undone.
    fn remove_namespace(&self, nqn: &str, nsid: u32) -> Result<(), EngineError>;
    /// Forgets the identity of a namespace that was removed for good, or with `None` all identities of a subsystem:
    /// a namespace that takes its place is another disk. With `keep`, a revert brings the identity back.
    fn forget_identity(&self, nqn: &str, nsid: Option<u32>, keep: bool);
    /// Forgets the identities of all objects outside a configuration, except for reverts. Ends a revert.
    fn forget_other_identities(&self, config: &Config);
    /// Begins a revert of live changes: until [`Engine::forget_other_identities`], namespaces and
    /// subsystems that are added have the identities that they had when they were removed, where their
    /// data is the same.
    fn restore_identities(&self);
    /// Forgets the identities of removed objects that a revert to `file` does not bring back: `file` does
    /// not have them, or `running` does.
    fn forget_removed_identities(&self, file: &Config, running: &Config);
    /// Returns the NSIDs of namespaces of a subsystem that were removed for good.
    fn removed_nsids(&self, nqn: &str) -> BTreeSet<u32>;
    /// Sets a namespace's size in bytes; `None` stands for the size that its file or device has now. Returns the
    /// size. Hosts get an asynchronous event.
    fn resize_namespace(&self, nqn: &str, nsid: u32, size: Option<u64>)
    -> Result<u64, EngineError>;
    /// Tries to open namespaces that are not available: all, a subsystem's, or one. A namespace that could be
    /// opened is available when this returns.
    fn retry_namespaces(&self, nqn: Option<&str>, nsid: Option<u32>);
    /// Returns the hosts that would lose something by a change; none where the change names something
    /// that does not exist.
    fn hosts_hurt(&self, loss: &Loss<'_>) -> HurtHosts;
    /// Returns the hosts that did not shut down and may come back, with the NQNs of their subsystems.
    fn lost_hosts(&self) -> Vec<(String, LostHost)>;
    /// Starts listening.
    fn add_listener(&self, listener: &Listener) -> Result<(), EngineError>;
    /// Stops listening; the listener's connections end.
    fn remove_listener(&self, endpoint: Endpoint) -> Result<(), EngineError>;
    /// Lets a host connect to a subsystem.
    fn add_host(&self, nqn: &str, host: &AllowedHost) -> Result<(), EngineError>;
    /// Lets a host come from other addresses; its controllers with connections from elsewhere end.
    fn set_host(&self, nqn: &str, host: &AllowedHost) -> Result<(), EngineError>;
    /// Forbids a host to connect to a subsystem; its controllers' connections end.
    fn remove_host(&self, nqn: &str, host: &str) -> Result<(), EngineError>;
    /// Sets whether any host may connect to a subsystem. With `false`, connections of hosts that
    /// are not allowed end.
    fn set_allow_any_host(&self, nqn: &str, allow: bool) -> Result<(), EngineError>;
    /// Sets whether hosts of a subsystem must authenticate, on queues that connect from now on.
    fn set_require_authentication(&self, nqn: &str, required: bool) -> Result<(), EngineError>;
    /// Sets the class of a listener's connections, present ones included.
    fn set_listener_class(
        &self,
        endpoint: Endpoint,
        class: Option<Class>,
    ) -> Result<(), EngineError>;
    /// Sets the link that a listener's connections share, present ones included; `None` means the
    /// default one.
    fn set_listener_link(&self, endpoint: Endpoint, link: Option<&str>) -> Result<(), EngineError>;
    /// Sets a namespace's class.
    fn set_namespace_class(
        &self,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> Result<(), EngineError>;
    /// Replaces all settings of `[qos]`, `[[session]]` and `[[policy]]`. A reservation that does not fit is
    /// refused, with the remaining capacity and a reservation that would fit.
    fn set_qos(&self, qos: &QosConfig) -> Result<(), EngineError>;
    /// Returns the present settings of `[qos]`, `[[session]]` and `[[policy]]`.
    fn qos_config(&self) -> QosConfig;
    /// Returns the present state of the stages.
    fn qos(&self) -> QosState;
    /// Returns the sessions whose reservations are not in force, with the reason.
    fn reservations_not_in_force(&self) -> BTreeMap<String, String>;
    /// Reads the secrets of hosts again.
    fn read_host_keys(&self) -> Result<HostKeys, EngineError>;
    /// Replaces the secrets of all hosts. Returns the changes, a line for each host. Connected queues stay as they
    /// are.
    fn set_host_keys(&self, keys: HostKeys) -> Vec<String>;

    /// Returns the secrets and TLS keys that hosts have.
    fn host_keys(&self) -> HostKeys;

    /// Returns the NQNs of the hosts that have a TLS key in the kernel's keyring.
    fn hosts_of_keyring(&self) -> BTreeSet<String>;
    /// Replaces all settings of `[network]` and `[[link]]`.
    fn set_network(&self, network: &Network) -> Result<(), EngineError>;
    /// Returns the present settings of `[network]` and `[[link]]`.
    fn network_config(&self) -> Network;
    /// Returns the present state of the network.
    fn network(&self) -> NetworkState;
    /// Replaces all regions of `[[region]]`. Clients lose regions that are gone or have become others; of the rest
    /// they keep the part that a change leaves.
    fn set_regions(&self, regions: &[RegionConfig]) -> Result<(), EngineError>;
    /// Returns the present settings of `[pmem]` and `[[region]]`.
    fn pmem_config(&self) -> PmemConfig;
    /// Returns the present state of the regions and their clients.
    fn pmem(&self) -> PmemState;
    /// Begins to measure the capacity of the data node, in so many periods; [`Self::pmem`] has the result.
    fn begin_pmem_profile(&self, periods: u32) -> Result<(), EngineError>;
    /// Returns the present listeners.
    fn listeners(&self) -> Vec<ListenerState>;
    /// Returns the present subsystems with their namespaces as they are now.
    fn subsystems(&self) -> Vec<SubsystemState>;
    /// Returns the file systems that files of namespaces are on, as of a few seconds ago.
    fn file_systems(&self) -> Vec<FileSystem>;
    /// Returns what could not be stored, in words: a restart would lose it.
    fn unstored(&self) -> Vec<String>;
    /// Returns warnings for the operator about a namespace's file or device.
    fn namespace_warnings(&self, nqn: &str, nsid: u32) -> Vec<String>;
    /// Returns the present connections.
    fn connections(&self) -> Vec<ConnectionState>;
    /// Returns counters and histograms.
    fn statistics(&self) -> Statistics;
    /// Begins to trace the commands that a filter selects. Returns the number of the trace; `None` while another one
    /// runs.
    fn begin_trace(&self, filter: TraceFilter) -> Option<u64>;
    /// Takes the commands of a trace since the last call, and ends the trace if `ends`. `None` if the trace does not run
    /// any more: nobody took its commands for 5 s.
    fn take_traced(&self, trace: u64, ends: bool) -> Option<TracedCommands>;
    /// Returns the present time of the daemon's clock.
    fn now(&self) -> Nanos;
    /// Begins to end the target: no new commands are accepted, commands in flight are settled, and hosts are
    /// notified. With `now`, the target ends at once.
    fn shutdown(&self, now: bool);
    /// Returns whether [`Engine::shutdown`] was called.
    fn is_ending(&self) -> bool;
}

/// An engine that can be printed for debugging.
#[derive(Clone)]
pub(crate) struct EngineHandle(pub(crate) Arc<dyn Engine>);

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}
