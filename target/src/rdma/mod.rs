//! RDMA connections: their listeners, and the thread that takes in what the connection manager says.
//!
//! The thread makes what a queue pair needs (protection domain, completion queues, registered memory),
//! makes the queue pair, and leaves it in the mailbox of a reactor, which accepts the connection and
//! uses the queue pair from then on. Queue pairs that have ended come back to be destroyed here, since
//! that takes long.

mod connector;
mod devices;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use fabric::controller::ListenerId;
use fabric::rdma::verbs::{
    CompletionQueue, ConnectionParams, EventChannel, Listener, QueuePair, Token,
};
use fabric::rdma::wire::QueueParams;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::mapping::Mapping;
use crate::shared::Shared;
use crate::sync::lock;

use connector::Connector;

/// Connections that may wait to be taken in, for each listener.
const BACKLOG: u32 = 128;
/// The longest time until the end of the daemon is noticed, in ms.
const LONGEST: u16 = 200;

/// A queue pair that begins, for the reactor that is to use it.
#[derive(Debug)]
pub struct NewQueuePair {
    /// The connection's name in the connection manager's events.
    pub(crate) token: Token,
    /// The queue pair.
    pub(crate) pair: QueuePair,
    /// The parameters of its queue.
    pub(crate) queue: QueueParams,
    /// The parameters with which the connection is accepted.
    pub(crate) accept: ConnectionParams,
    /// The listener.
    pub(crate) listener: ListenerId,
    /// The host's address.
    pub(crate) peer: SocketAddr,
    /// The traffic class byte that the host connects with.
    pub(crate) tos: Option<u8>,
    /// The number of the completion queue, and the queue itself where it is new to the reactor.
    pub(crate) completions: (usize, Option<CompletionQueue>),
}

/// What all threads share of RDMA.
#[derive(Debug)]
pub(crate) struct Rdma {
    /// Makes the thread look at what was left here.
    wake: EventFd,
    left: Mutex<Left>,
}

/// What was left for the thread.
#[derive(Debug, Default)]
struct Left {
    channel: Option<Arc<EventChannel>>,
    listeners: HashMap<ListenerId, Listener>,
    /// Queue pairs that are over.
    ended: Vec<(Token, QueuePair)>,
    /// The I/O buffers of each reactor, and what else it sends from.
    memory: HashMap<usize, Vec<Arc<Mapping>>>,
}

impl Rdma {
    /// Makes the part without listeners.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(crate) fn new() -> std::io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { wake, left: Mutex::default() })
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// The machine has no RDMA, or the address is of no RDMA device; in words.
    pub(crate) fn listen(&self, id: ListenerId, address: SocketAddr) -> Result<(), String> {
        let mut left = lock(&self.left);
        let channel = match &left.channel {
            Some(channel) => Arc::clone(channel),
            None => {
                let channel = Arc::new(EventChannel::new().map_err(|error| error.to_string())?);
                left.channel = Some(Arc::clone(&channel));
                channel
            }
        };
        let token = Token(id.0.into());
        let listener = Listener::new(&channel, address, BACKLOG, token);
        left.listeners.insert(id, listener.map_err(|error| error.to_string())?);
        drop(left);
        self.wake();
        Ok(())
    }

    /// Listens no more.
    pub(crate) fn unlisten(&self, id: ListenerId) {
        lock(&self.left).listeners.remove(&id);
    }

    /// Listens no more anywhere.
    pub(crate) fn stop(&self) {
        lock(&self.left).listeners.clear();
    }

    /// Takes the memory that a reactor receives data into and sends it from.
    pub(crate) fn add_memory(&self, reactor: usize, memory: Arc<Mapping>) {
        lock(&self.left).memory.entry(reactor).or_default().push(memory);
    }

    /// Takes a queue pair back that is over.
    pub(crate) fn end(&self, token: Token, pair: QueuePair) {
        lock(&self.left).ended.push((token, pair));
        self.wake();
    }

    fn wake(&self) {
        // The counter can only be full if the thread has been woken already.
        let _ = self.wake.write(1);
    }

    /// Takes in what the connection manager says until `over` holds: the body of the thread.
    pub(crate) fn run(&self, shared: &Shared, over: impl Fn() -> bool) {
        let mut connector = Connector::default();
        while !over() {
            let channel = lock(&self.left).channel.clone();
            let ended = std::mem::take(&mut lock(&self.left).ended);
            connector.ended(ended);
            while let Some(channel) = &channel {
                match channel.next() {
                    Ok(Some(event)) => connector.take(shared, event),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!(%error, "the RDMA connection manager has failed");
                        lock(&self.left).channel = None;
                        break;
                    }
                }
            }
            let mut fds = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
            fds.extend(channel.as_ref().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)));
            let _ = poll(&mut fds, PollTimeout::from(LONGEST));
            let _ = self.wake.read();
        }
        connector.ended(std::mem::take(&mut lock(&self.left).ended));
    }

    /// Returns the memory of a reactor.
    fn memory_of(&self, reactor: usize) -> Vec<Arc<Mapping>> {
        lock(&self.left).memory.get(&reactor).cloned().unwrap_or_default()
    }

    /// Says whether a listener is there.
    fn listens(&self, id: ListenerId) -> bool {
        lock(&self.left).listeners.contains_key(&id)
    }
}
