//! The way of a connection's data, as the poller sees it: what it tells of the network, and where its
//! limits are set.

use std::sync::Arc;

use fabric::controller::{ConnectionId, ListenerId};
use qtcp::Nanos;
use qtcp::completions::LinkLoad;
use qtcp::pacing::Pacing;

use super::look::{Allowed, Both, Seen};
use super::notifications::Ports;
use super::queue_pair::QueuePairPath;
use super::socket::SocketPath;

/// An I/O connection that has come, and the state that its reactor and the poller share.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) id: ConnectionId,
    pub(crate) listener: ListenerId,
    pub(crate) pacing: Arc<Pacing>,
    pub(crate) path: Path,
}

/// The way of a connection's data.
#[derive(Debug)]
pub(crate) enum Path {
    /// A TCP socket: the kernel's congestion control answers marks, and paces.
    Socket(SocketPath),
    /// A queue pair: the device answers marks if it can, and the target paces.
    QueuePair(QueuePairPath),
}

impl Path {
    /// Returns the name of what answers marks: the kernel's congestion control, or the device.
    pub(super) fn base(&self) -> &str {
        match self {
            Self::Socket(path) => path.base(),
            Self::QueuePair(_) => "device",
        }
    }

    /// Makes the observations since the last look, on a link that carries so much. An interval of zero
    /// counts nothing. Returns `None` where the connection is gone; its reactor reports that.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        pacing: &Pacing,
        link: &Both<LinkLoad>,
    ) -> Option<Seen> {
        match self {
            Self::Socket(path) => path.look(now, pacing),
            Self::QueuePair(path) => Some(path.look(now, link)),
        }
    }

    /// Sets limits.
    pub(super) fn allow(&mut self, pacing: &Pacing, allowed: &Allowed<'_>) {
        match self {
            Self::Socket(path) => path.allow(pacing, allowed),
            Self::QueuePair(path) => path.allow(pacing, allowed),
        }
    }

    /// Reads what stays as it is, once. The poller does so, since it takes system calls.
    pub(super) fn begin(&mut self, ports: &mut Ports) {
        match self {
            Self::Socket(path) => path.begin(),
            Self::QueuePair(path) => path.begin(ports),
        }
    }

    /// Lets little be handed over at once until it is known what the connection moves. The first look
    /// after a rest measures nothing: the bytes before it have no rate.
    pub(super) fn rest(&mut self, pacing: &Pacing) {
        match self {
            Self::Socket(path) => path.rest(pacing),
            Self::QueuePair(path) => path.rest(pacing),
        }
    }

    /// Lifts all limits.
    pub(super) fn lift(&mut self, pacing: &Pacing) {
        match self {
            Self::Socket(path) => path.lift(pacing),
            Self::QueuePair(path) => path.lift(pacing),
        }
    }
}
