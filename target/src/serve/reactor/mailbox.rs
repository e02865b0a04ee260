//! Messages to a reactor from other threads. They are rare by design: no I/O command passes here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use fabric::controller::{Action, BackendId, ListenerId};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::serve::rdma::NewQueuePair;
use crate::serve::tls::{Channel, Incoming};
use crate::sys::sync::lock;
use fabric_verbs::Token;
use sluice_core::{Touched, TraceFilter};

/// A message to a reactor.
#[derive(Debug)]
pub(crate) enum Message {
    /// A socket that a listener accepted, to be served here.
    Serve {
        /// The socket.
        socket: OwnedFd,
        /// The listener that the connection came through.
        listener: ListenerId,
        /// The host's address.
        peer: SocketAddr,
        /// Whether the connection is over TLS.
        channel: Channel,
    },
    /// A connection after its handshake, or without one: to be served like an accepted one.
    Arrived {
        /// The connection.
        incoming: Incoming,
        /// Whether the connection is over TLS.
        channel: Channel,
    },
    /// A queue pair that begins, to be served here.
    QueuePair(Box<NewQueuePair>),
    /// The connection of a queue pair is over.
    QueuePairLost {
        /// The connection's name.
        token: Token,
        /// Why, in words.
        reason: String,
    },
    /// The device of a queue pair is gone, and the connection with this name with it.
    RdmaDeviceGone(Token),
    /// The completion queue with this number is used no more: let go of it.
    CompletionsUnused(usize),
    /// Accept connections from this listening socket.
    Listen {
        /// The listener's identifier.
        listener: ListenerId,
        /// The socket.
        socket: OwnedFd,
    },
    /// Accept no more, and close the listening socket.
    Unlisten(ListenerId),
    /// Settings have changed: apply the new ones, and look again at these.
    Refresh(Arc<Touched>),
    /// These devices are gone.
    Gone(Arc<[BackendId]>),
    /// Trace the commands that the filter selects, or none.
    Trace(Option<Arc<TraceFilter>>),
    /// Carry out the service's action on a connection.
    Act(Action),
    /// End: take no new commands, settle those in flight, close; with `now` close at once.
    Stop {
        /// Whether commands in flight are left unsettled.
        now: bool,
    },
}

/// A reactor's mailbox.
#[derive(Debug)]
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    wake_up: EventFd,
}

impl Mailbox {
    /// Makes an empty mailbox.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> io::Result<Self> {
        let wake_up = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { messages: Mutex::default(), wake_up })
    }

    /// Leaves a message and wakes the reactor.
    pub(crate) fn post(&self, message: Message) {
        lock(&self.messages).push(message);
        self.wake();
    }

    /// Wakes the reactor.
    pub fn wake(&self) {
        // The counter can only be full if the reactor has been woken already.
        let _ = self.wake_up.write(1);
    }

    /// Takes all messages.
    pub(crate) fn take(&self) -> Vec<Message> {
        let _ = self.wake_up.read();
        std::mem::take(&mut *lock(&self.messages))
    }

    /// Returns the descriptor that becomes readable when there are messages.
    #[must_use]
    pub fn wake_up_fd(&self) -> RawFd {
        self.wake_up.as_fd().as_raw_fd()
    }
}
