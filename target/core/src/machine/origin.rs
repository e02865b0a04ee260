//! The origin of a connection.

use std::net::IpAddr;

use fabric::controller::ListenerId;

/// The origin of a connection, from which its class and its policies follow.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// CATTR 1:0 of its Connect command.
    pub priority: u8,
    /// Whether its controller runs with weighted round robin, so that `priority` counts.
    pub weighted: bool,
    /// The ToS or traffic class byte that the host connected with.
    pub tos: Option<u8>,
    /// The peer's address; `None`: it is not known.
    pub address: Option<IpAddr>,
}
