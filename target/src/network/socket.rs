//! A connection as the poller receives it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use fabric::controller::{ConnectionId, ListenerId};
use qtcp::pacing::Pacing;

/// The socket of an I/O connection, and the state that its reactor and the poller share.
#[derive(Debug)]
pub(crate) struct PacedSocket {
    pub(crate) id: ConnectionId,
    pub(crate) listener: ListenerId,
    /// The poller's own descriptor of the socket, which stays valid when the reactor closes its
    /// one.
    pub(crate) socket: OwnedFd,
    pub(crate) pacing: Arc<Pacing>,
}
