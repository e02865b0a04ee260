//! One controller: its kind, its queues, its keep alive timer.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::error_log::ErrorLog;
use super::events::{ChangedNamespaces, Events};
use super::feature_values::Features;
use super::regions::HeldRegions;
use super::registers::Properties;
use super::rights::HostRights;
use super::types::TIMER;
use super::{
    Action, ConnectionId, ControllerId, ControllerShared, Identified, ListenerId, NamespaceTable,
    Readiness, ServiceConfig, TransportType,
};
use crate::Nanos;
use crate::nvme::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControllerKind {
    Io,
    Discovery,
}

/// A controller, from its admin queue's Connect until that queue's connection ends.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) id: ControllerId,
    pub(super) kind: ControllerKind,
    pub(super) shared: Arc<ControllerShared>,
    /// The host's rights, by which it sees `table`.
    pub(super) rights: HostRights,
    pub(super) table: Arc<NamespaceTable>,
    /// The NSIDs of `table` that were another disk's before, and that the host has not identified.
    pub(super) withheld: BTreeMap<u32, Withheld>,
    /// The disks that the host has identified, by this controller or by possible predecessors.
    pub(super) identified: Identified,
    pub(super) host_id: [u8; 16],
    pub(super) listener: ListenerId,
    /// The transport of its queues.
    pub(super) transport: TransportType,
    /// The address that the admin queue came from, where the daemon told it.
    pub(super) address: Option<IpAddr>,
    /// The connections that the host is promised ([`Room`](super::room::Room)).
    pub(super) places: u32,
    /// The address on which the host reached the target, where the daemon told it.
    pub(super) local_address: Option<SocketAddr>,
    /// Entries of the largest I/O queue (MQES + 1).
    pub(super) queue_entries: u16,
    pub(super) admin: ConnectionId,
    pub(super) queues: BTreeMap<u16, ConnectionId>,
    /// The highest identifier of an I/O queue that was ever connected; 0: none was.
    pub(super) last_qid: u16,
    /// The I/O queues that have nothing left to do in a target that drains.
    pub(super) settled: BTreeSet<u16>,
    /// The time at which the last I/O queue had nothing left to do; `None` while one has.
    pub(super) settled_at: Option<Nanos>,
    pub(super) properties: Properties,
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) errors: ErrorLog,
    pub(super) changed: ChangedNamespaces,
    /// The change count of the ANA log page that the host read last; `None`: the host has read none since the
    /// controller was enabled.
    pub(super) ana_read: Option<u64>,
    pub(super) keep_alive: KeepAlive,
    /// The regions that the host was granted; `None`: no region since the controller was enabled.
    pub(super) regions: Option<HeldRegions>,
}

/// A namespace that a controller's host has not identified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Withheld {
    /// The readiness that the host is shown: `Unidentified` or `KnownAsOther`.
    pub(super) shown: Readiness,
    /// Whether the host has compared the identifiers, and was notified to look at the namespace
    /// again.
    pub(super) is_compared: bool,
}

impl Withheld {
    pub(super) fn new(shown: Readiness) -> Self {
        Self { shown, is_compared: false }
    }
}

impl Controller {
    /// Returns the host's NQN.
    pub(super) fn host(&self) -> &str {
        &self.shared.host_nqn
    }

    /// Returns the subsystem's NQN.
    pub(super) fn subsystem(&self) -> &str {
        &self.shared.subsystem_nqn
    }

    /// Completes Asynchronous Event Requests as long as there are both events and requests.
    pub(super) fn pump_events(&mut self, actions: &mut VecDeque<Action>) {
        while let Some((cid, result)) = self.events.poll() {
            let connection = self.admin;
            actions.push_back(Action::Complete {
                connection,
                cid,
                result,
                status: Status::SUCCESS,
            });
        }
    }

    /// Resets the features to their defaults. Returns the Asynchronous Event Requests, to be completed as aborted.
    pub(super) fn reset(&mut self, config: &ServiceConfig) -> VecDeque<u16> {
        self.features = Features::new(config);
        self.changed.clear();
        self.ana_read = None;
        self.shared.knows_ana.store(false, Ordering::Relaxed);
        self.shared.acre.store(false, Ordering::Relaxed);
        self.shared.end_resending();
        self.shared.wrr.store(false, Ordering::Relaxed);
        self.shared.weights.set(config.arbitration);
        self.events.reset()
    }
}

/// The keep alive timer. A discovery controller without one has an activity timer instead.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// The timeout that the host asked for, rounded up, in milliseconds; 0: off.
    pub(super) milliseconds: u32,
    /// The lifetime without a command where the host's timer is off.
    idle: Option<Duration>,
    deadline: Option<Nanos>,
}

impl KeepAlive {
    /// Makes a timer that starts now.
    pub(super) fn new(now: Nanos, kato: u32, kind: ControllerKind, config: &ServiceConfig) -> Self {
        let idle = (kind == ControllerKind::Discovery).then_some(config.discovery_idle);
        let mut timer = Self { milliseconds: 0, idle, deadline: None };
        timer.set(now, kato, config);
        timer
    }

    /// Returns whether a host may ask for a timeout of `kato` milliseconds: a discovery controller
    /// must not outlive its host for long.
    pub(super) fn allows(kato: u32, kind: ControllerKind, config: &ServiceConfig) -> bool {
        let timeout = Duration::from_millis(u64::from(kato));
        kind == ControllerKind::Io || timeout <= config.discovery_keep_alive
    }

    /// Sets the timeout, rounded up to the granularity, and restarts the timer.
    pub(super) fn set(&mut self, now: Nanos, kato: u32, config: &ServiceConfig) {
        let step = u64::try_from(config.keep_alive_granularity.as_millis()).unwrap_or(u64::MAX);
        let rounded = u64::from(kato).div_ceil(step.max(1)).saturating_mul(step);
        self.milliseconds = u32::try_from(rounded).unwrap_or(u32::MAX);
        self.restart(now);
    }

    /// Returns the timeout; `None` where the timer is off.
    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.milliseconds > 0).then(|| Duration::from_millis(u64::from(self.milliseconds)))
    }

    /// Restarts the timer at a sign of life.
    pub(super) fn restart(&mut self, now: Nanos) {
        self.deadline = self.timeout().or(self.idle).map(|timeout| now + timeout);
    }

    /// Returns when the timer runs out.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// Returns whether the timer has run out. Traffic since its start restarts it (TBKAS).
    pub(super) fn expired(&mut self, now: Nanos, shared: &ControllerShared) -> bool {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return false;
        }
        let heard = shared.take_heard(TIMER);
        if heard {
            self.restart(now);
        }
        !heard
    }
}
