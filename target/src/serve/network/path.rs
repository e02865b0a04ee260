//! The path of a connection's data, as the poller sees it: its observations of the network, and its limits.

use std::sync::Arc;

use fabric::controller::{ConnectionId, ListenerId};
use qtcp::Nanos;
use qtcp::completions::LinkLoad;
use qtcp::pacing::Pacing;
use qtcp::poller::{AllowedTraffic, Both, LookObservations, WatchedConnection};

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
    Socket(Box<SocketPath>),
    /// A queue pair: the device answers marks if it can, and the target paces.
    QueuePair(Box<QueuePairPath>),
}

impl Path {
    /// Returns the name of what answers marks: the kernel's congestion control, or the device.
    pub(super) fn base(&self) -> &str {
        match self {
            Self::Socket(path) => path.base(),
            Self::QueuePair(_) => "device",
        }
    }

    /// Reads what stays as it is, once. The poller does so, since it takes system calls.
    pub(super) fn begin(&mut self, ports: &mut Ports) {
        match self {
            Self::Socket(path) => path.begin(),
            Self::QueuePair(path) => path.begin(ports),
        }
    }
}

impl WatchedConnection for NewConnection {
    type Id = ConnectionId;

    fn id(&self) -> ConnectionId {
        self.id
    }

    fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    fn look(&mut self, now: Nanos, link: &Both<LinkLoad>) -> Option<LookObservations> {
        match &mut self.path {
            Path::Socket(path) => path.look(now, &self.pacing),
            Path::QueuePair(path) => Some(path.look(now, link)),
        }
    }

    fn allow(&mut self, allowed: &AllowedTraffic<'_>) {
        match &mut self.path {
            Path::Socket(path) => path.allow(&self.pacing, allowed),
            Path::QueuePair(path) => path.allow(&self.pacing, allowed),
        }
    }

    fn rest(&mut self, start: &Both<u64>) {
        match &mut self.path {
            Path::Socket(path) => path.rest(&self.pacing),
            Path::QueuePair(path) => path.rest(&self.pacing, start),
        }
    }

    fn lift(&mut self) {
        match &mut self.path {
            Path::Socket(path) => path.lift(&self.pacing),
            Path::QueuePair(path) => path.lift(&self.pacing),
        }
    }
}
