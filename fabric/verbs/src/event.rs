//! Events of connections.

use crate::devices::Id;
use crate::params::Token;

/// An event of a listener or a connection.
#[derive(Debug)]
pub enum Event {
    /// A peer wants to connect to a listener.
    Request(ConnectRequest),
    /// An address was resolved: it belongs to a device. The route is next.
    AddressResolved(Token),
    /// The route was resolved: make a queue pair and connect.
    RouteResolved(Token),
    /// The connection is established; with the peer's private data on accepting.
    Established(Token, Vec<u8>),
    /// The peer refuses the connection; with its reason's number, and its private data.
    Rejected(Token, i32, Vec<u8>),
    /// The connection cannot be made; in words.
    Failed(Token, String),
    /// The connection has ended, or its peer ends it.
    Disconnected(Token),
    /// The device is being removed: every object on it must be dropped.
    DeviceRemoved(Token),
    /// The peer's or this machine's address has changed.
    AddressChanged(Token),
    /// The time in which late packets are dropped is over.
    Over(Token),
}

impl Event {
    /// Whether a connection that was established is over. A peer that ends it before it has read that its acceptance
    /// arrived rejects it (`cm_rej_handler` of Linux takes a rejection in the established state).
    #[must_use]
    pub const fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::Disconnected(_) | Self::Rejected(..) | Self::Failed(..) | Self::DeviceRemoved(_)
        )
    }
}

/// A request of a peer for a connection. It is refused when it is dropped.
#[derive(Debug)]
pub struct ConnectRequest {
    /// The listener.
    pub listener: Token,
    /// The connection that begins.
    pub id: Id,
    /// The peer's private data, padded with zeroes (56 bytes over IP).
    pub private_data: Vec<u8>,
    /// RDMA READs and atomics that this side may have out at once: as many as the peer answers.
    pub initiator_depth: u8,
    /// RDMA READs and atomics that the peer wants to have out at once.
    pub responder_resources: u8,
}
