//! A queue pair that begins, on its way from the thread that makes it to the reactor that uses it.

use std::net::SocketAddr;

use fabric::controller::ListenerId;
use fabric::rdma::wire::QueueParams;
use fabric_verbs::{CompletionQueue, ConnectionParams, QueuePair, Token};

/// A queue pair that begins, for the reactor that is to use it.
#[derive(Debug)]
pub(crate) struct NewQueuePair {
    /// The connection's name in the connection manager's events.
    pub(crate) token: Token,
    pub(crate) pair: QueuePair,
    /// The parameters of its queue.
    pub(crate) queue: QueueParams,
    /// The parameters with which the connection is accepted.
    pub(crate) accept: ConnectionParams,
    pub(crate) listener: ListenerId,
    /// The name of its device, and the port's number.
    pub(crate) port: (String, u8),
    /// The host's address.
    pub(crate) peer: SocketAddr,
    /// The traffic class byte that the host connects with.
    pub(crate) tos: Option<u8>,
    /// The number of the completion queue, and the queue itself where it is new to the reactor.
    pub(crate) completions: (usize, Option<CompletionQueue>),
}
