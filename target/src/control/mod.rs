//! The operators' interface: the control socket, the latest lines of the log, metrics, objects and their live changes,
//! the change to another configuration, and the state that outlives a restart.

pub mod api;
pub mod events;
pub mod log;
pub mod metrics;
pub(crate) mod objects;
pub(crate) mod ready;
pub(crate) mod reload;
pub mod store;
pub(crate) mod unproved;
