//! The way of a TCP connection's data: the kernel's socket, which the poller reads and limits by
//! system calls.

use std::os::fd::{AsFd, OwnedFd};

use qtcp::linux::{Info, options};
use qtcp::pacing::Pacing;
use qtcp::poller::{self, AllowedTraffic, LookObservations, Socket};
use qtcp::{Nanos, Rate};

/// The poller's own descriptor of a socket, which stays valid when the reactor closes its one.
#[derive(Debug)]
struct KernelSocket(OwnedFd);

impl Socket for KernelSocket {
    fn info(&self) -> Option<Info> {
        Info::read(self.0.as_fd()).ok()
    }

    fn set_pacing_rate(&mut self, limit: Option<Rate>) -> bool {
        let set = options::set_pacing_rate(self.0.as_fd(), limit);
        if let Err(error) = &set {
            tracing::debug!(%error, "a connection is not paced");
        }
        set.is_ok()
    }

    fn set_notsent_lowat(&mut self, unsent: Option<u32>) -> bool {
        options::set_notsent_lowat(self.0.as_fd(), unsent).is_ok()
    }
}

/// The way of a TCP connection's data.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: poller::SocketPath<KernelSocket>,
    /// The name of the kernel's congestion control.
    base: String,
    /// Whether the host is this machine: its data crosses no link, and long round trips mean a busy CPU.
    is_local: bool,
}

impl SocketPath {
    /// Makes the way of a socket; the descriptor is the poller's own.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            path: poller::SocketPath::new(KernelSocket(socket)),
            base: String::new(),
            is_local: false,
        }
    }

    /// Reads what stays.
    pub(super) fn begin(&mut self) {
        let socket = self.path.socket().0.as_fd();
        self.base = options::congestion(socket).unwrap_or_default();
        self.is_local = is_local(&self.path.socket().0);
    }

    /// Returns the name of the kernel's congestion control.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Makes the observations since the last look.
    pub(super) fn look(&mut self, now: Nanos, pacing: &Pacing) -> Option<LookObservations> {
        let mut seen = self.path.look(now, pacing)?;
        seen.local = self.is_local;
        if self.is_local {
            (seen.out.marked, seen.into.marked) = (0, 0);
        }
        Some(seen)
    }

    /// Sets the socket's limits, the rate of R2Ts, and which answers are handed over at once.
    pub(super) fn allow(&mut self, pacing: &Pacing, allowed: &AllowedTraffic<'_>) {
        self.path.allow(pacing, allowed);
    }

    /// Lets few answers be handed over at once until the connection's traffic is known.
    pub(super) fn rest(&mut self, pacing: &Pacing) {
        self.path.rest(pacing);
    }

    /// Lifts all limits.
    pub(super) fn lift(&mut self, pacing: &Pacing) {
        self.path.lift(pacing);
    }
}

/// Returns whether the other end of a connection is on this machine.
fn is_local(socket: &OwnedFd) -> bool {
    let (peer, here) =
        (crate::sys::socket::peer(socket).ok(), crate::sys::socket::local_address(socket));
    peer.zip(here).is_some_and(|(peer, here)| {
        let [peer, here] = [peer, here].map(|end| end.ip().to_canonical());
        peer.is_loopback() || peer == here
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_host_on_this_machine_is_local() {
        // A host has 127.0.0.1 towards all other addresses of the loopback network.
        for address in ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(is_local(&here.into()), "{address}");
        }
    }
}
