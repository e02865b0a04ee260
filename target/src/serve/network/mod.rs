//! Stage S6 in the daemon: the links and classes of the configuration and of live changes, and the
//! limits of connections.
//!
//! - [`path`]: the way of a connection's data, as the poller receives it: a [`socket`] or a
//!   [`queue_pair`]; [`qtcp::pacing`] has the messages between its reactor and the poller.
//! - [`notifications`]: the marks that RDMA devices count; [`device_rate`]: the limits that they keep.
//! - [`poller`]: a thread that looks at all connections, by [`qtcp::poller`]; a simulation of whole
//!   targets runs the same on connections of its own.
//! - [`view`] and [`connection`]: the state that the control socket and the metrics show.

mod connection;
mod device_rate;
mod notifications;
mod path;
mod poller;
mod queue_pair;
mod socket;
mod view;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::controller::{ConnectionId, ListenerId};
use qtcp::linux::{Offer, options};
use qtcp::poller::SHORTEST_REST;
use sluice_config::Network;

use crate::sys::clock::Clock;
use crate::sys::sync::lock;

pub(crate) use path::{NewConnection, Path};
use poller::Poller;
pub(crate) use queue_pair::QueuePairPath;
pub(crate) use socket::SocketPath;

/// Stage S6, as all threads share it.
#[derive(Debug)]
pub(crate) struct NetworkShared {
    version: AtomicU64,
    config: Mutex<Network>,
    /// The links of listeners that name one.
    listeners: Mutex<HashMap<u32, String>>,
    /// Connections that have come and gone since the poller last looked.
    events: Mutex<Vec<Event>>,
    poller: Mutex<Poller>,
    wake: Condvar,
    /// The kernel's congestion control for new connections, where it is not the kernel's default.
    base: Option<String>,
    offer: Offer,
}

/// The coming or going of a connection.
#[derive(Debug)]
enum Event {
    Came(Box<NewConnection>),
    Went(ConnectionId),
}

impl NetworkShared {
    /// Makes the stage with the settings of a configuration.
    pub(crate) fn new(config: &Network) -> Self {
        let offer = Offer::probe();
        let named = config.base.as_deref().or_else(|| offer.best_base());
        let base = if config.enabled { named.map(str::to_owned) } else { config.base.clone() };
        Self {
            version: AtomicU64::new(1),
            config: Mutex::new(config.clone()),
            listeners: Mutex::default(),
            events: Mutex::default(),
            poller: Mutex::default(),
            wake: Condvar::new(),
            base,
            offer,
        }
    }

    /// Logs where to find advice on congestion marks. Without settings of the operator's own, nobody
    /// waits for it.
    pub(crate) fn announce(&self) {
        let config = self.config();
        if config.enabled && config != Network::default() {
            tracing::info!(
                base = self.base_name(),
                "classes share the network as configured; `sluice qos network` has advice on ECN"
            );
        }
    }

    /// Returns the present settings.
    pub(crate) fn config(&self) -> Network {
        lock(&self.config).clone()
    }

    /// Replaces the settings.
    ///
    /// # Errors
    /// The settings name another congestion control than before, which the kernel does not have;
    /// nothing is changed. A congestion control that was configured before is no error, so that
    /// other changes can be made.
    pub(crate) fn set(&self, config: &Network) -> Result<(), String> {
        let asked = config.base.as_deref().filter(|_| self.config().base != config.base);
        if let Some(reason) = asked.and_then(qtcp::linux::refusal) {
            return Err(reason);
        }
        *lock(&self.config) = config.clone();
        self.changed();
        Ok(())
    }

    /// Sets the link that a listener's connections share.
    pub(crate) fn set_listener(&self, listener: ListenerId, link: Option<&str>) {
        let mut listeners = lock(&self.listeners);
        match link {
            Some(link) => listeners.insert(listener.0, link.to_owned()),
            None => listeners.remove(&listener.0),
        };
        drop(listeners);
        self.changed();
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
        self.wake.notify_one();
    }

    /// Sets the kernel's congestion control of a listening socket, before hosts connect to it.
    pub(crate) fn prepare(&self, listener: &impl AsFd) {
        if let Some(base) = &self.base
            && let Err(error) = options::set_congestion(listener.as_fd(), base)
        {
            tracing::warn!(base, %error, "the kernel's congestion control stays as it is");
        }
    }

    /// Tells the poller that an I/O connection has come.
    pub(crate) fn came(&self, connection: NewConnection) {
        lock(&self.events).push(Event::Came(Box::new(connection)));
        self.wake.notify_one();
    }

    /// Tells the poller that an I/O connection has gone.
    pub(crate) fn went(&self, id: ConnectionId) {
        lock(&self.events).push(Event::Went(id));
    }

    /// Looks at connections until `over` holds: the body of the poller's thread.
    pub(crate) fn run(&self, clock: &Clock, over: impl Fn() -> bool) {
        /// The time within which the end of the daemon is noticed.
        const LONGEST: Duration = Duration::from_millis(200);
        let mut poller = lock(&self.poller);
        while !over() {
            let now = clock.now();
            self.refresh(&mut poller, now);
            let next = if poller.is_idle() { None } else { poller.poll(now) };
            let wait =
                next.map_or(LONGEST, |at| at.since(clock.now()).clamp(SHORTEST_REST, LONGEST));
            poller = self.wake.wait_timeout(poller, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives the poller all changes since the last call.
    fn refresh(&self, poller: &mut Poller, now: qtcp::Nanos) {
        let version = self.version.load(Ordering::Acquire);
        let events = std::mem::take(&mut *lock(&self.events));
        let listeners = lock(&self.listeners);
        poller.configure(version, &lock(&self.config), &listeners);
        for event in events {
            match event {
                Event::Came(connection) => poller.add(now, *connection, &listeners),
                Event::Went(id) => poller.remove(id),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_that_the_kernel_has_not_is_refused_and_nothing_changes() {
        let shared = NetworkShared::new(&Network::default());
        let with = |base: &str| Network { base: Some(base.into()), ..Network::default() };
        let said = shared.set(&with("foo")).unwrap_err();
        assert!(said.contains("no congestion control foo"), "{said}");
        assert_eq!(shared.config().base, None);
        shared.set(&with("reno")).unwrap();
        assert_eq!(shared.config().base.as_deref(), Some("reno"));
        // The congestion control of the file stays when another setting changes.
        let from_file = NetworkShared::new(&with("foo"));
        from_file.set(&Network { writes: false, ..with("foo") }).unwrap();
        assert!(!from_file.config().writes);
    }
}
