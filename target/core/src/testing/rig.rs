//! A reactor and the hosts that are connected to it. Bytes are on their way for no time.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what goes wrong here fails the test or benchmark that it is a part of"
)]

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use arbitration::Class;
use arbitration::arbiter::Waiters;
use arbitration::session::Sessions;
use fabric::Nanos;
use fabric::controller::{BackendId, ListenerId, Service};
use fabric::host::commands;
use fabric::nvme::{Sqe, Status};
use fabric::queue::{Either, HostReceived, HostTransport, Inbox as _};
use fabric::rdma::wire::QueueParams;
use fabric::tcp::HostParams;
use qtcp::pacing::Pacing;
use zerocopy::little_endian::U16;

use super::disk::{Blocks, Disk, end_job};
use super::heap::HeapArena;
use super::input::Input;
use super::machine::{Machine, Op, Receive};
use super::rules::Rules;
use super::shared::Shared;
use super::wire::{self, Batch, Carrier, Down, HostEnd, Units, Up};
use crate::machine::key::Key;
use crate::queue::connection::Accepted;
use crate::reactor::context::Settings;
use crate::reactor::core::Core;
use crate::stats::counters::QueueStats;

/// Maximum bytes that follow the bytes received into a command's buffer.
const REST: usize = 4096;

/// The parts of a target with one reactor.
#[derive(Debug)]
pub struct Parts<B> {
    /// The service, with the subsystem [`Rig::NQN`].
    pub service: Service,
    /// The sessions that `rules` charge commands to.
    pub sessions: Sessions,
    /// The settings of quality of service.
    pub rules: Rules,
    /// The devices of the namespaces.
    pub disks: HashMap<BackendId, Arc<Disk<B>>>,
    /// The settings of the reactor.
    pub settings: Settings,
    /// The buffers for I/O, and those for in-capsule data.
    pub memory: (HeapArena, HeapArena),
    /// The transport of all queues.
    pub carrier: Carrier,
    /// The parameters of queue pairs, but for their numbers.
    pub pair: QueueParams,
    /// The most bytes of one chunk that is received.
    pub chunk: usize,
}

/// A connection, and the host at its other end.
#[derive(Debug)]
pub struct Peer {
    /// Its name in the reactor.
    pub key: Key,
    /// The host's end.
    pub host: HostEnd,
    /// Units that the host has sent and the reactor has not received.
    up: Up,
    /// The way in which the reactor receives, if it does.
    pub receiving: Option<Receive>,
    sending: VecDeque<Batch>,
    /// Whether the host sends its output.
    pub sends: bool,
    /// Whether the host reads what there is to read.
    pub reads: bool,
    /// The status and the result of each command that was answered.
    pub answers: HashMap<u16, (Status, u64)>,
    /// Commands in the order of their answers.
    pub order: Vec<u16>,
    /// The data that commands have read.
    pub data: HashMap<u16, Vec<u8>>,
    next_cid: u16,
    /// The statistics of the connection.
    pub stats: Arc<QueueStats>,
    /// Commands in the target, as the connection's metric says.
    pub in_flight: Arc<AtomicU32>,
    /// Whether the connection was shut down.
    pub shut_down: bool,
    /// The reason for the connection's end; `None`: it has not ended.
    pub ended: Option<String>,
}

/// A reactor and its hosts.
#[derive(Debug)]
pub struct Rig<B: Blocks> {
    /// The reactor.
    pub core: Core<Machine<B>>,
    /// The state that all reactors of the target share.
    pub shared: Rc<Shared<B>>,
    /// The sessions.
    pub sessions: Sessions,
    /// The present time.
    pub now: Nanos,
    /// The connections, in the order in which they came.
    pub peers: Vec<Peer>,
    /// Bytes that were received straight into buffers of commands.
    pub placed: usize,
    /// The network's parts of the connections that its stage looks after.
    pub paced: Vec<Arc<Pacing>>,
    /// The marks of connections' packets: DSCP and priority.
    pub dscps: Vec<(Key, u8, i32)>,
    /// The number of the host that connects now.
    pub host: u8,
    /// The time that the core took for turns.
    pub counted: Duration,
    /// The controller of the queues that connect now.
    controller: u16,
    carrier: Carrier,
    pair: QueueParams,
    max_transfer: u32,
    in_capsule_data: u32,
    chunk: usize,
    /// The inputs of the reactor's next turn.
    inputs: Vec<Input<B>>,
    /// Memory of received units, which is not freed in the part of a turn that counts.
    spent: Vec<Units<Vec<u8>>>,
}

impl<B: Blocks> Rig<B> {
    /// The NQN of the subsystem.
    pub const NQN: &'static str = "nqn.2026-01.io.sluicegate:core";
    /// The listener of all connections.
    pub const LISTENER: ListenerId = ListenerId(1);

    /// Makes a reactor without hosts.
    #[must_use]
    pub fn of(parts: Parts<B>) -> Self {
        let Parts { service, sessions, rules, disks, settings, memory, carrier, pair, chunk } =
            parts;
        let now = Nanos(1_000_000_000);
        let shared = Shared::new(service, rules, disks, 1);
        let max_transfer = settings.max_transfer;
        let in_capsule_data = match carrier {
            Carrier::Tcp => settings.in_capsule_data,
            Carrier::Rdma => pair.in_capsule_data,
        };
        let waiters = Arc::new(Waiters::new(1));
        Self {
            core: Core::new(Machine::new(&shared), settings, waiters, memory, now),
            shared,
            sessions,
            now,
            peers: Vec::new(),
            placed: 0,
            paced: Vec::new(),
            dscps: Vec::new(),
            host: 0,
            counted: Duration::ZERO,
            controller: 0xffff,
            carrier,
            pair,
            max_transfer,
            in_capsule_data,
            chunk,
            inputs: Vec::new(),
            spent: Vec::new(),
        }
    }

    /// Connects another host: the admin queue of a controller, and an I/O queue. Returns the number of the I/O
    /// queue's peer, which follows the admin queue's.
    pub fn add_host(&mut self) -> usize {
        self.add_controller(commands::CC_ENABLE, HostParams::default());
        self.connect(1, HostParams::default(), None)
    }

    /// Connects the admin queue of another host's controller, with parameters that the host asks for,
    /// and configures the controller. Returns the number of the queue's peer.
    pub fn add_controller(&mut self, configuration: u32, params: HostParams) -> usize {
        self.host += 1;
        let admin = self.connect_again(params);
        let enabled = commands::property_set(0x14, configuration);
        assert_eq!(self.call(admin, enabled, None, 0).0, Status::SUCCESS);
        admin
    }

    /// Connects the admin queue of another controller of the same host. Returns the number of the
    /// queue's peer.
    pub fn connect_again(&mut self, params: HostParams) -> usize {
        self.controller = 0xffff;
        self.connect(0, params, None)
    }

    /// Connects a queue of the controller, with parameters that the host asks for, and a priority
    /// class. Returns the number of its peer.
    pub fn connect(&mut self, qid: u16, params: HostParams, class: Option<Class>) -> usize {
        let peer = self.accept(qid, params, Ipv4Addr::LOCALHOST.into());
        let host = format!("nqn.2026-01.io:host{}", self.host);
        let data = commands::connect_data([self.host; 16], self.controller, Self::NQN, &host);
        let (entries, kato) = if qid == 0 { (32, 120_000) } else { (128, 0) };
        let connect = commands::connect(qid, entries - 1, kato, class);
        let (status, result) = self.call(peer, connect, Some(data), 0);
        assert!(status.is_success(), "{status}");
        if qid == 0 {
            self.controller = u16::try_from(result & 0xffff).unwrap_or(0);
        } else {
            self.peers[peer].host.set_in_capsule_data(self.in_capsule_data);
        }
        peer
    }

    /// Accepts the connection of a queue from an address, with parameters that the host asks for.
    /// Returns the number of its peer.
    pub fn accept(&mut self, qid: u16, params: HostParams, address: IpAddr) -> usize {
        let pair = QueueParams { qid, ..self.pair };
        let host = match self.carrier {
            Carrier::Tcp => wire::host_over_tcp(params),
            Carrier::Rdma => wire::host_over_rdma(self.max_transfer, true),
        };
        let (stats, in_flight) = (Arc::<QueueStats>::default(), Arc::<AtomicU32>::default());
        let key = self.core.accept(Accepted {
            transport: wire::target_end(self.carrier, self.max_transfer, pair),
            listener: Self::LISTENER,
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
        let number = self.peers.len() - 1;
        if self.carrier == Carrier::Rdma {
            self.peers[number].hear(Either::Right(&[]));
        }
        self.run();
        number
    }

    /// Submits a command that the reactor sees when it next runs. Returns the command's identifier.
    pub fn queue(&mut self, peer: usize, sqe: Sqe, data: Option<Vec<u8>>, reads: u32) -> u16 {
        let peer = &mut self.peers[peer];
        let cid = peer.next_cid;
        peer.next_cid += 1;
        peer.data.insert(cid, vec![0; reads as usize]);
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        peer.host.submit(sqe, data.map(Rc::new), reads).expect("the host has room");
        cid
    }

    /// Submits a command, which must be answered at once. Returns its status and its result.
    pub fn call(
        &mut self,
        peer: usize,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        reads: u32,
    ) -> (Status, u64) {
        let cid = self.queue(peer, sqe, data, reads);
        self.run();
        self.peers[peer].answers.remove(&cid).expect("an answer")
    }

    /// Turns until nothing happens any more at this time.
    pub fn run(&mut self) {
        let turns = 10_000;
        let rests = (0..turns).any(|_| !self.turn());
        assert!(rests, "the reactor is never idle: {:?}", self.core.states());
    }

    /// Takes one turn. Returns whether anything happened.
    pub fn turn(&mut self) -> bool {
        (0..self.peers.len()).for_each(|peer| self.deliver(peer));
        let mut any = !self.inputs.is_empty();
        self.spent.reserve(self.inputs.len());
        let start = Instant::now();
        any |= self.counted_turn();
        self.counted += start.elapsed();
        self.spent.clear();
        let machine = self.core.driver();
        let (receives, ops) = (take(&mut machine.receives), take(&mut machine.ops));
        for (key, receive) in receives {
            any = true;
            if receive.is_none() {
                self.inputs.push(Input::ReceiveEnded(key, false));
            }
            self.peer(key).receiving = receive;
        }
        for op in ops {
            any |= self.carry_out(op);
        }
        while let Some(action) = self.shared.take_action() {
            any = true;
            self.inputs.push(Input::Act(action));
        }
        any
    }

    /// Takes a turn of the core: the part that counts.
    #[inline(never)]
    fn counted_turn(&mut self) -> bool {
        let Self { core, inputs, spent, now, .. } = self;
        core.set_time(*now);
        core.driver().now = *now;
        let mut any = core.has_changes() && core.change();
        any |= core.begin();
        spent.extend(inputs.drain(..).map(|input| input.put(core)));
        any |= core.settle();
        if core.has_tallies() {
            core.record(Nanos(now.0 + 1000));
        }
        core.end();
        any | core.idle_until().is_none_or(|at| at <= *now)
    }

    /// Ends all commands that are in their devices, in the next turn.
    pub fn end_jobs(&mut self) {
        let jobs = take(&mut self.core.driver().jobs);
        self.inputs.extend(jobs.into_iter().map(|job| Input::JobEnded(end_job(job, None))));
    }

    fn peer(&mut self, key: Key) -> &mut Peer {
        let found = self.peers.iter_mut().find(|peer| peer.key == key && peer.ended.is_none());
        found.expect("a connection")
    }

    /// Puts a host's output on the wire.
    pub fn take_from_host(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        if peer.sends {
            peer.up.fill(&mut peer.host, usize::MAX);
        }
    }

    /// Brings bytes of a connection to their other end.
    fn deliver(&mut self, index: usize) {
        self.take_from_host(index);
        let (peer, inputs) = (&mut self.peers[index], &mut self.inputs);
        let receiving = if peer.up.is_empty() { None } else { peer.receiving.take() };
        match receiving {
            None => {}
            Some(Receive::Once(mut place)) => {
                let placed = peer.up.take_into(place.as_mut(), usize::MAX);
                self.placed += placed;
                inputs.push(Input::ReceivedOnce(peer.key, place, placed, peer.up.take(REST)));
            }
            Some(Receive::Chunk) => {
                inputs.push(Input::Received(peer.key, peer.up.take(self.chunk)));
                inputs.push(Input::ReceiveEnded(peer.key, false));
            }
            Some(Receive::Chunks) => {
                inputs.push(Input::Received(peer.key, peer.up.take(self.chunk)));
                peer.receiving = Some(Receive::Chunks);
            }
        }
        while peer.reads
            && let Some(mut batch) = peer.sending.pop_front()
        {
            let (mut down, mut sent, mut all) = (Down::new(self.carrier), 0, false);
            while !all {
                all = down.fill(&mut batch, usize::MAX, &mut sent);
                peer.hear(down.take(usize::MAX).kept());
            }
            inputs.push(Input::Sent(peer.key, batch, false));
        }
    }

    /// Carries out an operation of the reactor. Returns whether that changes anything: a connection that ends is
    /// shut down in each turn until it has ended.
    fn carry_out(&mut self, op: Op) -> bool {
        match op {
            Op::Send(key, batch) => self.peer(key).sending.push_back(batch),
            Op::ShutDown(key) => {
                let peer = self.peer(key);
                peer.shut_down = true;
                let (receiving, batches) =
                    (peer.receiving.take(), std::mem::take(&mut peer.sending));
                let any = receiving.is_some() || !batches.is_empty();
                self.inputs.extend(receiving.map(|_| Input::ReceiveEnded(key, true)));
                self.inputs.extend(batches.into_iter().map(|batch| Input::Sent(key, batch, true)));
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
                let bytes = wire::fetch(&mut self.peer(key).host, &fetch, place.as_mut());
                let bytes = bytes.expect("the host's memory");
                self.inputs.push(Input::Fetched(key, fetch, place, bytes, false));
            }
        }
        true
    }
}

impl Peer {
    /// Returns the bytes that the host has sent and the reactor has not received.
    pub fn up(&mut self) -> &mut VecDeque<u8> {
        let Up::Bytes(bytes) = &mut self.up else { panic!("capsules are no bytes") };
        bytes
    }

    /// Forgets all answers, and numbers commands from 0 again.
    pub fn forget(&mut self) {
        self.answers.clear();
        self.order.clear();
        self.data.clear();
        self.next_cid = 0;
    }

    /// Processes units that have arrived at the host.
    fn hear(&mut self, mut input: <HostEnd as HostTransport>::Chunk<'_>) {
        while let Some(event) = self.host.next(&mut input).expect("the target keeps the rules") {
            match event {
                HostReceived::ReadData { cid, offset, bytes } => {
                    let data = self.data.get_mut(&cid).expect("a command that reads");
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

/// Takes a list, and leaves an empty one with room: the part that counts allocates none.
fn take<T>(list: &mut Vec<T>) -> Vec<T> {
    std::mem::replace(list, Vec::with_capacity(64))
}
