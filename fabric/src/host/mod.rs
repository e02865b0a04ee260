//! The host's side of a controller: connecting, enabling, identifying, keeping alive, resetting,
//! shutting down.
//!
//! [`Association`] is the state machine: answers and the present time go in, commands for the admin
//! queue and events come out ([`Action`]). It knows no transport. Each I/O queue is a connection of
//! its own, for which [`IoConnector`] has the Connect command. [`commands`] makes the commands,
//! [`region_granted`] reads the answer to Get Region, [`authentication`] is how a host proves itself on a
//! queue.

mod admin_authentication;
mod association;
pub mod authentication;
pub mod commands;
mod facts;
mod region;

pub use association::{Action, AdminCommand, Association, AsyncEvent, KEEP_ALIVES, Settings};
pub use facts::{Facts, HostError, IoConnector, NamespaceFacts};
pub use region::{RegionError, region_granted};

#[cfg(test)]
mod tests;
