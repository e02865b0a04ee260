//! The present connections, and the operations of ended ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fabric::Nanos;
use fabric::controller::ConnectionId;
use sluice_core::stats::{IoSnapshot, QueueStats};

use super::ended::{Ended, HostKey};
use super::engine::ConnectionState;
use crate::sys::sync::lock;

/// A present connection.
#[derive(Debug)]
pub struct Registered {
    /// The connection as the control socket shows it, without the commands in flight.
    pub state: ConnectionState,
    /// Statistics, written by the connection's reactor.
    pub stats: Arc<QueueStats>,
    /// Commands in the target, written by the connection's reactor.
    pub in_flight: Arc<AtomicU32>,
}

impl Registered {
    fn now(&self) -> ConnectionState {
        ConnectionState { in_flight: self.in_flight.load(Ordering::Relaxed), ..self.state.clone() }
    }
}

/// The operations that have ended, by host and by queue.
#[derive(Debug, Default)]
pub struct Done {
    /// The operations of each host in each subsystem, including connections that have ended.
    pub hosts: BTreeMap<HostKey, IoSnapshot>,
    /// The operations on each present queue.
    pub queues: Vec<(ConnectionState, IoSnapshot)>,
}

/// All connections. One lock guards the present ones and the operations of ended ones, so that each operation is
/// counted once.
#[derive(Debug, Default)]
pub struct Connections(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    present: HashMap<ConnectionId, Present>,
    ended: Ended,
}

/// A connection with the name under which its operations count, once it is a queue.
#[derive(Debug)]
struct Present {
    registered: Registered,
    counts_as: Option<HostKey>,
}

impl Present {
    /// Finds the name under which the operations count.
    fn name(&mut self, ended: &mut Ended) {
        if self.counts_as.is_none() {
            self.counts_as = self.registered.state.host_key().map(|host| ended.came(host));
        }
    }
}

impl Connections {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.0)
    }

    /// Adds a connection.
    pub fn add(&self, id: ConnectionId, registered: Registered) {
        let Known { present, ended } = &mut *self.known();
        let mut added = Present { registered, counts_as: None };
        added.name(ended);
        present.insert(id, added);
    }

    /// Changes the state that is shown of a connection.
    pub fn update(&self, id: ConnectionId, change: impl FnOnce(&mut ConnectionState)) {
        let Known { present, ended } = &mut *self.known();
        if let Some(present) = present.get_mut(&id) {
            change(&mut present.registered.state);
            present.name(ended);
        }
    }

    /// Removes a connection that has ended, and adds its operations to its host's.
    pub fn remove(&self, now: Nanos, id: ConnectionId) -> Option<ConnectionState> {
        let mut known = self.known();
        let Present { registered, counts_as } = known.present.remove(&id)?;
        let Registered { state, stats, .. } = registered;
        if let Some(host) = counts_as {
            let io = stats.get().map(|stats| stats.snapshot()).unwrap_or_default();
            known.ended.went(now, &host, &io);
        }
        Some(state)
    }

    /// Returns the present connections, in no order.
    #[must_use]
    pub fn present(&self) -> Vec<ConnectionState> {
        self.known().present.values().map(|present| present.registered.now()).collect()
    }

    /// Returns the operations that were done, queues in no order.
    #[must_use]
    pub fn done(&self) -> Done {
        let known = self.known();
        let mut done = Done { hosts: known.ended.snapshot(), queues: Vec::new() };
        for Present { registered, counts_as } in known.present.values() {
            if let Some(host) = counts_as {
                let seen = registered.stats.get().map(|stats| stats.snapshot());
                let seen = seen.unwrap_or_default();
                done.hosts.entry(host.clone()).or_default().merge(&seen);
                done.queues.push((registered.now(), seen));
            }
        }
        done
    }

    /// Forgets hosts that have been gone for a long time.
    pub fn forget_hosts(&self, now: Nanos) {
        self.known().ended.forget(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::ended;

    /// Makes an I/O queue of a host.
    fn queue(id: u64, host: &str) -> Registered {
        let state = ConnectionState {
            id,
            peer: "10.0.0.1:9".into(),
            listener: "10.0.0.2:4420".into(),
            reactor: 0,
            host: Some(host.into()),
            subsystem: Some("nqn.2026-01.io.x:a".into()),
            controller: Some(1),
            queue: Some(1),
            in_flight: 0,
            digests: (false, false),
            tls: None,
            authenticated: false,
            network: None,
        };
        Registered { state, stats: Arc::default(), in_flight: Arc::default() }
    }

    #[test]
    fn hosts_that_are_gone_are_forgotten_and_no_other() {
        let connections = Connections::default();
        for (id, host) in [(1, "gone"), (2, "here"), (3, "here")] {
            connections.add(ConnectionId(id), queue(id, host));
        }
        for id in [1, 2] {
            assert!(connections.remove(Nanos(0), ConnectionId(id)).is_some());
        }
        assert_eq!(connections.done().hosts.len(), 2);
        connections.forget_hosts(Nanos(u64::try_from(ended::KEEP.as_nanos()).unwrap()));
        let left: Vec<String> =
            connections.done().hosts.into_keys().map(|(host, _)| host).collect();
        assert_eq!(left, ["here"]);
    }

    #[test]
    fn what_was_done_is_counted_once_when_a_connection_ends() {
        let connections = Connections::default();
        connections.add(ConnectionId(1), queue(1, "a"));
        let reads = |connections: &Connections| -> u64 {
            connections.done().hosts.values().map(|io| io.read.ops).sum()
        };
        let stats = Arc::clone(&lock(&connections.0).present[&ConnectionId(1)].registered.stats);
        stats.get_or_init(Arc::default).read.record(3, 3 * 4096, 1000);
        assert_eq!(reads(&connections), 3);
        connections.remove(Nanos(0), ConnectionId(1)).unwrap();
        assert_eq!((reads(&connections), connections.done().queues.len()), (3, 0));
    }
}
