//! A reactor's core with one host, whose I/O queue puts the load on it.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitration::arbiter::Waiters;
use arbitration::overload::RetryDelays;
use fabric::Nanos;
use fabric::controller::{
    AddressFamily, BackendId, Geometry, ListenerId, ListenerSpec, Namespace, NamespaceFeatures,
    Readiness, SecureChannel, Service, ServiceConfig, SubsystemSpec, TransportType,
};
use fabric::host::commands;
use fabric::nvme::{Sqe, Status};
use fabric::queue::{Either, Fetch};
use fabric::rdma::wire::{QueueParams, TargetQueue};
use fabric::tcp::{TargetConnection, TargetParams};
use sluice_core::heap::{HeapArena, HeapBuffer};
use sluice_core::{Accepted, Batch, Core, DataPlace, Ended, Key, Settings, Started, WorkloadTable};
use zerocopy::little_endian::U16;

use crate::host::{Host, Sent};
use crate::machine::{BLOCKS, Disk, FORMAT, Machine, Receiving, Rules};

const NQN: &str = "nqn.2026-01.io.sluicegate:cost";
const LISTENER: ListenerId = ListenerId(1);
/// The settings of a daemon that is told nothing: the most data of a command, and of a capsule, bytes.
const MAX_TRANSFER: u32 = 1 << 20;
const IN_CAPSULE_DATA: u32 = 8 << 10;
const RDMA_IN_CAPSULE_DATA: u32 = 4096;
/// Entries of the I/O queue.
const ENTRIES: u16 = 128;
/// The most bytes that are received at once: a receive buffer's.
const RECEIVED_MAX: usize = 64 << 10;

/// The load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) rdma: bool,
    pub(crate) queued: bool,
    pub(crate) writes: bool,
    /// Bytes of a command.
    pub(crate) bytes: u32,
    /// Commands that are in the target at once.
    pub(crate) depth: u32,
}

/// What happens to the core in a turn. What it takes over is an `Option`, so that nothing else is freed
/// in the part that counts.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few, and a box would be freed there")]
enum Event {
    Bytes(Key, Vec<u8>),
    Capsules(Key, Vec<Vec<u8>>),
    CapsulesOnce(Key, Vec<Vec<u8>>),
    Ended(Key),
    Once(Key, Option<DataPlace<HeapBuffer>>, usize, Vec<u8>),
    Fetched(Key, Fetch, Option<DataPlace<HeapBuffer>>, Vec<u8>),
    Sent(Key, Option<Batch<Machine>>),
    JobEnded(Option<Ended<Machine>>),
}

/// The reactor and its host.
#[derive(Debug)]
pub(crate) struct Scene {
    load: Load,
    core: Core<Machine>,
    now: Nanos,
    /// The host's ends: of the admin queue and of the I/O queue.
    peers: Vec<(Key, Host)>,
    /// How the core receives from connections.
    receiving: Vec<(Key, Receiving)>,
    events: Vec<Event>,
    /// The data of writes.
    written: Rc<Vec<u8>>,
    /// The number of the next command.
    next: u32,
    /// The time of the part that counts.
    counted: Duration,
}

impl Scene {
    /// Makes a reactor with a connected controller, and warms it up.
    pub(crate) fn new(load: Load) -> Self {
        let now = Nanos(1_000_000_000);
        let machine = Machine {
            service: service(),
            disk: Arc::new(Disk::new(load.queued)),
            rules: Arc::new(Rules::new()),
            classes: Default::default(),
            workloads: WorkloadTable::new(1),
            receiving: Vec::new(),
            stopped: Vec::new(),
            batches: Vec::new(),
            fetches: Vec::new(),
            jobs: Vec::new(),
        };
        let settings = Settings {
            reactor: 0,
            reactors: 1,
            max_transfer: MAX_TRANSFER,
            in_capsule_data: IN_CAPSULE_DATA,
            direct_min: 16 << 10,
            zeroes_limit: 128 << 10,
            slice: 1 << 20,
            receive_buffers: 32,
            retry_delays: RetryDelays::DEFAULT,
        };
        let largest = MAX_TRANSFER as usize;
        let arenas =
            (HeapArena::new(64 << 20, largest), HeapArena::new(8 << 20, IN_CAPSULE_DATA as usize));
        let core = Core::new(machine, settings, Arc::new(Waiters::new(1)), arenas, now);
        let mut scene = Self {
            load,
            core,
            now,
            peers: Vec::new(),
            receiving: Vec::new(),
            events: Vec::new(),
            written: Rc::new(vec![5; load.bytes as usize]),
            next: 0,
            counted: Duration::ZERO,
        };
        scene.connect(0, 0xffff, 32);
        let controller = u16::try_from(scene.result(0) & 0xffff).unwrap_or(0);
        scene.call(0, commands::property_set(0x14, commands::CC_ENABLE), None);
        scene.connect(1, controller, ENTRIES);
        let in_capsule = if load.rdma { RDMA_IN_CAPSULE_DATA } else { IN_CAPSULE_DATA };
        scene.host(1).set_in_capsule_data(in_capsule);
        scene.run(200);
        scene
    }

    fn host(&mut self, peer: usize) -> &mut Host {
        &mut self.peers.get_mut(peer).expect("a connected queue").1
    }

    fn result(&mut self, peer: usize) -> u64 {
        self.host(peer).result
    }

    /// Connects a queue of a controller.
    fn connect(&mut self, qid: u16, controller: u16, entries: u16) {
        let transport = match self.load.rdma {
            true => Either::Right(TargetQueue::new(QueueParams {
                qid,
                entries,
                in_capsule_data: if qid == 0 { 0 } else { RDMA_IN_CAPSULE_DATA },
                reads: 16,
                max_read: 1 << 30,
                posts: 3 * entries,
            })),
            false => {
                let params = TargetParams::for_transfers(MAX_TRANSFER);
                Either::Left(TargetConnection::new(params))
            }
        };
        let key = self.core.accept(Accepted {
            transport,
            listener: LISTENER,
            peer: Ipv4Addr::LOCALHOST.into(),
            tos: None,
            stats: Arc::default(),
            in_flight: Arc::default(),
        });
        self.core.start(key);
        self.peers.push((key, Host::new(self.load.rdma)));
        // Over TCP both ends agree on parameters first.
        (0..4).for_each(|_| self.turn());
        let data = commands::connect_data([1; 16], controller, NQN, "nqn.2026-01.io:host");
        let kato = if qid == 0 { 120_000 } else { 0 };
        let connect = commands::connect(qid, entries - 1, kato, None);
        self.call(self.peers.len() - 1, connect, Some(Rc::new(data)));
    }

    /// Submits a command, and turns until it is answered.
    fn call(&mut self, peer: usize, sqe: Sqe, data: Option<Rc<Vec<u8>>>) {
        let host = self.host(peer);
        let before = host.answered;
        host.submit(sqe, data, 0);
        while self.host(peer).answered == before {
            self.turn();
        }
    }

    /// Carries out this many commands, as many at once as the load says. Returns the time that the
    /// core took.
    pub(crate) fn run(&mut self, commands: u32) -> Duration {
        self.counted = Duration::ZERO;
        let Load { writes, bytes, depth, .. } = self.load;
        let blocks = u32::try_from(FORMAT.blocks(bytes.into())).unwrap_or(1);
        let most = u32::try_from(BLOCKS).unwrap_or(u32::MAX) / blocks;
        let mut left = commands;
        while left > 0 {
            let (batch, before) = (depth.min(left), self.host(1).answered);
            for _ in 0..batch {
                self.next = self.next.wrapping_add(1);
                let lba = u64::from(self.next % most * blocks);
                let cid = u16::try_from(self.next % u32::from(ENTRIES)).unwrap_or(0);
                let sqe = commands::transfer(writes, 1, lba, blocks, 0);
                let data = writes.then(|| Rc::clone(&self.written));
                let reads = if writes { 0 } else { bytes };
                self.host(1).submit(Sqe { cid: U16::new(cid), ..sqe }, data, reads);
            }
            while self.host(1).answered < before + batch {
                self.turn();
            }
            left -= batch;
        }
        self.counted
    }

    /// Brings to the core what the machine has for it, takes a turn, and does what it wants.
    fn turn(&mut self) {
        self.now = Nanos(self.now.0 + 10_000);
        for peer in 0..self.peers.len() {
            self.deliver(peer);
        }
        let start = Instant::now();
        self.counted_turn();
        self.counted += start.elapsed();
        self.events.clear();
        while let Some(action) = self.core.driver().service.poll_action() {
            self.core.act(action);
        }
        let machine = self.core.driver();
        self.receiving.append(&mut machine.receiving);
        for key in std::mem::take(&mut machine.stopped) {
            self.receiving.retain(|(of, _)| *of != key);
            self.events.push(Event::Ended(key));
        }
        let (batches, fetches) = (take(&mut machine.batches), take(&mut machine.fetches));
        for job in take(&mut machine.jobs) {
            let ended = Ended::<Machine> { job, result: 0, status: Status::SUCCESS };
            self.events.push(Event::JobEnded(Some(ended)));
        }
        let find = |peers: &mut [(Key, Host)], key| peers.iter().position(|(of, _)| *of == key);
        for (key, mut batch) in batches {
            let peer = find(&mut self.peers, key).expect("a connected queue");
            self.host(peer).take(&mut batch);
            self.events.push(Event::Sent(key, Some(batch)));
        }
        for (key, fetch, mut place) in fetches {
            let peer = find(&mut self.peers, key).expect("a connected queue");
            let bytes = self.host(peer).read(&fetch, place.as_mut());
            self.events.push(Event::Fetched(key, fetch, place, bytes));
        }
    }

    /// Brings what a host has sent to the core, as it receives.
    fn deliver(&mut self, peer: usize) {
        let Some((key, host)) = self.peers.get_mut(peer) else { return };
        let key = *key;
        host.send();
        let receiving = self.receiving.iter().position(|(of, _)| *of == key);
        let (Some(at), false) = (receiving, host.sent.is_empty()) else { return };
        let (_, receiving) = self.receiving.swap_remove(at);
        let bytes = match &mut host.sent {
            Sent::Capsules(capsules) => {
                let capsules = std::mem::take(capsules);
                match receiving {
                    Receiving::Once(_) => self.events.push(Event::CapsulesOnce(key, capsules)),
                    Receiving::Chunk => {
                        self.events.push(Event::Capsules(key, capsules));
                        self.events.push(Event::Ended(key));
                    }
                    Receiving::Stream => {
                        self.events.push(Event::Capsules(key, capsules));
                        self.receiving.push((key, Receiving::Stream));
                    }
                }
                return;
            }
            Sent::Bytes(bytes) => bytes,
        };
        match receiving {
            Receiving::Once(mut place) => {
                let to = place.as_mut().map(DataPlace::bytes_mut).unwrap_or_default();
                let placed = to.len().min(bytes.len());
                for (to, from) in to.iter_mut().zip(bytes.drain(..placed)) {
                    *to = from;
                }
                let rest = bytes.drain(..bytes.len().min(4096)).collect();
                self.events.push(Event::Once(key, place, placed, rest));
            }
            stream => {
                let taken = bytes.drain(..bytes.len().min(RECEIVED_MAX)).collect();
                self.events.push(Event::Bytes(key, taken));
                match stream {
                    Receiving::Chunk => self.events.push(Event::Ended(key)),
                    other => self.receiving.push((key, other)),
                }
            }
        }
    }

    /// Takes a turn of the core: the part that counts.
    #[inline(never)]
    fn counted_turn(&mut self) {
        let Self { core, events, now, .. } = self;
        core.set_time(*now);
        if core.has_changes() {
            core.change();
        }
        core.begin();
        for event in events {
            match event {
                Event::Bytes(key, bytes) => core.received(*key, Either::Left(bytes)),
                Event::Capsules(key, list) => core.received(*key, Either::Right(list)),
                Event::CapsulesOnce(key, list) => {
                    core.received_once(*key, None, 0, Either::Right(list));
                }
                Event::Ended(key) => core.receive_ended(*key, None),
                Event::Once(key, place, placed, rest) => {
                    core.received_once(*key, place.take(), *placed, Either::Left(rest));
                }
                Event::Fetched(key, fetch, place, bytes) => {
                    core.fetched(*key, (fetch, bytes), place.take(), None);
                }
                Event::Sent(key, batch) => {
                    if let Some(batch) = batch.take() {
                        core.sent(*key, batch, None);
                    }
                }
                Event::JobEnded(ended) => {
                    if let Some(ended) = ended.take() {
                        core.job_ended(ended.job.connection(), Started::<Machine>::Ended(ended));
                    }
                }
            }
        }
        core.settle();
        if core.has_tallies() {
            core.record(*now);
        }
        core.end();
        core.idle_until();
    }
}

/// Takes a list, and leaves one that has room: the part that counts allocates none.
fn take<T>(list: &mut Vec<T>) -> Vec<T> {
    std::mem::replace(list, Vec::with_capacity(64))
}

/// Makes the controllers' side of a target with one subsystem and one namespace.
fn service() -> Service {
    let config = ServiceConfig {
        max_transfer: MAX_TRANSFER,
        in_capsule_data: IN_CAPSULE_DATA,
        queue_entries: ENTRIES,
        admin_queue_entries: 32,
        ..ServiceConfig::default()
    };
    let mut service = Service::new(config).expect("a configuration");
    let subsystem = SubsystemSpec {
        nqn: NQN.to_owned(),
        serial: "COST".to_owned(),
        model: "Cost".to_owned(),
        allow_any_host: true,
        hosts: Vec::new(),
    };
    service.add_subsystem(Nanos(0), subsystem).expect("a subsystem");
    let listener = ListenerSpec {
        id: LISTENER,
        transport: TransportType::Tcp,
        traddr: "127.0.0.1".to_owned(),
        family: AddressFamily::Ipv4,
        trsvcid: "4420".to_owned(),
        discovery_only: false,
        subsystems: None,
        secure_channel: SecureChannel::Off,
    };
    service.add_listener(Nanos(0), listener).expect("a listener");
    let namespace = Namespace {
        nsid: 1,
        uuid: [1; 16],
        nguid: [0; 16],
        geometry: Geometry { format: FORMAT, blocks: BLOCKS },
        features: NamespaceFeatures::all() - NamespaceFeatures::READ_ONLY,
        hosts: None,
        backend: BackendId(1),
        readiness: Readiness::Ready,
        identify: None,
        device: None,
    };
    service.add_namespace(Nanos(0), NQN, namespace).expect("a namespace");
    service
}
