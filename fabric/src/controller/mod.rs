//! Subsystems, controllers and their admin commands, as pure state machines.
//!
//! [`Service`] implements the target except for I/O commands. It answers Connect, every admin and
//! Fabrics command, keeps the controllers' lives and timers, and holds the configuration
//! (subsystems, namespaces, listeners, hosts). It does no I/O and reads no clock: the present time
//! is an argument, and its actions come out of [`Service::poll_action`]. After each call that takes
//! `&mut self`, the caller takes the actions until there are none.
//!
//! I/O queues do not need the service: they hold a [`ControllerShared`], which tells without a
//! lock whether the controller takes commands, and a [`NamespaceTable`], an immutable list of
//! the namespaces that the host sees, replaced when [`Action::TableChanged`] says so.

mod access;
mod addresses;
mod admin;
mod ana;
pub mod auth;
mod channels;
mod config;
mod configure;
mod connect;
mod deferred;
mod discovery;
mod ending;
mod error_log;
mod events;
mod feature_values;
mod features;
mod generated_keys;
mod get_region;
mod identify;
mod ids;
mod instance;
mod lifecycle;
mod logs;
mod lost_hosts;
mod namespace;
mod node_credits;
mod nodes;
mod properties;
mod queue_bounds;
mod refusal;
mod regions;
mod registers;
mod rights;
mod room;
mod secured;
mod seen;
mod service;
mod table;
mod types;
mod users;
mod withheld;
mod without_acre;

pub use access::{AllowedHost, Sources};
pub use addresses::MachineAddress;
pub use ana::ANA_LOG_HEAD;
pub use channels::KeyNames;
pub use config::{
    ConfigError, ListenerSpec, SecureChannel, ServiceConfig, SubsystemSpec, TransportType,
};
pub use deferred::DeferredCommands;
pub use error_log::FailedCommand;
pub use generated_keys::{ForgottenKeys, GeneratedKey, GeneratedKeys, SecretNumber};
pub use ids::{BackendId, ConnectionId, ControllerId, ListenerId};
pub use logs::SmartCounters;
pub use namespace::{
    DeviceIdentity, Geometry, Namespace, NamespaceFeatures, PreferredSizes, Readiness, UsedBlocks,
};
pub use nodes::{Node, NodeCredits};
pub use queue_bounds::HostWithoutAcre;
pub use refusal::{Refusal, RefusalKind, Rejected};
pub use regions::{RegionGrants, RegionRefusal, RegionRequest};
pub use rights::HostRights;
pub use service::{ControllerSummary, Service, SubsystemSummary};
pub use table::NamespaceTable;
pub use types::{
    AbortTicket, Action, CloseReason, Connected, ControllerShared, DataLength, QueueKind, Reply,
};
pub use users::{
    HostChange, HostPath, Identified, KEPT_CONTROLLERS_MAX, KeptHost, LOST_HOSTS_MAX, LostHost,
};

#[cfg(test)]
pub(crate) mod tests;
