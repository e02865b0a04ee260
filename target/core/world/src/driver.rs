//! A reactor's machine in the simulation, which keeps what it is asked to do for the world to carry
//! out.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use arbitration::classify::{ConnectionClass, PolicyClass};
use arbitration::settings::OrderSettings;
use arbitration::{Class, PerClass, Reactors};
use fabric::Nanos;
use fabric::controller::{Action, BackendId, ConnectionId, Refusal, Service, SmartCounters};
use fabric::dhchap::{RANDOM_BYTES, Random};
use fabric::fabrics::{ConnectData, nqn_field};
use fabric::queue::Fetch;
use qtcp::pacing::Pacing;
use sluice_core::stats::{IoStats, PerReactor};
use sluice_core::{
    DataPlace, Driver, End, Job, Key, Notice, Origin, Policies, Started, Tenancy, Tenant,
    WorkloadTable,
};

use zerocopy::FromBytes as _;

use crate::disk::Disk;
use crate::target_end::{Batch, TargetEnd};
use sluice_core::heap::{HeapArena, HeapBuffer};

/// An operation that a reactor wants done.
#[derive(Debug)]
pub(crate) enum Op {
    Receive(Key),
    ReceiveChunk(Key),
    StopReceiving(Key),
    ReceiveOnce(Key, Option<DataPlace<HeapBuffer>>),
    Send(Key, Batch),
    Fetch(Key, Fetch, Option<DataPlace<HeapBuffer>>),
    ShutDown(Key),
    Launch(Box<Job<Sim>>),
    Wake(Reactors),
    Paced(Key, Arc<Pacing>),
    Ended(Key),
}

/// The settings of quality of service.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) version: u64,
    pub(crate) enabled: bool,
    pub(crate) order: OrderSettings,
    pub(crate) queue: u32,
    /// Settings of each host's commands, by the host's NQN.
    pub(crate) tenants: HashMap<String, Tenant>,
    /// Class of each host's commands that name none, by the host's NQN.
    pub(crate) classes: HashMap<String, Class>,
    pub(crate) root: Tenant,
}

impl Policies for Rules {
    fn flows_version(&self) -> u64 {
        self.version
    }

    fn enabled(&self) -> bool {
        self.enabled
    }

    fn order(&self) -> &OrderSettings {
        &self.order
    }

    fn queue(&self) -> u32 {
        self.queue
    }

    fn dscp(&self, _: Class) -> u8 {
        0
    }

    fn connection_class(&self, origin: &Origin) -> ConnectionClass {
        ConnectionClass {
            priority: origin.priority,
            weighted: origin.weighted,
            dscp: None,
            listener: None,
        }
    }
}

/// The state that all reactors of a world share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: RefCell<Service>,
    pub(crate) actions: RefCell<VecDeque<Action>>,
    pub(crate) rules: RefCell<Arc<Rules>>,
    pub(crate) disks: RefCell<HashMap<BackendId, Arc<Disk>>>,
    pub(crate) workloads: WorkloadTable,
    /// Hosts that may connect.
    pub(crate) access: RefCell<Access>,
    /// A Connect that was answered otherwise than the hosts that may connect say.
    pub(crate) wrong: RefCell<Option<String>>,
}

/// The hosts that may connect.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Whether hosts that are not listed may not connect.
    pub(crate) listed_only: bool,
    /// Whether each listed host may come from where it is, by its NQN.
    pub(crate) listed: HashMap<String, bool>,
}

impl Access {
    /// Says whether a host may connect.
    pub(crate) fn admits(&self, host: &str) -> bool {
        self.listed.get(host).copied().unwrap_or(!self.listed_only)
    }
}

impl Shared {
    /// Checks a Connect of a host that was answered.
    fn check_connect(&self, host: &str, accepted: bool) {
        if self.access.borrow().admits(host) != accepted {
            *self.wrong.borrow_mut() = Some(format!("{host} was let in: {accepted}"));
        }
    }

    /// Carries out the work of an authentication, on the spot.
    pub(crate) fn authenticate(&self, connection: ConnectionId) {
        self.with_service(|service| {
            let work = service.authentication_work(connection);
            service.authentication_worked(connection, work.map(|work| work.run(&unrandom())));
        });
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

/// Returns what takes the place of random bytes: the same in each run.
pub(crate) fn unrandom() -> Random {
    Random::new([0x5a; RANDOM_BYTES])
}

/// One reactor's machine.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) shared: Rc<Shared>,
    pub(crate) ops: Vec<Op>,
    /// Fetches that have not begun.
    fetches: Vec<Op>,
    /// Number of launches of which the last finds no scratch memory, while other jobs have it.
    pub(crate) short_of_scratch: u32,
    pub(crate) launches: u32,
    /// Uses of the service in this turn.
    pub(crate) served: u32,
    /// Connections that are queues.
    pub(crate) queues: HashSet<Key>,
    /// Number of jobs in devices.
    pub(crate) running: usize,
    /// Whether another job waits for one of them to end.
    pub(crate) is_short: bool,
    pub(crate) classes: PerClass<IoStats>,
    pub(crate) now: Nanos,
}

impl Sim {
    pub(crate) fn new(shared: Rc<Shared>, short_of_scratch: u32) -> Self {
        Self {
            shared,
            ops: Vec::new(),
            fetches: Vec::new(),
            short_of_scratch,
            launches: 0,
            served: 0,
            queues: HashSet::new(),
            running: 0,
            is_short: false,
            classes: PerClass::from_fn(|_| IoStats::default()),
            now: Nanos(0),
        }
    }
}

impl Driver for Sim {
    type Transport = TargetEnd;
    type Memory = HeapArena;
    type Device = Disk;
    type Policies = Rules;

    fn receive(&mut self, key: Key) {
        self.ops.push(Op::Receive(key));
    }

    fn receive_chunk(&mut self, key: Key) {
        self.ops.push(Op::ReceiveChunk(key));
    }

    fn stop_receiving(&mut self, key: Key) {
        self.ops.push(Op::StopReceiving(key));
    }

    fn receive_once(&mut self, key: Key, place: Option<DataPlace<HeapBuffer>>) {
        self.ops.push(Op::ReceiveOnce(key, place));
    }

    fn send(&mut self, key: Key, batch: Batch) {
        self.ops.push(Op::Send(key, batch));
    }

    fn fetch(&mut self, key: Key, fetch: Fetch, place: Option<DataPlace<HeapBuffer>>) {
        self.fetches.push(Op::Fetch(key, fetch, place));
    }

    fn begin_fetches(&mut self, _: Key) {
        self.ops.append(&mut self.fetches);
    }

    fn shut_down(&mut self, key: Key) {
        self.ops.push(Op::ShutDown(key));
    }

    fn set_dscp(&mut self, _: Key, _: u8, _: i32) -> bool {
        true
    }

    fn join_network(&mut self, key: Key, pacing: &Arc<Pacing>) -> bool {
        self.ops.push(Op::Paced(key, Arc::clone(pacing)));
        true
    }

    fn launch(&mut self, job: Job<Self>) -> Started<Self> {
        self.launches += 1;
        let short = self.short_of_scratch > 0 && self.running > 0;
        if short && self.launches.is_multiple_of(self.short_of_scratch) {
            self.is_short = true;
            return Started::<Self>::NoMemory(job);
        }
        self.running += 1;
        self.ops.push(Op::Launch(Box::new(job)));
        Started::<Self>::Running
    }

    fn device(&mut self, id: BackendId) -> Option<Arc<Disk>> {
        self.shared.disks.borrow().get(&id).cloned()
    }

    fn policies_version(&self) -> u64 {
        self.shared.rules.borrow().version
    }

    fn policies(&self) -> Arc<Rules> {
        Arc::clone(&self.shared.rules.borrow())
    }

    fn resolve(&self, rules: &Rules, _: &Origin, host: &str, _: &str, _: Option<u32>) -> Tenancy {
        let class = rules.classes.get(host).copied();
        Tenancy {
            class: PolicyClass { class, max_class: None, urgent: None },
            tenant: rules.tenants.get(host).unwrap_or(&rules.root).clone(),
            flush_is_output: false,
        }
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

    fn smart(&self, _devices: &[BackendId]) -> SmartCounters {
        SmartCounters::default()
    }

    fn wake(&mut self, reactors: Reactors) {
        self.ops.push(Op::Wake(reactors));
    }

    fn notice(&mut self, key: Key, notice: Notice<'_, Self::Transport>) {
        match notice {
            Notice::Connected { shared, .. } => {
                self.queues.insert(key);
                self.shared.check_connect(&shared.host_nqn, true);
            }
            Notice::Refused {
                data,
                reason: Refusal::HostNotAllowed | Refusal::AddressNotAllowed,
            } => {
                let data = ConnectData::ref_from_bytes(data).ok();
                let host = data.and_then(|data| nqn_field(&data.hostnqn)).unwrap_or_default();
                self.shared.check_connect(host, false);
            }
            _ => {}
        }
    }

    fn ended(&mut self, key: Key, end: End<'_>) {
        let now = self.now;
        self.queues.remove(&key);
        self.shared.with_service(|service| service.disconnected(now, end.id));
        self.ops.push(Op::Ended(key));
    }
}
