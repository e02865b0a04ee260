//! What all threads of the daemon share. No I/O command takes a lock in here.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{Action, BackendId, ConnectionId, Service, SmartCounters};

use crate::config::{self, Network, QosConfig};
use crate::devices::{Device, Devices};
use crate::ended::{Ended, HostKey};
use crate::engine::{ConnectionState, ReactorState};
use crate::hosts::{HostLog, Line};
use crate::lent::Lent;
use crate::network::NetworkShared;
use crate::qos::{QosShared, Touched};
use crate::reactor::mailbox::{Mailbox, Message};
use sluice_core::Key;
use sluice_core::stats::{Histogram, IoSnapshot, IoStats};

/// The daemon's clock: nanoseconds since its start.
///
/// It reads the CPU's time stamp counter where that is invariant. A reactor asks for the time in
/// every turn, and where the kernel's clock takes a system call (user-mode kernels, some
/// hypervisors) that would cost more than the turn.
#[derive(Clone, Debug)]
pub struct Clock {
    clock: quanta::Clock,
    start: u64,
}

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub fn start() -> Self {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Self { clock, start }
    }

    /// The time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}

/// How often hosts are looked for that have been gone for long, in nanoseconds.
const FORGET_EVERY_NS: u64 = 10_000_000_000;

/// A connection that is registered, for whoever asks what there is.
#[derive(Debug)]
pub struct Registered {
    /// What is known of it.
    pub state: ConnectionState,
    /// Its statistics, written by its reactor.
    pub stats: Arc<IoStats>,
    /// Commands in the target, written by its reactor.
    pub in_flight: Arc<AtomicU32>,
}

/// A reactor's own counters, for whoever asks.
#[derive(Debug, Default)]
pub struct ReactorGauges {
    /// CPU number.
    pub core: AtomicU64,
    /// Connections it serves, and those on their way to it.
    pub connections: AtomicU64,
    /// Nanoseconds spent working.
    pub busy_ns: AtomicU64,
    /// Turns of its loop.
    pub turns: AtomicU64,
    /// When it was last seen turning, in nanoseconds of the daemon's clock.
    pub seen: AtomicU64,
    /// I/O buffer bytes in use.
    pub buffer_used: AtomicU64,
    /// I/O buffer bytes in all.
    pub buffer_total: AtomicU64,
    /// CPU time of each part of a change that it took in a turn.
    pub changes: Histogram,
}

impl ReactorGauges {
    /// A copy, for reading.
    #[must_use]
    pub fn state(&self) -> ReactorState {
        ReactorState {
            core: usize::try_from(self.core.load(Ordering::Relaxed)).unwrap_or(0),
            connections: self.connections.load(Ordering::Relaxed),
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            buffer_used: self.buffer_used.load(Ordering::Relaxed),
            buffer_total: self.buffer_total.load(Ordering::Relaxed),
            changes: self.changes.snapshot(),
        }
    }
}

/// Counters of rare events.
#[derive(Debug, Default)]
pub struct Events {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections ended because the peer broke the protocol.
    pub protocol_errors: AtomicU64,
    /// Controllers ended because their keep-alive timer expired.
    pub keep_alive_expired: AtomicU64,
}

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    /// `[target]` of the configuration.
    pub settings: config::Target,
    /// The clock.
    pub clock: Clock,
    /// The open devices.
    pub devices: Devices,
    /// Quality of service.
    pub(crate) qos: QosShared,
    /// What connections get of the network.
    pub(crate) network: NetworkShared,
    /// One for each reactor.
    pub mailboxes: Vec<Mailbox>,
    /// One for each reactor.
    pub gauges: Vec<ReactorGauges>,
    /// Counters of rare events.
    pub events: Events,
    /// Whether the kernel has NVMe passthrough by io_uring.
    pub passthrough: AtomicBool,
    /// The present connections.
    pub connections: Mutex<HashMap<ConnectionId, Registered>>,
    /// What reactors were told to look at again.
    touched: Lent<Touched>,
    /// What the log says of hosts.
    hosts: Mutex<HostLog>,
    /// What connections that have ended did. Locked after `connections`, and with it where both
    /// are read, so that nothing is counted twice or not at all.
    pub ended: Mutex<Ended>,
    service: Mutex<Service>,
    /// Wakes the timer thread when a deadline may have moved.
    timer: Condvar,
}

/// A lock whose holder panicked is used on: what it guards is changed in whole steps.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The shared state of `reactors` reactors.
    ///
    /// # Errors
    /// No file descriptors are to be had.
    pub fn new(
        settings: config::Target,
        reactors: usize,
        service: Service,
        qos: &QosConfig,
        network: &Network,
    ) -> std::io::Result<Self> {
        let memory = settings.io_memory.saturating_mul(reactors as u64);
        Ok(Self {
            qos: QosShared::new(qos, reactors, memory),
            network: NetworkShared::new(network),
            settings,
            clock: Clock::start(),
            devices: Devices::default(),
            mailboxes: (0..reactors).map(|_| Mailbox::new()).collect::<Result<_, _>>()?,
            gauges: (0..reactors).map(|_| ReactorGauges::default()).collect(),
            events: Events::default(),
            passthrough: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Mutex::default(),
            touched: Lent::default(),
            hosts: Mutex::default(),
            service: Mutex::new(service),
            timer: Condvar::new(),
        })
    }

    /// Does something with the service, then sends on what it wants done.
    pub fn with_service<R>(&self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        let mut service = lock(&self.service);
        let answer = use_it(&mut service);
        self.route(&mut service);
        drop(service);
        self.timer.notify_one();
        answer
    }

    /// Runs the service's timers until `over` says so: the body of the timer thread.
    pub fn run_timers(&self, over: impl Fn() -> bool) {
        const LONGEST: Duration = Duration::from_millis(200);
        let mut next_forget = Nanos(0);
        let mut service = lock(&self.service);
        while !over() {
            let now = self.clock.now();
            if now >= next_forget {
                drop(service);
                self.forget_hosts(now);
                service = lock(&self.service);
                next_forget = Nanos(now.0.saturating_add(FORGET_EVERY_NS));
            }
            // Reactors want the service; what quality of service has to do may take longer.
            drop(service);
            if self.qos.retry(self.clock.now()) {
                self.refresh();
            }
            service = lock(&self.service);
            // What a reactor that stood still has not read yet may be a Keep Alive.
            let next = service.tick(now.min(self.oldest_turn() + LONGEST * 2));
            self.route(&mut service);
            let wait =
                next.map_or(LONGEST, |at| at.since(now)).clamp(Duration::from_millis(1), LONGEST);
            service = match self.timer.wait_timeout(service, wait) {
                Ok((service, _)) => service,
                Err(poisoned) => poisoned.into_inner().0,
            };
            // A log that stands still holds nobody up but this thread.
            drop(service);
            self.tell_of_hosts(HostLog::settled);
            service = lock(&self.service);
        }
    }

    /// Notes what a host did, and writes the lines that follow from it to the log.
    pub(crate) fn tell_of_hosts<L: IntoIterator<Item = Line>>(
        &self,
        note: impl FnOnce(&mut HostLog, Nanos) -> L,
    ) {
        let lines = note(&mut lock(&self.hosts), self.clock.now());
        lines.into_iter().for_each(|line| line.log());
    }

    /// Forgets hosts that have been gone for long.
    fn forget_hosts(&self, now: Nanos) {
        let connections = lock(&self.connections);
        let connected: BTreeSet<HostKey> =
            connections.values().filter_map(|registered| registered.state.host_key()).collect();
        lock(&self.ended).forget(now, |host| connected.contains(host));
    }

    /// Lets the reactors see that settings have changed.
    pub(crate) fn refresh(&self) {
        if let Some(touched) = self.qos.take_touched() {
            let touched = Arc::new(touched);
            for mailbox in &self.mailboxes {
                mailbox.post(Message::Refresh(Arc::clone(&touched)));
            }
            self.touched.keep(touched);
        }
    }

    /// Removes devices, and tells the reactors; answers them.
    pub(crate) fn remove_devices(&self, ids: &[BackendId]) -> Vec<Arc<Device>> {
        let removed: Vec<_> = ids.iter().filter_map(|id| self.devices.remove(*id)).collect();
        let gone: Arc<[BackendId]> = ids.into();
        for mailbox in self.mailboxes.iter().filter(|_| !removed.is_empty()) {
            mailbox.post(Message::Gone(Arc::clone(&gone)));
        }
        removed
    }

    /// When the reactor that has not turned for the longest time did.
    fn oldest_turn(&self) -> Nanos {
        let seen = self.gauges.iter().map(|gauges| gauges.seen.load(Ordering::Relaxed));
        Nanos(seen.min().unwrap_or(u64::MAX))
    }

    /// Posts a message to the reactor that serves a connection.
    pub fn post(&self, connection: ConnectionId, message: Message) {
        let (reactor, _) = Key::of(connection);
        if let Some(mailbox) = self.mailboxes.get(reactor) {
            mailbox.post(message);
        }
    }

    /// The counters that the SMART log shows, of all namespaces.
    #[must_use]
    pub fn smart(&self) -> SmartCounters {
        let mut total = IoSnapshot::default();
        for device in self.devices.all() {
            for stats in device.stats.iter() {
                total.merge(&stats.snapshot());
            }
        }
        SmartCounters {
            bytes_read: total.read.bytes,
            bytes_written: total.write.bytes,
            reads: total.read.ops,
            writes: total.write.ops,
            media_errors: 0,
            busy: Duration::ZERO,
            uptime: Duration::from_nanos(self.clock.now().0),
        }
    }

    fn route(&self, service: &mut Service) {
        while let Some(action) = service.poll_action() {
            let connection = match action {
                Action::Complete { connection, .. }
                | Action::Close { connection, .. }
                | Action::Abort { connection, .. } => connection,
                // I/O queues see the new version in what they share with their controller.
                Action::TableChanged { .. } => continue,
            };
            self.post(connection, Message::Act(action));
        }
    }
}

#[cfg(test)]
mod tests {
    use fabric::controller::ServiceConfig;

    use super::*;
    use crate::ended;

    /// An I/O queue of a host.
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
            network: None,
        };
        Registered { state, stats: Arc::default(), in_flight: Arc::default() }
    }

    #[test]
    fn the_timers_forget_hosts_that_are_gone_and_no_other() {
        let service = Service::new(ServiceConfig::default()).unwrap();
        let (qos, network) = (QosConfig::default(), Network::default());
        let shared = Shared::new(config::Target::default(), 1, service, &qos, &network).unwrap();
        for host in ["here", "gone"] {
            let key = queue(1, host).state.host_key().unwrap();
            lock(&shared.ended).add(Nanos(0), key, &IoSnapshot::default());
        }
        lock(&shared.connections).insert(ConnectionId(1), queue(1, "here"));
        let later = u64::try_from(ended::KEEP.as_nanos()).unwrap();
        shared.forget_hosts(Nanos(later));
        let left: Vec<String> =
            lock(&shared.ended).snapshot().into_keys().map(|(host, _)| host).collect();
        assert_eq!(left, ["here"]);
    }
}
