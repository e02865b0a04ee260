//! The state that the first reactor, the thread of handshakes and the control plane share.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use fabric::controller::{KeyNames, ListenerId, SecureChannel};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::keys::TlsKeys;
use super::records::Session;
use crate::sys::sync::lock;

/// The connections that may wait for the thread to look at them.
const ARRIVALS: usize = 64;

/// Whether a connection is over TLS.
#[derive(Debug)]
pub(crate) enum Channel {
    /// It is not known yet.
    Unknown,
    /// It is not, and need not be.
    Plain,
    /// It is, with a key for these names and a cipher suite.
    Tls { names: KeyNames, cipher: &'static str, session: Box<Session> },
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) socket: OwnedFd,
    pub(crate) listener: ListenerId,
    pub(crate) peer: SocketAddr,
}

/// The state that the threads share.
#[derive(Debug)]
pub(crate) struct TlsShared {
    /// Whether connections of each listener are over TLS.
    listeners: Mutex<HashMap<ListenerId, SecureChannel>>,
    keys: Arc<TlsKeys>,
    arrivals: Mutex<Vec<Incoming>>,
    wake_up: EventFd,
}

impl TlsShared {
    /// Makes the state without listeners, and with no keys but a kernel keyring's.
    ///
    /// # Errors
    /// No file descriptor or thread is left.
    pub(crate) fn new(keyring: Option<&str>) -> io::Result<Self> {
        Ok(Self {
            listeners: Mutex::default(),
            keys: Arc::new(TlsKeys::new(super::keyring::open(keyring)?)),
            arrivals: Mutex::default(),
            wake_up: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        })
    }

    /// Sets whether connections of a listener are over TLS; `None`: the listener is gone.
    pub(crate) fn set_listener(&self, id: ListenerId, channel: Option<SecureChannel>) {
        let mut listeners = lock(&self.listeners);
        match channel {
            Some(channel) => listeners.insert(id, channel),
            None => listeners.remove(&id),
        };
    }

    /// Returns whether connections of a listener are over TLS; `None`: the listener is gone.
    pub(crate) fn channel(&self, id: ListenerId) -> Option<SecureChannel> {
        lock(&self.listeners).get(&id).copied()
    }

    /// Returns the keys of hosts.
    pub(crate) fn keys(&self) -> &Arc<TlsKeys> {
        &self.keys
    }

    /// Leaves a connection to the thread of handshakes. Returns it where too many wait.
    pub(crate) fn begin(&self, incoming: Incoming) -> Option<Incoming> {
        let mut arrivals = lock(&self.arrivals);
        if arrivals.len() >= ARRIVALS {
            return Some(incoming);
        }
        arrivals.push(incoming);
        drop(arrivals);
        // The counter can only be full if the thread has been woken already.
        let _ = self.wake_up.write(1);
        None
    }

    /// Takes the connections that were left.
    pub(super) fn take(&self) -> Vec<Incoming> {
        let _ = self.wake_up.read();
        std::mem::take(&mut *lock(&self.arrivals))
    }

    /// Returns what becomes readable when a connection was left.
    pub(super) fn wake_up(&self) -> &EventFd {
        &self.wake_up
    }
}
