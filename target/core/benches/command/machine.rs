//! The machine below the core: what it is asked to do is kept until the scene does it.

use std::sync::Arc;

use arbitration::classify::{ConnectionClass, PolicyClass};
use arbitration::credit::Caps;
use arbitration::device::{self as qos, DeviceRules};
use arbitration::session::{RootSpec, Sessions};
use arbitration::settings::OrderSettings;
use arbitration::{Class, PerClass, Reactors};
use fabric::Nanos;
use fabric::controller::{BackendId, Service, SmartCounters};
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Status;
use fabric::queue::{Either, Fetch};
use fabric::rdma::wire::TargetQueue;
use fabric::tcp::TargetConnection;
use qtcp::pacing::Pacing;
use sluice_core::device::{BlockDevice, Data, Immediate, Style};
use sluice_core::heap::{HeapArena, HeapBuffer};
use sluice_core::stats::{IoStats, PerReactor};
use sluice_core::{
    Batch, DataPlace, Driver, End, Held, HeldBlocks, Job, Key, Notice, Origin, Policies, Started,
    Tenancy, Tenant, TxData, WorkloadTable,
};

/// The block format of the device.
pub(crate) const FORMAT: BlockFormat = BlockFormat::BYTES_4096;
/// Blocks of the device.
pub(crate) const BLOCKS: u64 = 1 << 20;
/// The least bytes of a read that is sent from where the blocks are, as in the daemon.
const HELD_MIN: u32 = 16 << 10;

/// The blocks of an answer that is sent from where they are.
#[derive(Debug)]
struct Blocks(Arc<[u8]>, usize);

impl HeldBlocks for Blocks {
    fn bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

/// A device that moves no data: what data costs is not counted.
#[derive(Debug)]
pub(crate) struct Disk {
    queued: bool,
    blocks: Arc<[u8]>,
    qos: Arc<qos::Device>,
    stats: PerReactor,
}

impl Disk {
    /// Makes a device that completes commands at once, or when the scene says so.
    pub(crate) fn new(queued: bool) -> Self {
        Self {
            queued,
            blocks: vec![7; 1 << 20].into(),
            qos: Arc::new(qos::Device::new(DeviceRules::default(), 1)),
            stats: PerReactor::new(1),
        }
    }
}

impl Immediate for Disk {
    fn run(&self, _: &IoCommand, _: Data<'_>) -> Status {
        Status::SUCCESS
    }

    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let IoCommand::Read { range, .. } = command else { return None };
        let bytes = range.transfer_bytes(FORMAT);
        (bytes >= HELD_MIN).then(|| Held::new(Blocks(Arc::clone(&self.blocks), bytes as usize)))
    }
}

impl BlockDevice for Disk {
    fn style(&self) -> Style<'_> {
        if self.queued { Style::Queued } else { Style::Immediate(self) }
    }

    fn format(&self) -> BlockFormat {
        FORMAT
    }

    fn blocks(&self) -> u64 {
        BLOCKS
    }

    fn qos(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    fn stats(&self, reactor: usize) -> Option<&IoStats> {
        self.stats.get(reactor)
    }
}

/// The settings of quality of service: those of a daemon that is told nothing.
#[derive(Debug)]
pub(crate) struct Rules {
    order: OrderSettings,
    tenant: Tenant,
}

impl Rules {
    pub(crate) fn new() -> Self {
        let caps = Caps { operations: 4096, payload: 64 << 20 };
        let sessions = Sessions::new(&RootSpec { caps, bounded: false, queue: 4096 });
        let (session, stats) = (Arc::clone(sessions.root()), Arc::new(PerReactor::new(1)));
        Self { order: OrderSettings::default(), tenant: Tenant { session, stats } }
    }
}

impl Policies for Rules {
    fn flows_version(&self) -> u64 {
        1
    }

    fn enabled(&self) -> bool {
        true
    }

    fn order(&self) -> &OrderSettings {
        &self.order
    }

    fn queue(&self) -> u32 {
        4096
    }

    fn dscp(&self, _: Class) -> u8 {
        0
    }

    fn connection_class(&self, origin: &Origin) -> ConnectionClass {
        let Origin { priority, weighted, .. } = *origin;
        ConnectionClass { priority, weighted, dscp: None, listener: None }
    }
}

/// How the core receives from the connection of a key.
#[derive(Debug)]
pub(crate) enum Receiving {
    Stream,
    Chunk,
    Once(Option<DataPlace<HeapBuffer>>),
}

/// The machine. Its lists keep their memory.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) service: Service,
    pub(crate) disk: Arc<Disk>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) classes: PerClass<IoStats>,
    pub(crate) workloads: WorkloadTable,
    pub(crate) receiving: Vec<(Key, Receiving)>,
    pub(crate) stopped: Vec<Key>,
    pub(crate) batches: Vec<(Key, Batch<Self>)>,
    pub(crate) fetches: Vec<(Key, Fetch, Option<DataPlace<HeapBuffer>>)>,
    pub(crate) jobs: Vec<Job<Self>>,
}

impl Driver for Machine {
    type Transport =
        Either<TargetConnection<TxData<HeapBuffer>>, TargetQueue<TxData<HeapBuffer>, Vec<u8>>>;
    type Memory = HeapArena;
    type Device = Disk;
    type Policies = Rules;

    fn receive(&mut self, key: Key) {
        self.receiving.push((key, Receiving::Stream));
    }

    fn receive_chunk(&mut self, key: Key) {
        self.receiving.push((key, Receiving::Chunk));
    }

    fn stop_receiving(&mut self, key: Key) {
        self.stopped.push(key);
    }

    fn receive_once(&mut self, key: Key, place: Option<DataPlace<HeapBuffer>>) {
        self.receiving.push((key, Receiving::Once(place)));
    }

    fn send(&mut self, key: Key, batch: Batch<Self>) {
        self.batches.push((key, batch));
    }

    fn fetch(&mut self, key: Key, fetch: Fetch, place: Option<DataPlace<HeapBuffer>>) {
        self.fetches.push((key, fetch, place));
    }

    fn shut_down(&mut self, _: Key) {
        panic!("a connection is ended");
    }

    fn set_dscp(&mut self, _: Key, _: u8, _: i32) -> bool {
        true
    }

    fn join_network(&mut self, _: Key, _: &Arc<Pacing>) -> bool {
        true
    }

    fn launch(&mut self, job: Job<Self>) -> Started<Self> {
        self.jobs.push(job);
        Started::<Self>::Running
    }

    fn device(&mut self, _: BackendId) -> Option<Arc<Disk>> {
        Some(Arc::clone(&self.disk))
    }

    fn policies_version(&self) -> u64 {
        1
    }

    fn policies(&self) -> Arc<Rules> {
        Arc::clone(&self.rules)
    }

    fn resolve(&self, rules: &Rules, _: &Origin, _: &str, _: &str, _: Option<u32>) -> Tenancy {
        Tenancy {
            class: PolicyClass { class: None, max_class: None, urgent: None },
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

    fn smart(&self, _devices: &[BackendId]) -> SmartCounters {
        SmartCounters::default()
    }

    fn wake(&mut self, _: Reactors) {}

    fn notice(&mut self, _: Key, _: Notice<'_, Self::Transport>) {}

    fn ended(&mut self, _: Key, end: End<'_>) {
        panic!("a connection has ended: {}", end.reason);
    }
}
