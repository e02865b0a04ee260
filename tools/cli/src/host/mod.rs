//! The host's side of a target, for commands that connect to one.
//!
//! - [`connection`]: one connection in the host role, over TCP ([`socket`]) or RDMA ([`queue_pair`],
//!   `reach`); [`queue_room`]: what a queue needs of it.
//! - [`authentication`]: how the host proves itself.
//! - [`controller`]: an association: its admin queue, and what I/O queues need to connect. [`access`]:
//!   whose it is, and with which target; [`identity`]: the name of this machine.

pub(crate) mod access;
pub(crate) mod authentication;
pub(crate) mod connection;
pub(crate) mod controller;
pub(crate) mod identity;
mod queue_pair;
mod queue_room;
pub(crate) mod reach;
pub(crate) mod socket;
