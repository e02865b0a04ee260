//! Where a connection comes from.

use fabric::controller::ListenerId;

/// Where a connection comes from: what its class is made of.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// CATTR 1:0 of its Connect command.
    pub priority: u8,
    /// Its controller runs with weighted round robin: `priority` counts.
    pub weighted: bool,
    /// The ToS or traffic class byte that the host connected with.
    pub tos: Option<u8>,
}
