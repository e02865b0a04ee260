//! A reactor and the hosts that are connected to it. Bytes are on their way for no time.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arbitration::Class;
use arbitration::arbiter::Waiters;
use arbitration::container::Scheduler;
use arbitration::credit::Caps;
use arbitration::device::{ContainerRules, DeviceRules};
use arbitration::limit::Rate;
use arbitration::overload::RetryDelays;
use arbitration::session::{RootSpec, SessionSpec, Sessions};
use arbitration::settings::WindowRule;
use fabric::Nanos;
use fabric::controller::{BackendId, ListenerId, Service, ServiceConfig, TransportType};
use fabric::fabrics::DISCOVERY_NQN;
use fabric::host::commands;
use fabric::nvm::BlockFormat;
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::{Either, HostReceived, HostTransport, Inbox as _};
use fabric::rdma::wire::{QueueParams, TargetQueue};
use fabric::tcp::{HostParams, TargetConnection, TargetParams, Tx};
use qtcp::pacing::Pacing;
use zerocopy::little_endian::{U16, U32};

use crate::connection::Accepted;
use crate::context::Settings;
use crate::core::Core;
use crate::key::Key;
use crate::policies::Tenant;
use crate::stats::QueueStats;
use crate::testing;
use crate::testing::wire::{self, Batch, Carrier, Down, HostEnd, Up, Written};
use crate::testing::{
    HeapArena, Input, Kind, Op, Ram, Receive, Rules, Shared, end_job, listener, namespace,
};

pub(super) type Machine = testing::Machine<Ram>;
type Disk = testing::Disk<Ram>;

pub(super) const NQN: &str = "nqn.2026-01.io.sluicegate:core";
/// The most data that a command moves, in bytes.
const MAX_TRANSFER: u32 = 64 << 10;
const LISTENER: ListenerId = ListenerId(1);
/// The parameters of queue pairs.
const PAIR: QueueParams = QueueParams {
    qid: 0,
    entries: 128,
    in_capsule_data: 4096,
    reads: 4,
    max_read: 16 << 10,
    posts: 64,
};
pub(super) const MS: u64 = 1_000_000;

/// The two namespaces: one whose commands are carried out on the spot, one whose commands are in
/// their device until [`Rig::end_oldest`].
pub(super) const MEMORY: u32 = 1;
pub(super) const DRIVE: u32 = 2;
pub(super) const BLOCKS: u64 = 1 << 17;

/// A connection, and the host at its other end.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) key: Key,
    pub(super) host: HostEnd,
    /// What the host has sent and the reactor has not received.
    up: Up,
    receiving: Option<Receive>,
    sending: VecDeque<Batch>,
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
    pub(super) shared: Rc<Shared<Ram>>,
    pub(super) now: Nanos,
    carrier: Carrier,
    pub(super) peers: Vec<Peer>,
    /// Bytes that were received straight into buffers of commands.
    pub(super) placed: usize,
    /// What the network's stage has of connections that it looks after.
    pub(super) paced: Vec<Arc<Pacing>>,
    /// What connections' packets carry: DSCP and priority.
    pub(super) dscps: Vec<(Key, u8, i32)>,
    /// Another session, and one that may have a thousand commands a second.
    pub(super) other: Tenant,
    pub(super) limited: Tenant,
    /// The controller of the queues that connect now, and the number of its host.
    controller: u16,
    pub(super) host: u8,
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
    /// What carries the queues.
    pub(super) carrier: Carrier,
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
            carrier: Carrier::Tcp,
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
        reconnect_time: Duration::from_secs(600),
        ..ServiceConfig::default()
    };
    let listener = listener(LISTENER, TransportType::Tcp);
    let mut service = testing::service(Nanos(0), config, NQN, listener).unwrap();
    for nsid in [MEMORY, DRIVE] {
        let namespace = namespace(nsid, BlockFormat::BYTES_512, BLOCKS);
        service.add_namespace(Nanos(0), NQN, namespace).unwrap();
    }
    service
}

/// Sessions of which one may wait with `queue` commands, which all commands are charged to.
fn sessions(queue: u32) -> Sessions {
    let caps = Caps { operations: 1000, payload: 1 << 20 };
    let root = RootSpec { caps, bounded: true, queue };
    let mut sessions = Sessions::new(&root);
    let named = |name: &str| SessionSpec { name: name.to_owned(), ..SessionSpec::default() };
    let limited = SessionSpec { iops: Rate::per_second(1000), ..named("limited") };
    sessions.apply(Nanos(0), &root, &[named("other"), limited]).unwrap();
    sessions
}

/// Rules by which `queue` commands of the one session may wait.
pub(super) fn session_rules(queue: u32) -> Rules {
    Rules::new(Tenant::new(sessions(queue).root(), 1))
}

fn disk(kind: Kind, rules: DeviceRules) -> Arc<Disk> {
    Disk::new(kind, Ram::new(BLOCKS), (BLOCKS, BlockFormat::BYTES_512), rules, 1)
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
        let disk = |kind, window| disk(kind, DeviceRules { window, ..DeviceRules::default() });
        let disks = HashMap::from([
            (BackendId(u64::from(MEMORY)), disk(Kind::Immediate, WindowRule::Off)),
            (BackendId(u64::from(DRIVE)), disk(Kind::Queued, WindowRule::Fixed(plan.window))),
        ]);
        let sessions = sessions(plan.queue);
        let [other, limited] =
            ["other", "limited"].map(|name| Tenant::new(sessions.named(name).unwrap(), 1));
        let tenant = Tenant::new(sessions.root(), 1);
        let rules = Rules { enabled: plan.stages, ..Rules::new(tenant) };
        let shared = Shared::new(service(), rules, disks, 1);
        let mut machine = Machine::new(&shared);
        machine.network = plan.network;
        let settings = Settings {
            reactor: 0,
            reactors: 1,
            max_transfer: MAX_TRANSFER,
            in_capsule_data: 4096,
            direct_min: 16 << 10,
            slice,
            receive_buffers: 32,
            retry_delays: plan.retry_delays,
        };
        let memory = (HeapArena::new(plan.memory, 64 << 10), HeapArena::new(64 << 10, 4096));
        let core = Core::new(machine, settings, Arc::new(Waiters::new(1)), memory, now);
        let mut rig = Self {
            core,
            shared,
            now,
            carrier: plan.carrier,
            peers: Vec::new(),
            placed: 0,
            paced: Vec::new(),
            dscps: Vec::new(),
            other,
            limited,
            controller: 0xffff,
            host: 0,
        };
        rig.add_host();
        rig
    }

    /// Puts a drive in the place of the one that no command has used yet, which takes one command at a
    /// time and orders them by place and by deadline.
    pub(super) fn order_by_place(&mut self, deadline_ns: u64) {
        let scheduler = Scheduler::Containers;
        let containers = Some(ContainerRules { scheduler, capacity: 16, deadline_ns });
        let window = WindowRule::Fixed(1);
        let rules = DeviceRules { window, containers, ..DeviceRules::default() };
        let drive = disk(Kind::Queued, rules);
        self.shared.disks.borrow_mut().insert(BackendId(u64::from(DRIVE)), drive);
    }

    /// Makes the memory a model of a slow device, whose commands take this time.
    pub(super) fn delay_memory(&mut self, ns: u64) {
        let disk = self.disk(MEMORY);
        disk.content.delay_ns.set(ns);
        disk.set_kind(Kind::Timed);
    }

    /// Changes the settings of quality of service, and runs until nothing happens any more.
    pub(super) fn change_rules(&mut self, change: impl FnOnce(&mut Rules)) {
        self.shared.change_rules(change);
        self.run();
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

    /// Connects another controller of the same host, which honours Command Retry Delays if `has_acre`
    /// says so, with an I/O queue. The peers: its admin queue and its I/O queue.
    pub(super) fn reconnect(&mut self, has_acre: bool) -> (usize, usize) {
        let admin = self.connect_again();
        let enabled = commands::property_set(0x14, commands::CC_ENABLE);
        assert_eq!(self.call(admin, enabled, None, 0).0, Status::SUCCESS);
        if has_acre {
            let (sqe, data) = enable_acre();
            assert_eq!(self.call(admin, sqe, Some(data), 0).0, Status::SUCCESS);
        }
        assert!(self.call(admin, commands::identify(1, 0), None, 4096).0.is_success());
        (admin, self.connect(1))
    }

    /// Connects the admin queue of another controller of the same host; the number of the queue's peer.
    pub(super) fn connect_again(&mut self) -> usize {
        self.controller = 0xffff;
        self.connect(0)
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
        let peer = self.accept_as(qid, params, Ipv4Addr::LOCALHOST.into());
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
        self.accept_as(0, params, address)
    }

    fn accept_as(&mut self, qid: u16, params: HostParams, address: IpAddr) -> usize {
        let (stats, in_flight) = (Arc::<QueueStats>::default(), Arc::<AtomicU32>::default());
        let (transport, host) = match self.carrier {
            Carrier::Tcp => {
                let target = TargetConnection::new(TargetParams::for_transfers(MAX_TRANSFER));
                (Either::Left(target), wire::host_over_tcp(params))
            }
            Carrier::Rdma => {
                let target = TargetQueue::new(QueueParams { qid, ..PAIR });
                (Either::Right(target), wire::host_over_rdma(MAX_TRANSFER, true))
            }
        };
        let key = self.core.accept(Accepted {
            transport,
            listener: LISTENER,
            peer: address,
            tos: None,
            stats: Arc::clone(&stats),
            in_flight: Arc::clone(&in_flight),
        });
        self.core.start(key);
        self.peers.push(Peer {
            key,
            host,
            up: Up::new(self.carrier),
            receiving: None,
            sending: VecDeque::new(),
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
        if self.carrier == Carrier::Rdma {
            self.peers.last_mut().unwrap().hear(Either::Right(&[]));
        }
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
        let (mut all, tx) = (Vec::new(), self.peers[peer].tx());
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
        if peer.sends {
            peer.up.fill(&mut peer.host, usize::MAX);
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
        if self.core.driver().jobs.is_empty() {
            return false;
        }
        let job = self.core.driver().jobs.remove(0);
        self.core.set_time(self.now);
        Input::JobEnded(end_job(job, None)).put(&mut self.core);
        self.run();
        true
    }

    /// Returns the commands in each state that any are in.
    pub(super) fn states(&self) -> Vec<(&'static str, u64)> {
        self.core.states().iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the statistics of the session, which all commands are charged to.
    pub(super) fn session_stats(&mut self) -> crate::stats::IoSnapshot {
        self.shared.rules.borrow().tenant.stats.get(0).unwrap().snapshot()
    }

    pub(super) fn disk(&self, nsid: u32) -> Arc<Disk> {
        self.shared.disk(BackendId(u64::from(nsid))).unwrap()
    }

    /// Commands in the target, as the connection's metric says.
    pub(super) fn in_flight(&self, peer: usize) -> u32 {
        self.peers[peer].in_flight.load(Ordering::Relaxed)
    }

    /// Says whether the reactor receives from a connection one chunk at a time.
    pub(super) fn receives_by_chunk(&self, peer: usize) -> bool {
        matches!(self.peers[peer].receiving, Some(Receive::Chunk))
    }

    /// Tells the reactor that there is no memory to receive into for a connection.
    pub(super) fn starve(&mut self, peer: usize) {
        self.peers[peer].receiving = None;
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
        let before = self.peers[peer].tx().pending_bytes();
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
        for (key, receive) in std::mem::take(&mut self.core.driver().receives) {
            any = true;
            let stops = receive.is_none();
            self.peer(key).receiving = receive;
            if stops {
                self.core.receive_ended(key, None);
            }
        }
        for op in std::mem::take(&mut self.core.driver().ops) {
            any |= self.carry_out(op);
        }
        while let Some(action) = self.shared.take_action() {
            any = true;
            self.core.act(action);
        }
        any
    }

    fn peer(&mut self, key: Key) -> &mut Peer {
        let found = self.peers.iter_mut().find(|peer| peer.key == key && peer.ended.is_none());
        found.expect("a connection")
    }

    /// Brings bytes of a connection to their other end. Whether there were any.
    fn deliver(&mut self, index: usize) -> bool {
        self.take_from_host(index);
        let Some(peer) = self.peers.get_mut(index) else { return false };
        let mut any = false;
        if !peer.up.is_empty()
            && let Some(receiving) = peer.receiving.take()
        {
            any = true;
            if let Receive::Once(mut place) = receiving {
                let placed = peer.up.take_into(place.as_mut(), usize::MAX);
                self.placed += placed;
                let rest = peer.up.take(4096);
                self.core.received_once(peer.key, place, placed, rest.kept());
            } else {
                let chunk = peer.up.take(16 << 10);
                self.core.received(peer.key, chunk.kept());
                match receiving {
                    Receive::Chunk => self.core.receive_ended(peer.key, None),
                    stream => peer.receiving = Some(stream),
                }
            }
        }
        let Some(peer) = self.peers.get_mut(index) else { return any };
        while peer.reads
            && let Some(mut batch) = peer.sending.pop_front()
        {
            any = true;
            let (mut down, mut sent, mut all) = (Down::new(self.carrier), 0, false);
            while !all {
                all = down.fill(&mut batch, usize::MAX, &mut sent);
                peer.hear(down.take(usize::MAX).kept());
            }
            self.core.sent(peer.key, batch, None);
        }
        any
    }

    /// Does what the reactor wants done. Returns whether that changes anything: a connection that
    /// ends is shut down in each turn until it has ended.
    fn carry_out(&mut self, op: Op) -> bool {
        match op {
            Op::Send(key, batch) => self.peer(key).sending.push_back(batch),
            Op::ShutDown(key) => {
                let peer = self.peer(key);
                peer.shut_down = true;
                let (receiving, batches) =
                    (peer.receiving.take(), std::mem::take(&mut peer.sending));
                let any = receiving.is_some() || !batches.is_empty();
                if receiving.is_some() {
                    self.core.receive_ended(key, Some("shut down".into()));
                }
                for batch in batches {
                    self.core.sent(key, batch, Some("shut down".into()));
                }
                return any;
            }
            Op::Ended(key, reason) => self.peer(key).ended = Some(reason),
            Op::Mark(key, dscp, priority) => {
                self.dscps.push((key, dscp, priority));
                return false;
            }
            Op::Join(_, pacing) => {
                self.paced.push(pacing);
                return false;
            }
            Op::Wake(_) => return false,
            Op::Fetch(key, fetch, mut place) => {
                let bytes = wire::fetch(&mut self.peer(key).host, &fetch, place.as_mut()).unwrap();
                self.core.fetched(key, (&fetch, &bytes), place, None);
            }
        }
        true
    }
}

impl Peer {
    /// Returns the bytes that the host has sent and the reactor has not received.
    pub(super) fn up(&mut self) -> &mut VecDeque<u8> {
        let Up::Bytes(bytes) = &mut self.up else { panic!("capsules are no bytes") };
        bytes
    }

    /// Returns what the host is to send.
    pub(super) fn tx(&mut self) -> &mut Tx<Written> {
        let Either::Left(host) = &mut self.host else { panic!("a queue pair sends no bytes") };
        host.tx()
    }

    /// Gives the host what has arrived.
    fn hear(&mut self, mut input: <HostEnd as HostTransport>::Chunk<'_>) {
        while let Some(event) = self.host.next(&mut input).unwrap() {
            match event {
                HostReceived::ReadData { cid, offset, bytes } => {
                    let data = self.data.get_mut(&cid).unwrap();
                    data[offset as usize..][..bytes.len()].copy_from_slice(bytes);
                }
                HostReceived::Response { cid, cqe, .. } => {
                    let twice = self.answers.insert(cid, (cqe.status(), cqe.result.get()));
                    assert!(twice.is_none(), "command {cid} was answered twice");
                    self.order.push(cid);
                }
                HostReceived::Ready { .. } => {}
                other => panic!("the host hears: {other:?}"),
            }
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
