//! The RDMA state that all threads share: the listeners, and the work left for the thread of connections.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use fabric::controller::ListenerId;
use fabric_verbs::{CompletionQueue, Device, EventChannel, Listener, QueuePair, Token};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use sluice_config::Endpoint;

use crate::sys::mapping::Mapping;
use crate::sys::socket;
use crate::sys::sync::lock;

/// Connections that may wait to be taken in, for each listener.
const BACKLOG: u32 = 128;
/// The longest time until the end of the daemon is noticed, in ms.
const LONGEST: u16 = 200;

/// The state that all threads share.
#[derive(Debug)]
pub(crate) struct RdmaShared {
    /// Makes the thread look at the work left here.
    wake: EventFd,
    left: Mutex<Left>,
}

/// A listener's place.
#[derive(Debug)]
struct Place {
    endpoint: Endpoint,
    /// The listener; or why there is none, in words.
    open: Result<Listener, String>,
}

impl Place {
    /// Closes the listener, whose device is gone.
    fn lose(&mut self) {
        if self.open.is_ok() {
            let why = "its RDMA device is gone or has failed";
            tracing::error!(listener = %self.endpoint, why, "the RDMA listener is closed");
            self.open = Err(why.to_owned());
        }
    }
}

/// The work left for the thread.
#[derive(Debug, Default)]
struct Left {
    channel: Option<Arc<EventChannel>>,
    listeners: HashMap<ListenerId, Place>,
    /// Queue pairs that are over.
    ended: Vec<(Token, QueuePair)>,
    /// Completion queues that reactors have no use for any more.
    unused: Vec<CompletionQueue>,
    /// Devices that listeners were opened on.
    opened: Vec<Device>,
    /// The I/O buffers of each reactor, and what else it sends from.
    memory: HashMap<usize, Vec<Arc<Mapping>>>,
}

impl Left {
    fn open(&mut self, id: ListenerId, endpoint: Endpoint) -> Result<Listener, String> {
        let address = socket::resolve(endpoint.address)?;
        let channel = match &self.channel {
            Some(channel) => channel,
            None => {
                let channel = EventChannel::new().map_err(|error| error.to_string())?;
                self.channel.insert(Arc::new(channel))
            }
        };
        let token = Token(id.0.into());
        let listener = Listener::new(channel, address, BACKLOG, token);
        let listener = listener.map_err(|error| error.to_string())?;
        // A listener on all addresses is of no device; the devices of its connections are known later.
        self.opened.extend(listener.device().ok());
        Ok(listener)
    }
}

impl RdmaShared {
    /// Makes the state without listeners.
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
    pub(crate) fn listen(&self, id: ListenerId, endpoint: Endpoint) -> Result<(), String> {
        let mut left = lock(&self.left);
        let open = Ok(left.open(id, endpoint)?);
        left.listeners.insert(id, Place { endpoint, open });
        drop(left);
        self.wake();
        Ok(())
    }

    /// Begins to listen once it can be done: now it cannot, because of `why`.
    pub(crate) fn listen_later(&self, id: ListenerId, endpoint: Endpoint, why: String) {
        lock(&self.left).listeners.insert(id, Place { endpoint, open: Err(why) });
    }

    /// Tries again to listen where it could not be done.
    pub(super) fn retry(&self) {
        let left = &mut *lock(&self.left);
        let closed = left.listeners.iter().filter(|(_, place)| place.open.is_err());
        let closed: Vec<_> = closed.map(|(id, place)| (*id, place.endpoint)).collect();
        for (id, endpoint) in closed {
            let open = left.open(id, endpoint);
            if open.is_ok() {
                tracing::info!(listener = %endpoint, "the RDMA listener is open");
            }
            left.listeners.insert(id, Place { endpoint, open });
        }
    }

    /// Closes a listener whose device is gone, until it is back.
    pub(super) fn lose(&self, id: ListenerId) {
        if let Some(place) = lock(&self.left).listeners.get_mut(&id) {
            place.lose();
        }
    }

    /// Closes the listeners on a device that is gone, until it is back.
    pub(super) fn lose_all_on(&self, device: &Device) {
        for place in lock(&self.left).listeners.values_mut() {
            if place.open.as_ref().is_ok_and(|listener| listener.is_on(device)) {
                place.lose();
            }
        }
    }

    /// Returns why a listener is not open; `None` where it is.
    pub(crate) fn why_closed(&self, id: ListenerId) -> Option<String> {
        lock(&self.left).listeners.get(&id)?.open.as_ref().err().cloned()
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

    /// Returns the channel of the connection manager's events, once somebody has listened.
    pub(super) fn channel(&self) -> Option<Arc<EventChannel>> {
        lock(&self.left).channel.clone()
    }

    /// Gives up the channel, which has failed, and its listeners, which are tried again.
    pub(super) fn lose_channel(&self) {
        let left = &mut *lock(&self.left);
        left.channel = None;
        for place in left.listeners.values_mut() {
            place.open = Err("the RDMA connection manager has failed".to_owned());
        }
    }

    /// Takes the queue pairs that are over.
    pub(super) fn take_ended(&self) -> Vec<(Token, QueuePair)> {
        std::mem::take(&mut lock(&self.left).ended)
    }

    /// Takes a completion queue back that a reactor has no use for.
    pub(crate) fn give_back(&self, queue: CompletionQueue) {
        lock(&self.left).unused.push(queue);
        self.wake();
    }

    /// Takes the completion queues that reactors have no use for.
    pub(super) fn take_unused(&self) -> Vec<CompletionQueue> {
        std::mem::take(&mut lock(&self.left).unused)
    }

    /// Takes the devices that listeners were opened on.
    pub(super) fn take_opened(&self) -> Vec<Device> {
        std::mem::take(&mut lock(&self.left).opened)
    }

    /// Waits until something was left here or an event is there, on the channel or of a device, for a
    /// while at the most.
    pub(super) fn wait<'a>(
        &self,
        channel: Option<&EventChannel>,
        devices: impl Iterator<Item = BorrowedFd<'a>>,
    ) {
        let mut fds = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        fds.extend(channel.map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)));
        fds.extend(devices.map(|one| PollFd::new(one, PollFlags::POLLIN)));
        let _ = poll(&mut fds, PollTimeout::from(LONGEST));
        let _ = self.wake.read();
    }

    pub(super) fn memory_of(&self, reactor: usize) -> Vec<Arc<Mapping>> {
        lock(&self.left).memory.get(&reactor).cloned().unwrap_or_default()
    }

    /// Returns whether a listener is open.
    pub(super) fn listens(&self, id: ListenerId) -> bool {
        lock(&self.left).listeners.get(&id).is_some_and(|place| place.open.is_ok())
    }
}
