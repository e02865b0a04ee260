//! A reactor's machine, which keeps what it is asked to do for the model to carry out.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use arbitration::Reactors;
use fabric::controller::{Action, BackendId, QueueKind, Service, SmartCounters};
use fabric::queue::{Either, Fetch};
use fabric::rdma::wire::TargetQueue;
use fabric::tcp::TargetConnection;
use qtcp::pacing::Pacing;
use sluice_core::heap::HeapArena;
use sluice_core::stats::{IoSnapshot, IoStats, PerReactor};
use sluice_core::{Driver, End, Job, Key, Notice, Origin, Started, Tenancy, WorkloadTable};
use units::{Class, Nanos, PerClass};

use super::disk::Disk;
use super::rules::Rules;
use crate::connection::{Batch, Receive};
use crate::payload::{Place, Returned};

/// An operation that a reactor wants done when its turn is over.
#[derive(Debug)]
pub(crate) enum Op {
    Send(Key, Batch),
    /// A READ of a queue pair, and the place for its data.
    Fetch(Key, Fetch, Option<Place>),
    /// A queue pair's connection is accepted.
    Answer(Key),
    ShutDown(Key),
    Launch(Box<Job<Machine>>),
    Wake(Reactors),
    /// The DSCP of what a connection sends.
    Mark(Key, u8),
    /// The network's stage looks after a connection from now on.
    Join(Key, Arc<Pacing>),
    Ended(Key),
}

/// A change of how a reactor receives from a connection; `None`: it stops.
pub(crate) type ReceiveOp = (Key, Option<Receive>);

/// The state that all reactors of a target share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: RefCell<Service>,
    /// What the service wants done.
    pub(crate) actions: RefCell<VecDeque<Action>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) disks: HashMap<BackendId, Arc<Disk>>,
    workloads: WorkloadTable,
}

impl Shared {
    pub(crate) fn new(
        service: Service,
        rules: Rules,
        disks: HashMap<BackendId, Arc<Disk>>,
        reactors: usize,
    ) -> Self {
        Self {
            service: RefCell::new(service),
            actions: RefCell::default(),
            rules: Arc::new(rules),
            disks,
            workloads: WorkloadTable::new(reactors),
        }
    }

    /// Returns the statistics of a host's commands of a class to a namespace, of all reactors.
    pub(crate) fn workload(&self, host: &str, of: (u32, Class)) -> IoSnapshot {
        let mut sum = IoSnapshot::default();
        self.workloads.stats(host, of).iter().for_each(|stats| sum.merge(&stats.snapshot()));
        sum
    }

    /// Does something with the service, and keeps what the service wants done.
    pub(crate) fn with_service<R>(&self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        let mut service = self.service.borrow_mut();
        let answer = use_it(&mut service);
        while let Some(action) = service.poll_action() {
            self.actions.borrow_mut().push_back(action);
        }
        answer
    }
}

/// One reactor's machine.
#[derive(Debug)]
pub(crate) struct Machine {
    shared: Rc<Shared>,
    /// What is to be done when the turn is over, in order.
    pub(crate) ops: Vec<Op>,
    /// What changes at once, in order.
    pub(crate) receives: Vec<ReceiveOp>,
    pub(crate) classes: PerClass<IoStats>,
    /// I/O queues among its connections.
    pub(crate) io_queues: u64,
    /// Words of connections that have ended otherwise than by their hosts, with the connection.
    pub(crate) faults: Vec<(Key, String)>,
    pub(crate) now: Nanos,
}

impl Machine {
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        Self {
            shared,
            ops: Vec::new(),
            receives: Vec::new(),
            classes: PerClass::from_fn(|_| IoStats::default()),
            io_queues: 0,
            faults: Vec::new(),
            now: Nanos(0),
        }
    }

    /// Counts the commands that were completed.
    pub(crate) fn completed(&self) -> u64 {
        Class::ALL.iter().map(|class| self.classes[*class].operations()).sum()
    }
}

impl Driver for Machine {
    type Transport = Either<TargetConnection<Returned>, TargetQueue<Returned, Vec<u8>>>;
    type Memory = HeapArena;
    type Device = Disk;
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
        self.ops.push(Op::Fetch(key, fetch, place));
    }

    fn shut_down(&mut self, key: Key) {
        self.ops.push(Op::ShutDown(key));
    }

    fn set_dscp(&mut self, key: Key, dscp: u8, _: i32) -> bool {
        self.ops.push(Op::Mark(key, dscp));
        true
    }

    fn join_network(&mut self, key: Key, pacing: &Arc<Pacing>) -> bool {
        self.ops.push(Op::Join(key, Arc::clone(pacing)));
        true
    }

    fn launch(&mut self, job: Job<Self>) -> Started<Self> {
        self.ops.push(Op::Launch(Box::new(job)));
        Started::<Self>::Running
    }

    fn device(&mut self, id: BackendId) -> Option<Arc<Disk>> {
        self.shared.disks.get(&id).cloned()
    }

    fn policies_version(&self) -> u64 {
        1
    }

    fn policies(&self) -> Arc<Rules> {
        Arc::clone(&self.shared.rules)
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
        self.shared.with_service(use_it)
    }

    fn smart(&self, _devices: &[BackendId]) -> SmartCounters {
        SmartCounters::default()
    }

    fn wake(&mut self, reactors: Reactors) {
        self.ops.push(Op::Wake(reactors));
    }

    fn notice(&mut self, key: Key, notice: Notice<'_, Self::Transport>) {
        match notice {
            Notice::Connected { kind: QueueKind::Io, .. } => self.io_queues += 1,
            Notice::Connected { .. } | Notice::Terminated(_) => {}
            Notice::Ending(why) => self.faults.push((key, why.to_owned())),
            Notice::Refused { reason, .. } => self.faults.push((key, format!("{reason:?}"))),
            Notice::BrokeProtocol(violation) => self.faults.push((key, violation.to_string())),
            Notice::KeepAliveExpired => self.faults.push((key, "no Keep Alive came".to_owned())),
            Notice::NoConnect => self.faults.push((key, "no Connect came".to_owned())),
            Notice::TooSlow(why) => self.faults.push((key, why.to_owned())),
        }
    }

    fn ended(&mut self, key: Key, end: End<'_>) {
        let now = self.now;
        self.shared.with_service(|service| service.disconnected(now, end.id));
        self.ops.push(Op::Ended(key));
    }
}
