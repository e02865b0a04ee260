//! A machine below a reactor in which everything happens when a test says so.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use arbitration::classify::{ConnectionClass, PolicyClass};
use arbitration::container::Scheduler;
use arbitration::credit::Caps;
use arbitration::device::{self as qos, ContainerRules, DeviceRules};
use arbitration::limit::Rate;
use arbitration::session::{RootSpec, SessionSpec, Sessions};
use arbitration::settings::{OrderSettings, WindowRule};
use arbitration::{Class, PerClass, Reactors};
use fabric::Nanos;
use fabric::controller::{BackendId, Service, SmartCounters};
use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use fabric::tcp::{Batch, TargetConnection};
use qtcp::pacing::Pacing;

use crate::device::{BlockDevice, Data, Immediate, Style, Timed};
use crate::driver::{DataPlace, Driver, End, Job, Notice, Started};
use crate::heap::{HeapArena, HeapBuffer};
use crate::key::Key;
use crate::origin::Origin;
use crate::payload::TxData;
use crate::policies::{Policies, Tenancy, Tenant};
use crate::stats::{IoStats, PerReactor};
use crate::workload_table::WorkloadTable;

/// Bytes of a block.
pub(super) const BLOCK: usize = 512;

/// A device: on the spot, or when a test says so.
#[derive(Debug)]
pub(super) struct Disk {
    immediate: bool,
    data: RefCell<Vec<u8>>,
    qos: Arc<qos::Device>,
    pub(super) stats: PerReactor,
    /// What all of its commands end with, where they fail.
    pub(super) fails: Cell<Option<Status>>,
    /// Time in ns after which commands are complete that are carried out on the spot, where the
    /// device is the model of a slow one.
    pub(super) delay_ns: Cell<Option<u64>>,
}

impl Disk {
    pub(super) fn new(immediate: bool, blocks: u64, window: WindowRule) -> Self {
        Self::with(immediate, blocks, DeviceRules { window, ..DeviceRules::default() })
    }

    /// Makes a drive that takes one command at a time, and orders them by place and by deadline.
    pub(super) fn ordered(blocks: u64, deadline_ns: u64) -> Self {
        let scheduler = Scheduler::Containers;
        let containers = Some(ContainerRules { scheduler, capacity: 16, deadline_ns });
        let window = WindowRule::Fixed(1);
        Self::with(false, blocks, DeviceRules { window, containers, ..DeviceRules::default() })
    }

    fn with(immediate: bool, blocks: u64, rules: DeviceRules) -> Self {
        Self {
            immediate,
            data: RefCell::new(vec![0; usize::try_from(blocks).unwrap() * BLOCK]),
            qos: Arc::new(qos::Device::new(rules, 1)),
            stats: PerReactor::new(1),
            fails: Cell::new(None),
            delay_ns: Cell::new(None),
        }
    }
}

impl Immediate for Disk {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        if let Some(status) = self.fails.get() {
            return status;
        }
        let mut held = self.data.borrow_mut();
        let span = |range: &LbaRange| {
            let start = usize::try_from(range.lba).unwrap() * BLOCK;
            start..start + range.blocks as usize * BLOCK
        };
        match (command, data) {
            (IoCommand::Read { range, .. }, Data::Read(into)) => {
                into.copy_from_slice(&held[span(range)]);
            }
            (IoCommand::Write { range, .. }, Data::Write(from)) => {
                held[span(range)].copy_from_slice(from);
            }
            (IoCommand::WriteZeroes { range, .. } | IoCommand::Deallocate { range }, _) => {
                held[span(range)].fill(0);
            }
            _ => {}
        }
        Status::SUCCESS
    }
}

impl Timed for Disk {
    fn done_at(&self, now: Nanos, _: &IoCommand) -> Nanos {
        Nanos(now.0 + self.delay_ns.get().unwrap_or(0))
    }
}

impl BlockDevice for Disk {
    fn style(&self) -> Style<'_> {
        match (self.immediate, self.delay_ns.get()) {
            (true, None) => Style::Immediate(self),
            (true, Some(_)) => Style::Timed(self),
            (false, _) => Style::Queued,
        }
    }

    fn format(&self) -> BlockFormat {
        BlockFormat::BYTES_512
    }

    fn blocks(&self) -> u64 {
        (self.data.borrow().len() / BLOCK) as u64
    }

    fn qos(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    fn stats(&self, reactor: usize) -> Option<&IoStats> {
        self.stats.get(reactor)
    }
}

/// The settings of quality of service.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) version: u64,
    /// Whether commands wait for their turns at all.
    pub(super) enabled: bool,
    pub(super) order: OrderSettings,
    /// Commands that may wait in the whole target.
    pub(super) queue: u32,
    /// The class of commands that name none.
    pub(super) class: Option<Class>,
    pub(super) tenant: Tenant,
    /// Another session.
    pub(super) other: Tenant,
    /// A session that may have a thousand commands a second.
    pub(super) limited: Tenant,
    /// What the classes' answers carry, as DSCP.
    pub(super) dscp: PerClass<u8>,
}

impl Rules {
    /// Rules by which `queue` commands of the one session may wait.
    pub(super) fn new(queue: u32) -> Self {
        let caps = Caps { operations: 1000, payload: 1 << 20 };
        let root = RootSpec { caps, bounded: true, queue };
        let mut sessions = Sessions::new(&root);
        let named = |name: &str| SessionSpec { name: name.to_owned(), ..SessionSpec::default() };
        let limited = SessionSpec { iops: Rate::per_second(1000), ..named("limited") };
        sessions.apply(Nanos(0), &root, &[named("other"), limited]).unwrap();
        let tenant =
            |session| Tenant { session: Arc::clone(session), stats: Arc::new(PerReactor::new(1)) };
        Self {
            version: 1,
            enabled: true,
            order: OrderSettings::default(),
            queue: 4096,
            class: None,
            tenant: tenant(sessions.root()),
            other: tenant(sessions.named("other").unwrap()),
            limited: tenant(sessions.named("limited").unwrap()),
            dscp: PerClass::default(),
        }
    }
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

    fn dscp(&self, class: Class) -> u8 {
        self.dscp[class]
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

/// What the core wants done with a connection.
#[derive(Debug)]
pub(super) enum Op {
    Receive(Key),
    ReceiveChunk(Key),
    StopReceiving(Key),
    ReceiveOnce(Key, Option<DataPlace<HeapBuffer>>),
    Send(Key, Batch<TxData<HeapBuffer>>),
    ShutDown(Key),
    Ended(Key, String),
}

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) service: Service,
    pub(super) rules: Arc<Rules>,
    pub(super) disks: HashMap<BackendId, Arc<Disk>>,
    /// Whether the network's stage looks after connections; what it has of them.
    pub(super) network: bool,
    pub(super) paced: Vec<Arc<Pacing>>,
    pub(super) classes: PerClass<IoStats>,
    /// The workloads, by host, namespace and class.
    pub(super) workloads: WorkloadTable,
    pub(super) ops: Vec<Op>,
    /// Commands in devices, the oldest first.
    pub(super) launched: Vec<Job<Self>>,
    /// What connections' packets carry: DSCP and priority.
    pub(super) dscps: Vec<(Key, u8, i32)>,
    pub(super) notices: Vec<String>,
    /// What the health log tells.
    pub(super) smart: SmartCounters,
    pub(super) now: Nanos,
}

impl Driver for Machine {
    type Memory = HeapArena;
    type Device = Disk;
    type Policies = Rules;
    type Transport = TargetConnection<TxData<HeapBuffer>>;

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

    fn send(&mut self, key: Key, batch: Batch<TxData<HeapBuffer>>) {
        self.ops.push(Op::Send(key, batch));
    }

    fn shut_down(&mut self, key: Key) {
        self.ops.push(Op::ShutDown(key));
    }

    fn set_dscp(&mut self, key: Key, dscp: u8, priority: i32) -> bool {
        self.dscps.push((key, dscp, priority));
        true
    }

    fn join_network(&mut self, _: Key, pacing: &Arc<Pacing>) -> bool {
        if self.network {
            self.paced.push(Arc::clone(pacing));
        }
        self.network
    }

    fn launch(&mut self, job: Job<Self>) -> Started<Self> {
        self.launched.push(job);
        Started::<Self>::Running
    }

    fn device(&mut self, id: BackendId) -> Option<Arc<Disk>> {
        self.disks.get(&id).cloned()
    }

    fn policies_version(&self) -> u64 {
        self.rules.version
    }

    fn policies(&self) -> Arc<Rules> {
        Arc::clone(&self.rules)
    }

    fn resolve(&self, rules: &Rules, _: &Origin, _: &str, _: &str, _: Option<u32>) -> Tenancy {
        Tenancy {
            class: PolicyClass { class: rules.class, max_class: None, urgent: None },
            tenant: rules.tenant.clone(),
            flush_is_output: false,
        }
    }

    fn class_stats(&self, class: Class) -> Option<&IoStats> {
        Some(&self.classes[class])
    }

    fn workload_stats(&self, _: Nanos, host: &str, _: &str, of: (u32, Class)) -> Arc<PerReactor> {
        self.workloads.stats(host, of)
    }

    fn service<R>(&mut self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        use_it(&mut self.service)
    }

    fn smart(&self, devices: &[BackendId]) -> SmartCounters {
        SmartCounters { writes: devices.len() as u64, ..self.smart }
    }

    fn wake(&mut self, _: Reactors) {}

    fn notice(&mut self, _: Key, notice: Notice<'_, Self::Transport>) {
        self.notices.push(format!("{notice:?}"));
    }

    fn ended(&mut self, key: Key, end: End<'_>) {
        let now = self.now;
        self.service.disconnected(now, end.id);
        self.ops.push(Op::Ended(key, end.reason.to_owned()));
    }
}
