//! A reactor and the hosts that are connected to it. Bytes are on their way for no time.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbitration::arbiter::Waiters;
use arbitration::overload::RetryDelays;
use arbitration::settings::WindowRule;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::controller::{
    AddressFamily, BackendId, Geometry, ListenerId, ListenerSpec, Namespace, NamespaceFeatures,
    Readiness, SecureChannel, Service, ServiceConfig, SmartCounters, SubsystemSpec, TransportType,
};
use fabric::fabrics::DISCOVERY_NQN;
use fabric::host::commands;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::{HostReceived, HostTransport as _};
use fabric::tcp::{Batch, HostConnection, HostParams, TargetConnection, TargetParams};
use zerocopy::little_endian::{U16, U32};

use super::machine::{Disk, Machine, Op, Rules};
use crate::connection::Accepted;
use crate::context::Settings;
use crate::core::Core;
use crate::device::{Data, Immediate as _};
use crate::driver::{DataPlace, Ended, Started};
use crate::heap::{HeapArena, HeapBuffer};
use crate::key::Key;
use crate::payload::TxData;
use crate::stats::{IoStats, QueueStats};
use crate::workload_table::WorkloadTable;

pub(super) const NQN: &str = "nqn.2026-01.io.sluicegate:core";
/// The most data that a command moves, in bytes.
const MAX_TRANSFER: u32 = 64 << 10;
const LISTENER: ListenerId = ListenerId(1);
pub(super) const MS: u64 = 1_000_000;

/// The two namespaces: one whose commands are carried out on the spot, one whose commands are in
/// their device until [`Rig::end_oldest`].
pub(super) const MEMORY: u32 = 1;
pub(super) const DRIVE: u32 = 2;
pub(super) const BLOCKS: u64 = 1 << 17;

/// What a reactor receives of a connection.
#[derive(Debug)]
enum Receiving {
    No,
    Stream,
    Chunk,
    Once(Option<DataPlace<HeapBuffer>>),
}

/// A connection, and the host at its other end.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) key: Key,
    pub(super) host: HostConnection<Rc<Vec<u8>>>,
    /// Bytes of the host that the reactor has not received.
    pub(super) up: VecDeque<u8>,
    receiving: Receiving,
    sending: Option<Batch<TxData<HeapBuffer>>>,
    /// Whether the host sends what it has to send, and reads what there is to read.
    pub(super) sends: bool,
    pub(super) reads: bool,
    pub(super) answers: HashMap<u16, (Status, u64)>,
    /// Commands in the order of their answers.
    pub(super) order: Vec<u16>,
    data: HashMap<u16, Vec<u8>>,
    next_cid: u16,
    pub(super) stats: Arc<QueueStats>,
    pub(super) in_flight: Arc<AtomicU32>,
    /// Whether the connection was shut down.
    pub(super) shut_down: bool,
    /// Why the connection has ended.
    pub(super) ended: Option<String>,
}

/// A reactor and its hosts.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) core: Core<Machine>,
    pub(super) now: Nanos,
    pub(super) peers: Vec<Peer>,
    /// Bytes that were received straight into buffers of commands.
    pub(super) placed: usize,
    /// The controller of the queues that connect now, and the number of its host.
    controller: u16,
    host: u8,
}

/// What a reactor of a test is made of.
#[derive(Debug)]
pub(super) struct Plan {
    /// Commands that may wait.
    pub(super) queue: u32,
    /// Commands that the drive holds at one time.
    pub(super) window: u32,
    /// I/O buffers, in bytes.
    pub(super) memory: usize,
    /// The network's stage looks after connections.
    pub(super) network: bool,
    /// Commands wait for their turns. Without turns, those to memory are carried out on the spot.
    pub(super) stages: bool,
    /// The delays that refused commands are told.
    pub(super) retry_delays: RetryDelays,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            queue: 1000,
            window: 1000,
            memory: 1 << 20,
            network: false,
            stages: true,
            retry_delays: RetryDelays::DEFAULT,
        }
    }
}

fn service() -> Service {
    let config = ServiceConfig {
        max_transfer: MAX_TRANSFER,
        in_capsule_data: 4096,
        queue_entries: 128,
        admin_queue_entries: 32,
        weighted_round_robin: true,
        ..ServiceConfig::default()
    };
    let mut service = Service::new(config).unwrap();
    let subsystem = SubsystemSpec {
        nqn: NQN.to_owned(),
        serial: "CORE".to_owned(),
        model: "Core".to_owned(),
        allow_any_host: true,
        hosts: Vec::new(),
    };
    service.add_subsystem(Nanos(0), subsystem).unwrap();
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
    service.add_listener(Nanos(0), listener).unwrap();
    for nsid in [MEMORY, DRIVE] {
        let namespace = Namespace {
            nsid,
            uuid: [u8::try_from(nsid).unwrap(); 16],
            nguid: [0; 16],
            geometry: Geometry { format: BlockFormat::BYTES_512, blocks: BLOCKS },
            features: NamespaceFeatures::all() - NamespaceFeatures::READ_ONLY,
            hosts: None,
            backend: BackendId(u64::from(nsid)),
            readiness: Readiness::Ready,
            identify: None,
            device: None,
        };
        service.add_namespace(Nanos(0), NQN, namespace).unwrap();
    }
    service
}

/// Makes an I/O command on some blocks.
pub(super) fn io(opcode: u8, nsid: u32, lba: u64, blocks: u32) -> Sqe {
    Sqe { opcode, ..commands::transfer(false, nsid, lba, blocks, 0) }
}

/// Makes a read.
pub(super) fn read(nsid: u32, lba: u64, blocks: u32) -> Sqe {
    io(opcode::io::READ, nsid, lba, blocks)
}

/// Makes a write.
pub(super) fn write(nsid: u32, lba: u64, blocks: u32) -> Sqe {
    io(opcode::io::WRITE, nsid, lba, blocks)
}

impl Rig {
    /// Makes a reactor with one connected controller: peer 0 is its admin queue, peer 1 an I/O
    /// queue.
    pub(super) fn new(plan: &Plan) -> Self {
        Self::with_slices(plan, 1 << 20)
    }

    /// Makes the same reactor with slices of `slice` bytes at the drive.
    pub(super) fn with_slices(plan: &Plan, slice: u32) -> Self {
        let now = Nanos(1_000_000_000);
        let drive = Disk::new(false, BLOCKS, WindowRule::Fixed(plan.window));
        let disks = [(MEMORY, Disk::new(true, BLOCKS, WindowRule::Off)), (DRIVE, drive)];
        #[expect(clippy::arc_with_non_send_sync, reason = "what the core takes; one thread has it")]
        let disks = disks.map(|(nsid, disk)| (BackendId(u64::from(nsid)), Arc::new(disk)));
        let machine = Machine {
            service: service(),
            rules: Arc::new(Rules { enabled: plan.stages, ..Rules::new(plan.queue) }),
            disks: HashMap::from(disks),
            network: plan.network,
            paced: Vec::new(),
            classes: PerClass::from_fn(|_| IoStats::default()),
            workloads: WorkloadTable::new(1),
            ops: Vec::new(),
            launched: Vec::new(),
            dscps: Vec::new(),
            notices: Vec::new(),
            smart: SmartCounters::default(),
            now,
        };
        let settings = Settings {
            reactor: 0,
            reactors: 1,
            max_transfer: MAX_TRANSFER,
            in_capsule_data: 4096,
            direct_min: 16 << 10,
            zeroes_limit: 8 << 20,
            slice,
            receive_buffers: 32,
            retry_delays: plan.retry_delays,
        };
        let memory = (HeapArena::new(plan.memory, 64 << 10), HeapArena::new(64 << 10, 4096));
        let core = Core::new(machine, settings, Arc::new(Waiters::new(1)), memory, now);
        let mut rig = Self { core, now, peers: Vec::new(), placed: 0, controller: 0xffff, host: 0 };
        rig.add_host();
        rig
    }

    /// Puts a drive in the place of the one that no command has used yet, which takes one command at a
    /// time and orders them by place and by deadline.
    pub(super) fn order_by_place(&mut self, deadline_ns: u64) {
        let drive = Disk::ordered(BLOCKS, deadline_ns);
        #[expect(clippy::arc_with_non_send_sync, reason = "what the core takes; one thread has it")]
        let drive = Arc::new(drive);
        self.core.driver().disks.insert(BackendId(u64::from(DRIVE)), drive);
    }

    /// Connects another host: the admin queue of a controller, and an I/O queue, the number of whose
    /// peer is returned.
    pub(super) fn add_host(&mut self) -> usize {
        self.add_controller(commands::CC_ENABLE);
        self.connect(1)
    }

    /// Connects another host, whose queues have these priority classes, which count where `weighted`
    /// says so. The peers: its admin queue and its I/O queues.
    pub(super) fn add_host_with<const N: usize>(
        &mut self,
        weighted: bool,
        classes: [Class; N],
    ) -> (usize, [usize; N]) {
        let classes_count = if weighted { commands::CC_WEIGHTED_ROUND_ROBIN } else { 0 };
        let admin = self.add_controller(commands::CC_ENABLE | classes_count);
        let mut qid = 0;
        let queues = classes.map(|class| {
            qid += 1;
            self.connect_class(qid, class)
        });
        (admin, queues)
    }

    /// Connects the admin queue of another host's controller, and enables that; the number of the
    /// queue's peer.
    fn add_controller(&mut self, configuration: u32) -> usize {
        self.add_controller_with(configuration, HostParams::default())
    }

    /// Does the same for a host that asks for these parameters of the admin queue.
    pub(super) fn add_controller_with(&mut self, configuration: u32, params: HostParams) -> usize {
        (self.controller, self.host) = (0xffff, self.host + 1);
        let admin = self.connect_with(0, params);
        let enabled = commands::property_set(0x14, configuration);
        assert_eq!(self.call(admin, enabled, None, 0).0, Status::SUCCESS);
        admin
    }

    /// Connects a queue of the controller, with a priority class; the number of its peer.
    pub(super) fn connect_class(&mut self, qid: u16, class: Class) -> usize {
        self.connect_as(qid, HostParams::default(), Some(class))
    }

    /// Connects a queue of the controller; the number of its peer.
    pub(super) fn connect(&mut self, qid: u16) -> usize {
        self.connect_with(qid, HostParams::default())
    }

    /// Connects a queue of the controller whose host asks for these parameters; the number of its
    /// peer.
    pub(super) fn connect_with(&mut self, qid: u16, params: HostParams) -> usize {
        self.connect_as(qid, params, None)
    }

    fn connect_as(&mut self, qid: u16, params: HostParams, class: Option<Class>) -> usize {
        let peer = self.accept_with(params, Ipv4Addr::LOCALHOST.into());
        let host = format!("nqn.2026-01.io:host{}", self.host);
        let data = commands::connect_data([self.host; 16], self.controller, NQN, &host);
        let (entries, kato) = if qid == 0 { (32, 120_000) } else { (128, 0) };
        let connect = commands::connect(qid, entries - 1, kato, class);
        let (status, result) = self.call(peer, connect, Some(data), 0);
        assert!(status.is_success(), "{status}");
        if qid == 0 {
            self.controller = u16::try_from(result & 0xffff).unwrap();
        } else {
            self.peers[peer].host.set_in_capsule_data(4096);
        }
        peer
    }

    /// Connects a discovery controller from an address; the number of its peer.
    pub(super) fn discover(&mut self, address: IpAddr) -> usize {
        let peer = self.accept_with(HostParams::default(), address);
        let data = commands::connect_data([9; 16], 0xffff, DISCOVERY_NQN, "nqn.2026-01.io:looks");
        let (status, _) = self.call(peer, commands::connect(0, 31, 120_000, None), Some(data), 0);
        assert!(status.is_success(), "{status}");
        self.call(peer, commands::property_set(0x14, commands::CC_ENABLE), None, 0);
        peer
    }

    /// Accepts a connection; the number of its peer.
    pub(super) fn accept(&mut self) -> usize {
        self.accept_with(HostParams::default(), Ipv4Addr::LOCALHOST.into())
    }

    /// Accepts a connection from an address, whose host asks for these parameters; the number of
    /// its peer.
    pub(super) fn accept_with(&mut self, params: HostParams, address: IpAddr) -> usize {
        let (stats, in_flight) = (Arc::<QueueStats>::default(), Arc::<AtomicU32>::default());
        let key = self.core.accept(Accepted {
            transport: TargetConnection::new(TargetParams::for_transfers(MAX_TRANSFER)),
            listener: LISTENER,
            peer: address,
            tos: None,
            stats: Arc::clone(&stats),
            in_flight: Arc::clone(&in_flight),
        });
        self.core.start(key);
        self.peers.push(Peer {
            key,
            host: HostConnection::new(params),
            up: VecDeque::new(),
            receiving: Receiving::No,
            sending: None,
            sends: true,
            reads: true,
            answers: HashMap::new(),
            order: Vec::new(),
            data: HashMap::new(),
            next_cid: 0,
            stats,
            in_flight,
            shut_down: false,
            ended: None,
        });
        self.run();
        self.peers.len() - 1
    }

    /// Submits a command, and runs until nothing happens any more. The command's identifier.
    pub(super) fn submit(
        &mut self,
        peer: usize,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        reads: u32,
    ) -> u16 {
        let cid = self.queue(peer, sqe, data, reads);
        self.run();
        cid
    }

    /// Submits a command that the reactor sees when it next runs.
    pub(super) fn queue(
        &mut self,
        peer: usize,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        reads: u32,
    ) -> u16 {
        let peer = &mut self.peers[peer];
        let cid = peer.next_cid;
        peer.next_cid += 1;
        peer.data.insert(cid, vec![0; reads as usize]);
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        peer.host.submit(sqe, data.map(Rc::new), reads).unwrap();
        cid
    }

    /// Takes the bytes that a host has to send.
    pub(super) fn bytes_of(&mut self, peer: usize) -> Vec<u8> {
        let (mut all, tx) = (Vec::new(), self.peers[peer].host.tx());
        while tx.in_flight() || tx.begin() {
            let bytes: Vec<u8> = tx.slices().flatten().copied().collect();
            tx.advance(bytes.len());
            all.extend(bytes);
        }
        all
    }

    /// Submits a command, which must be answered at once.
    pub(super) fn call(
        &mut self,
        peer: usize,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        reads: u32,
    ) -> (Status, u64) {
        let cid = self.submit(peer, sqe, data, reads);
        self.peers[peer].answers.remove(&cid).expect("an answer")
    }

    /// Puts what a host has to send on the wire.
    pub(super) fn take_from_host(&mut self, peer: usize) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        let tx = peer.host.tx();
        while peer.sends && (tx.in_flight() || tx.begin()) {
            let bytes: Vec<u8> = tx.slices().flatten().copied().collect();
            tx.advance(bytes.len());
            peer.up.extend(bytes);
        }
    }

    /// Returns the status of a command, if it was answered.
    pub(super) fn answer(&self, peer: usize, cid: u16) -> Option<Status> {
        self.peers[peer].answers.get(&cid).map(|(status, _)| *status)
    }

    /// Returns the result of a command, if it was answered.
    pub(super) fn result(&self, peer: usize, cid: u16) -> Option<u64> {
        self.peers[peer].answers.get(&cid).map(|(_, result)| *result)
    }

    /// Returns what a command has read.
    pub(super) fn data(&self, peer: usize, cid: u16) -> &[u8] {
        &self.peers[peer].data[&cid]
    }

    /// Lets time pass, and runs until nothing happens any more.
    pub(super) fn pass(&mut self, ns: u64) {
        self.now = Nanos(self.now.0 + ns);
        self.run();
    }

    /// Ends the command that has been in the drive for longest. Whether there was one.
    pub(super) fn end_oldest(&mut self) -> bool {
        if self.core.driver().launched.is_empty() {
            return false;
        }
        let mut job = self.core.driver().launched.remove(0);
        let data = match (&job.command, &mut job.buffer) {
            (IoCommand::Read { .. }, Some(buffer)) => Data::Read(buffer),
            (_, Some(buffer)) => Data::Write(buffer),
            (_, None) => Data::None,
        };
        let status = job.device.run(&job.command, data);
        self.core.set_time(self.now);
        let key = job.connection();
        let ended = Ended::<Machine> { job, result: 0, status };
        self.core.job_ended(key, Started::<Machine>::Ended(ended));
        self.run();
        true
    }

    /// Returns the commands in each state that any are in.
    pub(super) fn states(&self) -> Vec<(&'static str, u64)> {
        self.core.states().iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the statistics of the session, which all commands are charged to.
    pub(super) fn session_stats(&mut self) -> crate::stats::IoSnapshot {
        self.core.driver().rules.tenant.stats.get(0).unwrap().snapshot()
    }

    pub(super) fn disk(&mut self, nsid: u32) -> Arc<Disk> {
        Arc::clone(&self.core.driver().disks[&BackendId(u64::from(nsid))])
    }

    /// Commands in the target, as the connection's metric says.
    pub(super) fn in_flight(&self, peer: usize) -> u32 {
        self.peers[peer].in_flight.load(Ordering::Relaxed)
    }

    /// Says whether the reactor receives from a connection one chunk at a time.
    pub(super) fn receives_by_chunk(&self, peer: usize) -> bool {
        matches!(self.peers[peer].receiving, Receiving::Chunk)
    }

    /// Tells the reactor that there is no memory to receive into for a connection.
    pub(super) fn starve(&mut self, peer: usize) {
        self.peers[peer].receiving = Receiving::No;
        self.core.receive_starved(self.peers[peer].key);
    }

    /// Turns until nothing happens any more at this time.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.turn() {
                return;
            }
        }
        panic!("the reactor is never idle: {:?}", self.states());
    }

    /// Runs until a host was asked for data, which it does not send.
    pub(super) fn run_until_asked(&mut self, peer: usize) {
        let before = self.peers[peer].host.tx().pending_bytes();
        assert!(before > 0, "there is a command to send");
        self.turn();
        self.peers[peer].sends = false;
        self.run();
    }

    /// Takes one turn. Whether anything happened.
    pub(super) fn turn(&mut self) -> bool {
        self.core.set_time(self.now);
        self.core.driver().now = self.now;
        let mut any = self.core.has_changes() && self.core.change();
        any |= self.core.begin();
        for peer in 0..self.peers.len() {
            any |= self.deliver(peer);
        }
        any |= self.core.settle();
        if self.core.has_tallies() {
            self.core.record(Nanos(self.now.0 + 1000));
        }
        self.core.end();
        any |= self.core.idle_until().is_none_or(|at| at <= self.now);
        for op in std::mem::take(&mut self.core.driver().ops) {
            any |= self.carry_out(op);
        }
        while let Some(action) = self.core.driver().service.poll_action() {
            any = true;
            self.core.act(action);
        }
        any
    }

    /// Brings bytes of a connection to their other end. Whether there were any.
    fn deliver(&mut self, index: usize) -> bool {
        self.take_from_host(index);
        let Some(peer) = self.peers.get_mut(index) else { return false };
        let mut any = false;
        if !peer.up.is_empty() && !matches!(peer.receiving, Receiving::No) {
            any = true;
            match std::mem::replace(&mut peer.receiving, Receiving::No) {
                Receiving::Once(mut place) => {
                    let mut placed = 0;
                    for to in place.iter_mut().flat_map(DataPlace::bytes_mut) {
                        let Some(byte) = peer.up.pop_front() else { break };
                        (*to, placed) = (byte, placed + 1);
                    }
                    self.placed += placed;
                    let rest: Vec<u8> = peer.up.drain(..peer.up.len().min(4096)).collect();
                    self.core.received_once(peer.key, place, placed, &rest);
                }
                Receiving::Chunk => {
                    let length = peer.up.len().min(16 << 10);
                    let bytes: Vec<u8> = peer.up.drain(..length).collect();
                    self.core.received(peer.key, &bytes);
                    self.core.receive_ended(peer.key, None);
                }
                other => {
                    let length = peer.up.len().min(16 << 10);
                    let bytes: Vec<u8> = peer.up.drain(..length).collect();
                    peer.receiving = other;
                    self.core.received(peer.key, &bytes);
                }
            }
        }
        let Some(peer) = self.peers.get_mut(index) else { return any };
        if peer.reads
            && let Some(mut batch) = peer.sending.take()
        {
            any = true;
            let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
            batch.advance(bytes.len());
            hear(peer, &bytes);
            self.core.sent(peer.key, batch, None);
        }
        any
    }

    /// Does what the reactor wants done. Returns whether that changes anything: a connection that
    /// ends is shut down in each turn until it has ended.
    fn carry_out(&mut self, op: Op) -> bool {
        let key = match &op {
            Op::Receive(key) | Op::ReceiveChunk(key) => *key,
            Op::StopReceiving(key) | Op::ReceiveOnce(key, _) => *key,
            Op::Send(key, _) | Op::ShutDown(key) | Op::Ended(key, _) => *key,
        };
        let found = self.peers.iter_mut().find(|peer| peer.key == key && peer.ended.is_none());
        let peer = found.expect("a connection");
        match op {
            Op::Receive(_) => peer.receiving = Receiving::Stream,
            Op::ReceiveChunk(_) => peer.receiving = Receiving::Chunk,
            Op::ReceiveOnce(_, place) => peer.receiving = Receiving::Once(place),
            Op::StopReceiving(_) => {
                peer.receiving = Receiving::No;
                self.core.receive_ended(key, None);
            }
            Op::Send(_, batch) => peer.sending = Some(batch),
            Op::ShutDown(_) => {
                peer.shut_down = true;
                let before = std::mem::replace(&mut peer.receiving, Receiving::No);
                let (receives, batch) = (!matches!(before, Receiving::No), peer.sending.take());
                let any = receives || batch.is_some();
                if receives {
                    self.core.receive_ended(key, Some("shut down".into()));
                }
                if let Some(batch) = batch {
                    self.core.sent(key, batch, Some("shut down".into()));
                }
                return any;
            }
            Op::Ended(_, reason) => peer.ended = Some(reason),
        }
        true
    }
}

/// Gives bytes to a host.
fn hear(peer: &mut Peer, bytes: &[u8]) {
    let mut input = bytes;
    while let Some(event) = peer.host.next(&mut input).unwrap() {
        match event {
            HostReceived::ReadData { cid, offset, bytes } => {
                let data = peer.data.get_mut(&cid).unwrap();
                data[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            HostReceived::Response { cid, cqe, .. } => {
                let twice = peer.answers.insert(cid, (cqe.status(), cqe.result.get()));
                assert!(twice.is_none(), "command {cid} was answered twice");
                peer.order.push(cid);
            }
            HostReceived::Ready { .. } => {}
            other => panic!("the host hears: {other:?}"),
        }
    }
}

/// Makes Set Features, Host Behavior Support: the host honours Command Retry Delays (ACRE).
pub(super) fn enable_acre() -> (Sqe, Vec<u8>) {
    let mut data = vec![0; 512];
    data[0] = 1;
    let sqe = Sqe { opcode: opcode::admin::SET_FEATURES, cdw10: U32::new(0x16), ..Sqe::default() };
    (sqe, data)
}

/// Makes Abort of a command of an I/O queue.
pub(super) fn abort(qid: u16, cid: u16) -> Sqe {
    Sqe {
        opcode: opcode::admin::ABORT,
        cdw10: U32::new(u32::from(qid) | u32::from(cid) << 16),
        ..Sqe::default()
    }
}
