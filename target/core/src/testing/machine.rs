//! A reactor's machine, which keeps operations until its owner carries them out.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use arbitration::{Class, PerClass, Reactors};
use fabric::Nanos;
use fabric::controller::{BackendId, QueueKind, Refusal, Service, SmartCounters};
use fabric::fabrics::{ConnectData, nqn_field};
use fabric::queue::{Fetch, Termination};
use qtcp::pacing::Pacing;
use zerocopy::FromBytes as _;

use super::disk::{Blocks, Disk};
use super::heap::HeapArena;
use super::rules::Rules;
use super::shared::Shared;
use super::wire::{Batch, Place, TargetEnd};
use crate::machine::driver::{Driver, End, Job, Notice, Started};
use crate::machine::key::Key;
use crate::machine::origin::Origin;
use crate::machine::policies::Tenancy;
use crate::stats::counters::{IoStats, PerReactor};
use crate::trace::TracedCommand;

/// The way in which a reactor receives from a connection.
#[derive(Debug)]
pub enum Receive {
    /// Chunk after chunk, until it stops.
    Chunks,
    /// One chunk.
    Chunk,
    /// Once, with the place for a command's data if it has one.
    Once(Option<Place>),
}

/// An operation that a reactor wants done when its turn is over.
#[derive(Debug)]
pub enum Op {
    /// Send a batch.
    Send(Key, Batch),
    /// Move a part of a command's data from its host's memory to a place.
    Fetch(Key, Fetch, Option<Place>),
    /// End a connection's stream.
    ShutDown(Key),
    /// Wake other reactors.
    Wake(Reactors),
    /// Mark a connection's packets: the DSCP, and the priority in the machine.
    Mark(Key, u8, i32),
    /// Look after a connection for the network's stage from now on.
    Join(Key, Arc<Pacing>),
    /// Forget a connection, which has ended for this reason.
    Ended(Key, String),
}

/// A [`Notice`] that has been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The connection became a queue of a controller of the host with this NQN.
    Connected(QueueKind, String),
    /// The Connect of the host with this NQN was refused.
    Refused(String, Refusal),
    /// The host broke the protocol, as the text says.
    BrokeProtocol(String),
    /// The host ended the connection.
    Terminated(Termination),
    /// The controller's keep-alive timer has expired.
    KeepAliveExpired,
    /// The host sent no Connect in time.
    NoConnect,
    /// The host is too slow, as the text says.
    TooSlow(&'static str),
    /// The connection's end begins, for this reason.
    Ending(String),
}

/// One reactor's machine; `B` is the content of the target's devices.
#[derive(Debug)]
pub struct Machine<B: Blocks> {
    /// The state that all reactors share.
    pub shared: Rc<Shared<B>>,
    /// The present time: to be set ahead of each turn.
    pub now: Nanos,
    /// Changes of how connections are received from, in order; `None`: stop.
    pub receives: Vec<(Key, Option<Receive>)>,
    /// Operations to carry out when the turn is over, in order.
    pub ops: Vec<Op>,
    /// Commands that were handed to their devices, in order.
    pub jobs: Vec<Job<Self>>,
    /// Notices of the reactor about connections, in order.
    pub seen: Vec<(Key, Seen)>,
    /// Connections that are queues of controllers.
    pub queues: HashSet<Key>,
    /// The statistics of the classes.
    pub classes: PerClass<IoStats>,
    /// Commands that were traced, in order.
    pub traced: Vec<TracedCommand>,
    /// Whether the network's stage looks after connections.
    pub network: bool,
    /// The counters of the SMART log. The number of devices that it is of counts as writes.
    pub smart: SmartCounters,
    /// Uses of the service.
    pub served: u32,
    /// Number of launches of which the last finds no memory, while other jobs run; 0: all find some.
    pub short_of_memory: u32,
    /// Whether a job waits for another one to end.
    pub is_short: bool,
    /// Launches, and jobs among them that have not ended.
    launches: u32,
    running: usize,
    /// Fetches that have not begun.
    fetches: Vec<Op>,
}

impl<B: Blocks> Machine<B> {
    /// Makes a reactor's machine, whose network's stage looks after connections.
    #[must_use]
    pub fn new(shared: &Rc<Shared<B>>) -> Self {
        Self {
            shared: Rc::clone(shared),
            now: Nanos(0),
            receives: Vec::new(),
            ops: Vec::new(),
            jobs: Vec::new(),
            seen: Vec::new(),
            queues: HashSet::new(),
            classes: PerClass::from_fn(|_| IoStats::default()),
            traced: Vec::new(),
            network: true,
            smart: SmartCounters::default(),
            served: 0,
            short_of_memory: 0,
            is_short: false,
            launches: 0,
            running: 0,
            fetches: Vec::new(),
        }
    }

    /// Takes note that a job has ended, whose memory is free again.
    pub fn job_ends(&mut self) {
        (self.running, self.is_short) = (self.running.saturating_sub(1), false);
    }

    /// Counts the commands that were completed.
    #[must_use]
    pub fn completed(&self) -> u64 {
        Class::ALL.iter().map(|class| self.classes[*class].operations()).sum()
    }
}

impl<B: Blocks> Driver for Machine<B> {
    type Transport = TargetEnd;
    type Memory = HeapArena;
    type Device = Disk<B>;
    type Policies = Rules;

    fn receive(&mut self, key: Key) {
        self.receives.push((key, Some(Receive::Chunks)));
    }

    fn receive_chunk(&mut self, key: Key) {
        self.receives.push((key, Some(Receive::Chunk)));
    }

    fn stop_receiving(&mut self, key: Key) {
        self.receives.push((key, None));
    }

    fn receive_once(&mut self, key: Key, place: Option<Place>) {
        self.receives.push((key, Some(Receive::Once(place))));
    }

    fn send(&mut self, key: Key, batch: Batch) {
        self.ops.push(Op::Send(key, batch));
    }

    fn fetch(&mut self, key: Key, fetch: Fetch, place: Option<Place>) {
        self.fetches.push(Op::Fetch(key, fetch, place));
    }

    fn begin_fetches(&mut self, _: Key) {
        self.ops.append(&mut self.fetches);
    }

    fn shut_down(&mut self, key: Key) {
        self.ops.push(Op::ShutDown(key));
    }

    fn set_dscp(&mut self, key: Key, dscp: u8, priority: i32) -> bool {
        self.ops.push(Op::Mark(key, dscp, priority));
        true
    }

    fn join_network(&mut self, key: Key, pacing: &Arc<Pacing>) -> bool {
        if self.network {
            self.ops.push(Op::Join(key, Arc::clone(pacing)));
        }
        self.network
    }

    fn launch(&mut self, job: Job<Self>) -> Started<Self> {
        self.launches = self.launches.wrapping_add(1);
        let short = self.short_of_memory > 0 && self.running > 0;
        if short && self.launches.is_multiple_of(self.short_of_memory) {
            self.is_short = true;
            return Started::<Self>::NoMemory(job);
        }
        self.running += 1;
        self.jobs.push(job);
        Started::<Self>::Running
    }

    fn device(&mut self, id: BackendId) -> Option<Arc<Disk<B>>> {
        self.shared.disk(id)
    }

    fn policies_version(&self) -> u64 {
        self.shared.rules.borrow().version
    }

    fn policies(&self) -> Arc<Rules> {
        Arc::clone(&self.shared.rules.borrow())
    }

    fn resolve(
        &self,
        rules: &Rules,
        _: &Origin,
        host: &str,
        _: &str,
        nsid: Option<u32>,
    ) -> Tenancy {
        rules.tenancy(host, nsid)
    }

    fn class_stats(&self, class: Class) -> Option<&IoStats> {
        Some(&self.classes[class])
    }

    fn workload_stats(&self, _: Nanos, host: &str, _: &str, of: (u32, Class)) -> Arc<PerReactor> {
        self.shared.workloads.stats(host, of)
    }

    fn service<R>(&mut self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        self.served += 1;
        self.shared.with_service(use_it)
    }

    fn smart(&self, devices: &[BackendId]) -> SmartCounters {
        SmartCounters { writes: devices.len() as u64, ..self.smart }
    }

    fn wake(&mut self, reactors: Reactors) {
        self.ops.push(Op::Wake(reactors));
    }

    fn notice(&mut self, key: Key, notice: Notice<'_, TargetEnd>) {
        let seen = match notice {
            Notice::Connected { kind, shared, .. } => {
                self.queues.insert(key);
                Seen::Connected(kind, shared.host_nqn.clone())
            }
            Notice::Refused { data, reason } => {
                let data = ConnectData::ref_from_bytes(data).ok();
                let host = data.and_then(|data| nqn_field(&data.hostnqn)).unwrap_or_default();
                Seen::Refused(host.to_owned(), reason)
            }
            Notice::BrokeProtocol(violation) => Seen::BrokeProtocol(violation.to_string()),
            Notice::Terminated(why) => Seen::Terminated(why),
            Notice::KeepAliveExpired => Seen::KeepAliveExpired,
            Notice::NoConnect => Seen::NoConnect,
            Notice::TooSlow(how) => Seen::TooSlow(how),
            Notice::Ending(why) => Seen::Ending(why.to_owned()),
        };
        self.seen.push((key, seen));
    }

    fn traced(&mut self, command: TracedCommand) {
        self.traced.push(command);
    }

    fn ended(&mut self, key: Key, end: End<'_>) {
        let now = self.now;
        self.queues.remove(&key);
        self.shared.with_service(|service| service.disconnected(now, end.id));
        self.ops.push(Op::Ended(key, end.reason.to_owned()));
    }
}
