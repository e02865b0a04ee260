//! A reactor's core with one host, whose I/O queue puts the load on it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitration::arbiter::Waiters;
use arbitration::credit::Caps;
use arbitration::device::DeviceRules;
use arbitration::overload::RetryDelays;
use arbitration::session::{RootSpec, Sessions};
use fabric::Nanos;
use fabric::controller::{BackendId, ListenerId, Service, ServiceConfig, TransportType};
use fabric::host::commands;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::{Sqe, Status};
use fabric::queue::{Either, HostTransport as _};
use fabric::rdma::wire::{QueueParams, TargetQueue};
use fabric::tcp::{TargetConnection, TargetParams};
use sluice_core::device::Data;
use sluice_core::testing::wire::{Carrier, Units, Written, fetch};
use sluice_core::testing::{
    self, Blocks, Disk, HeapArena, Input, Kind, Op, Receive, Rules, Shared, end_job, listener,
    namespace,
};
use sluice_core::{Accepted, Core, Held, HeldBlocks, Key, Settings, Tenant};
use zerocopy::little_endian::U16;

use crate::host::Host;

/// The machine below the core.
type Machine = testing::Machine<Still>;

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
/// The block format of the device, and its blocks.
const FORMAT: BlockFormat = BlockFormat::BYTES_4096;
const BLOCKS: u64 = 1 << 20;
/// The least bytes of a read that is sent from where the blocks are, as in the daemon.
const HELD_MIN: u32 = 16 << 10;

/// Blocks that stay where they are: what the movement of data costs is not counted.
#[derive(Debug)]
struct Still(Arc<[u8]>);

impl Blocks for Still {
    fn run(&self, _: &IoCommand, _: Data<'_>) -> Status {
        Status::SUCCESS
    }

    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let IoCommand::Read { range, .. } = command else { return None };
        let bytes = range.transfer_bytes(FORMAT);
        (bytes >= HELD_MIN).then(|| Held::new(Answer(Arc::clone(&self.0), bytes as usize)))
    }
}

/// The blocks of an answer that is sent from where they are.
#[derive(Debug)]
struct Answer(Arc<[u8]>, usize);

impl HeldBlocks for Answer {
    fn bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

/// The load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) carrier: Carrier,
    pub(crate) queued: bool,
    pub(crate) writes: bool,
    /// Bytes of a command.
    pub(crate) bytes: u32,
    /// Commands that are in the target at once.
    pub(crate) depth: u32,
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
    receiving: Vec<(Key, Receive)>,
    events: Vec<Input<Still>>,
    /// Memory of what has arrived, which is not freed in the part that counts.
    spent: Vec<Units<Vec<u8>>>,
    /// The data of writes.
    written: Written,
    /// The number of the next command.
    next: u32,
    /// The time of the part that counts.
    counted: Duration,
}

impl Scene {
    /// Makes a reactor with a connected controller, and warms it up.
    pub(crate) fn new(load: Load) -> Self {
        let now = Nanos(1_000_000_000);
        let kind = if load.queued { Kind::Queued } else { Kind::Immediate };
        let content = Still(vec![7; 1 << 20].into());
        let disk = Disk::new(kind, content, (BLOCKS, FORMAT), DeviceRules::default(), 1);
        let caps = Caps { operations: 4096, payload: 64 << 20 };
        let sessions = Sessions::new(&RootSpec { caps, bounded: false, queue: 4096 });
        let rules = Rules::new(Tenant::new(sessions.root(), 1));
        let shared = Shared::new(service(), rules, HashMap::from([(BackendId(1), disk)]), 1);
        let machine = Machine::new(&shared);
        let settings = Settings {
            reactor: 0,
            reactors: 1,
            max_transfer: MAX_TRANSFER,
            in_capsule_data: IN_CAPSULE_DATA,
            direct_min: 16 << 10,
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
            spent: Vec::new(),
            written: Rc::new(vec![5; load.bytes as usize]),
            next: 0,
            counted: Duration::ZERO,
        };
        scene.connect(0, 0xffff, 32);
        let controller = u16::try_from(scene.result(0) & 0xffff).unwrap_or(0);
        scene.call(0, commands::property_set(0x14, commands::CC_ENABLE), None);
        scene.connect(1, controller, ENTRIES);
        let in_capsule = match load.carrier {
            Carrier::Tcp => IN_CAPSULE_DATA,
            Carrier::Rdma => RDMA_IN_CAPSULE_DATA,
        };
        scene.host(1).end.set_in_capsule_data(in_capsule);
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
        let transport = match self.load.carrier {
            Carrier::Rdma => Either::Right(TargetQueue::new(QueueParams {
                qid,
                entries,
                in_capsule_data: if qid == 0 { 0 } else { RDMA_IN_CAPSULE_DATA },
                reads: 16,
                max_read: 1 << 30,
                posts: 3 * entries,
            })),
            Carrier::Tcp => {
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
        self.peers.push((key, Host::new(self.load.carrier)));
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
        self.spent.reserve(self.events.len());
        let start = Instant::now();
        self.counted_turn();
        self.counted += start.elapsed();
        self.spent.clear();
        let machine = self.core.driver();
        let (receives, ops) = (take(&mut machine.receives), take(&mut machine.ops));
        let jobs = take(&mut machine.jobs);
        while let Some(action) = machine.shared.take_action() {
            self.events.push(Input::Act(action));
        }
        for (key, receive) in receives {
            match receive {
                Some(receive) => self.receiving.push((key, receive)),
                None => {
                    self.receiving.retain(|(of, _)| *of != key);
                    self.events.push(Input::ReceiveEnded(key, false));
                }
            }
        }
        let ended = jobs.into_iter().map(|job| Input::JobEnded(end_job(job, None)));
        self.events.extend(ended);
        for op in ops {
            match op {
                Op::Send(key, mut batch) => {
                    self.host_of(key).take(&mut batch);
                    self.events.push(Input::Sent(key, batch, false));
                }
                Op::Fetch(key, part, mut place) => {
                    let bytes = fetch(&mut self.host_of(key).end, &part, place.as_mut());
                    let bytes = bytes.expect("the host's memory");
                    self.events.push(Input::Fetched(key, part, place, bytes, false));
                }
                Op::ShutDown(_) | Op::Ended(..) => panic!("a connection is ended: {op:?}"),
                Op::Wake(_) | Op::Mark(..) | Op::Join(..) => {}
            }
        }
    }

    fn host_of(&mut self, key: Key) -> &mut Host {
        let peer = self.peers.iter_mut().find(|(of, _)| *of == key);
        &mut peer.expect("a connected queue").1
    }

    /// Brings what a host has sent to the core, as it receives.
    fn deliver(&mut self, peer: usize) {
        let Some((key, host)) = self.peers.get_mut(peer) else { return };
        let key = *key;
        host.send();
        let receiving = self.receiving.iter().position(|(of, _)| *of == key);
        let (Some(at), false) = (receiving, host.up.is_empty()) else { return };
        let (_, receiving) = self.receiving.swap_remove(at);
        if let Receive::Once(mut place) = receiving {
            let placed = host.up.take_into(place.as_mut(), usize::MAX);
            let rest = host.up.take(4096);
            return self.events.push(Input::ReceivedOnce(key, place, placed, rest));
        }
        self.events.push(Input::Received(key, host.up.take(RECEIVED_MAX)));
        match receiving {
            Receive::Chunk => self.events.push(Input::ReceiveEnded(key, false)),
            stream => self.receiving.push((key, stream)),
        }
    }

    /// Takes a turn of the core: the part that counts.
    #[inline(never)]
    fn counted_turn(&mut self) {
        let Self { core, events, spent, now, .. } = self;
        core.set_time(*now);
        if core.has_changes() {
            core.change();
        }
        core.begin();
        spent.extend(events.drain(..).map(|event| event.put(core)));
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
    let listener = listener(LISTENER, TransportType::Tcp);
    let service = testing::service(Nanos(0), config, NQN, listener);
    let mut service = service.expect("a configuration");
    service.add_namespace(Nanos(0), NQN, namespace(1, FORMAT, BLOCKS)).expect("a namespace");
    service
}
