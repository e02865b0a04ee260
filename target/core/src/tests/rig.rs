//! The reactor of these tests: two namespaces, and the verbs of their hosts.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arbitration::Class;
use arbitration::container::Scheduler;
use arbitration::credit::Caps;
use arbitration::device::{ContainerRules, DeviceRules};
use arbitration::limit::Rate;
use arbitration::overload::RetryDelays;
use arbitration::session::{RootSpec, SessionSpec, Sessions};
use arbitration::settings::WindowRule;
use fabric::Nanos;
use fabric::controller::{BackendId, Service, ServiceConfig, TransportType};
use fabric::fabrics::DISCOVERY_NQN;
use fabric::host::commands;
use fabric::nvm::BlockFormat;
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::Either;
use fabric::rdma::wire::QueueParams;
use fabric::tcp::HostParams;
use zerocopy::little_endian::U32;

use crate::machine::policies::Tenant;
use crate::reactor::context::Settings;
use crate::stats::counters::IoSnapshot;
use crate::testing::wire::Carrier;
use crate::testing::{
    self, HeapArena, Input, Kind, Parts, Ram, Receive, Rules, end_job, listener, namespace,
};

pub(super) type Rig = testing::Rig<Ram>;
pub(super) type Machine = testing::Machine<Ram>;
type Disk = testing::Disk<Ram>;

pub(super) const NQN: &str = Rig::NQN;
/// The most data that a command moves, in bytes.
const MAX_TRANSFER: u32 = 64 << 10;
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

/// The configuration of a test's reactor.
#[derive(Debug)]
pub(super) struct Plan {
    /// Commands that may wait.
    pub(super) queue: u32,
    /// Commands that the drive holds at one time.
    pub(super) window: u32,
    /// I/O buffers, in bytes.
    pub(super) memory: usize,
    /// The bytes of a slice at the drive.
    pub(super) slice: u32,
    /// The network's stage looks after connections.
    pub(super) network: bool,
    /// Commands wait for their turns. Without turns, those to memory are carried out on the spot.
    pub(super) stages: bool,
    /// The retry delays of refused commands.
    pub(super) retry_delays: RetryDelays,
    /// The transport of the queues.
    pub(super) carrier: Carrier,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            queue: 1000,
            window: 1000,
            memory: 1 << 20,
            slice: 1 << 20,
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
    let listener = listener(Rig::LISTENER, TransportType::Tcp);
    let mut service = testing::service(Nanos(0), config, NQN, listener).unwrap();
    for nsid in [MEMORY, DRIVE] {
        let namespace = namespace(nsid, BlockFormat::BYTES_512, BLOCKS);
        service.add_namespace(Nanos(0), NQN, namespace).unwrap();
    }
    service
}

/// Makes three sessions: the root, which all commands are charged to and where `queue` commands may wait; `other`;
/// and `limited`, with a thousand commands a second.
fn sessions(queue: u32) -> Sessions {
    let caps = Caps { operations: 1000, payload: 1 << 20 };
    let root = RootSpec { caps, bounded: true, queue };
    let mut sessions = Sessions::new(&root);
    let named = |name: &str, spec| SessionSpec { name: name.to_owned(), ..spec };
    let specs = [named("other", SessionSpec::default()), named("limited", iops(1000))];
    sessions.apply(Nanos(0), &root, &specs).unwrap();
    sessions
}

/// Rules by which `queue` commands of the one session may wait.
pub(super) fn session_rules(queue: u32) -> Rules {
    Rules::new(Tenant::new(sessions(queue).root(), 1))
}

fn backend(nsid: u32) -> BackendId {
    BackendId(u64::from(nsid))
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

/// Makes a command name its class itself.
pub(super) fn of_class(class: Class, sqe: Sqe) -> Sqe {
    // CDW13 9:8: from 0, Low, to 3, Urgent.
    Sqe { cdw13: U32::new((class as u32) << 8), ..sqe }
}

/// Makes the specification of a session with a limit on commands a second.
pub(super) fn iops(rate: u64) -> SessionSpec {
    SessionSpec { iops: Rate::per_second(rate), ..SessionSpec::default() }
}

/// Makes the specification of a session with a limit on bytes a second.
pub(super) fn bandwidth(rate: u64) -> SessionSpec {
    SessionSpec { bandwidth: Rate::per_second(rate), ..SessionSpec::default() }
}

/// Makes Abort of a command of an I/O queue.
pub(super) fn abort(qid: u16, cid: u16) -> Sqe {
    Sqe {
        opcode: opcode::admin::ABORT,
        cdw10: U32::new(u32::from(qid) | u32::from(cid) << 16),
        ..Sqe::default()
    }
}

/// Returns the code and type of a status alone.
pub(super) fn kind(status: Status) -> Status {
    Status::from_bits(status.bits() & 0x7ff)
}

/// Returns a status, whether or not the error log says more about it (bit 13 of its field).
pub(super) fn without_more(status: Status) -> Status {
    Status::from_bits(status.bits() & !(1 << 13))
}

/// Returns the retry delay (CRD) that a status names, 1 to 3; 0: none.
pub(super) fn retry_delay(status: Status) -> u16 {
    status.bits() >> 11 & 0b11
}

impl Rig {
    /// Makes a reactor with one connected controller: peer 0 is its admin queue, peer 1 an I/O
    /// queue.
    pub(super) fn new(plan: &Plan) -> Self {
        let disk = |kind, window| disk(kind, DeviceRules { window, ..DeviceRules::default() });
        let disks = HashMap::from([
            (backend(MEMORY), disk(Kind::Immediate, WindowRule::Off)),
            (backend(DRIVE), disk(Kind::Queued, WindowRule::Fixed(plan.window))),
        ]);
        let sessions = sessions(plan.queue);
        let rules = Rules::new(Tenant::new(sessions.root(), 1));
        let mut rig = Self::of(Parts {
            service: service(),
            sessions,
            rules: Rules { enabled: plan.stages, ..rules },
            disks,
            settings: Settings {
                slice: plan.slice,
                retry_delays: plan.retry_delays,
                ..testing::settings(MAX_TRANSFER, 4096)
            },
            memory: (HeapArena::new(plan.memory, 64 << 10), HeapArena::new(64 << 10, 4096)),
            carrier: plan.carrier,
            pair: PAIR,
            chunk: 16 << 10,
        });
        rig.core.driver().network = plan.network;
        rig.add_host();
        rig
    }

    /// Replaces the drive, which no command has used yet: the new one executes one command at a time, and orders
    /// commands by place and by deadline.
    pub(super) fn order_by_place(&mut self, deadline_ns: u64) {
        let scheduler = Scheduler::Containers;
        let containers = Some(ContainerRules { scheduler, capacity: 16, deadline_ns });
        let window = WindowRule::Fixed(1);
        let rules = DeviceRules { window, containers, ..DeviceRules::default() };
        self.shared.disks.borrow_mut().insert(backend(DRIVE), disk(Kind::Queued, rules));
    }

    /// Makes the memory a model of a slow device, whose commands take this time.
    pub(super) fn delay_memory(&mut self, ns: u64) {
        let disk = self.disk(MEMORY);
        disk.content.delay_ns.set(ns);
        disk.set_kind(Kind::Timed);
    }

    pub(super) fn disk(&self, nsid: u32) -> Arc<Disk> {
        self.shared.disk(backend(nsid)).unwrap()
    }

    /// Takes the drive away from the target.
    pub(super) fn lose_drive(&mut self) {
        self.shared.disks.borrow_mut().remove(&backend(DRIVE));
        self.core.lose(Arc::from([backend(DRIVE)]));
        self.run();
    }

    /// Changes the settings of quality of service, and runs until nothing happens any more.
    pub(super) fn change_rules(&mut self, change: impl FnOnce(&mut Rules)) {
        self.shared.change_rules(change);
        self.run();
    }

    /// Charges all commands to a session: the root has also `other`, and `limited`, which may have a
    /// thousand commands a second.
    pub(super) fn charge_to(&mut self, session: &str) {
        let tenant = Tenant::new(self.sessions.named(session).unwrap(), 1);
        self.change_rules(|rules| rules.tenant = tenant);
    }

    /// Charges all commands to a session of this specification.
    pub(super) fn limit(&mut self, spec: SessionSpec) {
        self.sessions.put(self.now, &SessionSpec { name: "own".to_owned(), ..spec }).unwrap();
        self.charge_to("own");
    }

    /// Changes the service, and runs until nothing happens any more.
    pub(super) fn serve<R>(&mut self, change: impl FnOnce(Nanos, &mut Service) -> R) {
        let now = self.now;
        self.shared.with_service(|service| change(now, service));
        self.run();
    }

    /// Connects another host, whose queues have these priority classes, which count where `weighted`
    /// says so. Returns the peers: its admin queue and its I/O queues.
    pub(super) fn add_host_with<const N: usize>(
        &mut self,
        weighted: bool,
        classes: [Class; N],
    ) -> (usize, [usize; N]) {
        let classes_count = if weighted { commands::CC_WEIGHTED_ROUND_ROBIN } else { 0 };
        let admin = self.add_controller(commands::CC_ENABLE | classes_count, HostParams::default());
        let mut qid = 0;
        let queues = classes.map(|class| {
            qid += 1;
            self.connect(qid, HostParams::default(), Some(class))
        });
        (admin, queues)
    }

    /// Connects another I/O queue of the controller. Returns the number of its peer.
    pub(super) fn connect_queue(&mut self, qid: u16) -> usize {
        self.connect(qid, HostParams::default(), None)
    }

    /// Connects another controller of the same host, which honours Command Retry Delays if `has_acre`
    /// says so, with an I/O queue. Returns the peers: its admin queue and its I/O queue.
    pub(super) fn reconnect(&mut self, has_acre: bool) -> (usize, usize) {
        let admin = self.connect_again(HostParams::default());
        let enabled = commands::property_set(0x14, commands::CC_ENABLE);
        assert_eq!(self.call(admin, enabled, None, 0).0, Status::SUCCESS);
        if has_acre {
            self.honour_delays(admin);
        }
        assert!(self.call(admin, commands::identify(1, 0), None, 4096).0.is_success());
        (admin, self.connect_queue(1))
    }

    /// Enables Command Retry Delays for a host by its admin queue.
    pub(super) fn honour_delays(&mut self, admin: usize) {
        let (sqe, data) = commands::honour_retry_delays();
        assert!(self.call(admin, sqe, Some(data), 0).0.is_success());
    }

    /// Connects a discovery controller from an address; the number of its peer.
    pub(super) fn discover(&mut self, address: IpAddr) -> usize {
        let peer = self.accept(0, HostParams::default(), address);
        let data = commands::connect_data([9; 16], 0xffff, DISCOVERY_NQN, "nqn.2026-01.io:looks");
        let (status, _) = self.call(peer, commands::connect(0, 31, 120_000, None), Some(data), 0);
        assert!(status.is_success(), "{status}");
        self.call(peer, commands::property_set(0x14, commands::CC_ENABLE), None, 0);
        peer
    }

    /// Accepts a connection that sends nothing yet; the number of its peer.
    pub(super) fn accept_silent(&mut self) -> usize {
        self.accept(0, HostParams::default(), Ipv4Addr::LOCALHOST.into())
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

    /// Queues reads of single blocks; their identifiers.
    pub(super) fn queue_reads(&mut self, peer: usize, nsid: u32, lbas: Range<u64>) -> Vec<u16> {
        lbas.map(|lba| self.queue(peer, read(nsid, lba, 1), None, 512)).collect()
    }

    /// Submits reads of 64 KiB each of memory, and runs; their identifiers.
    pub(super) fn submit_reads(&mut self, count: u64) -> Vec<u16> {
        let lbas = (0..count).map(|n| n * 128);
        lbas.map(|lba| self.submit(1, read(MEMORY, lba, 128), None, 64 << 10)).collect()
    }

    /// Submits writes of 64 KiB each of memory, and runs; their identifiers.
    pub(super) fn submit_writes(&mut self, count: u64) -> Vec<u16> {
        let (lbas, data) = ((0..count).map(|n| n * 128), vec![1; 64 << 10]);
        lbas.map(|lba| self.submit(1, write(MEMORY, lba, 128), Some(data.clone()), 0)).collect()
    }

    /// Writes blocks, reads them again, and returns the bytes read. Ends all commands in the drive meanwhile.
    pub(super) fn write_and_read(&mut self, nsid: u32, lba: u64, data: &[u8]) -> Vec<u8> {
        let blocks = u32::try_from(data.len() / 512).unwrap();
        let cid = self.submit(1, write(nsid, lba, blocks), Some(data.to_vec()), 0);
        while self.end_oldest() {}
        assert_eq!(self.answer(1, cid), Some(Status::SUCCESS));
        self.content(1, nsid, lba, blocks)
    }

    /// Returns why a connection has ended; `None`: it has not.
    pub(super) fn ended(&self, peer: usize) -> Option<&str> {
        self.peers[peer].ended.as_deref()
    }

    /// Reads blocks. Ends all commands in the drive meanwhile.
    pub(super) fn content(&mut self, peer: usize, nsid: u32, lba: u64, blocks: u32) -> Vec<u8> {
        let cid = self.submit(peer, read(nsid, lba, blocks), None, blocks * 512);
        while self.end_oldest() {}
        assert_eq!(self.answer(peer, cid), Some(Status::SUCCESS));
        self.data(peer, cid).to_vec()
    }

    /// Reads the first bytes of a log page by the first admin queue.
    pub(super) fn log_page(&mut self, page: u8, bytes: u32) -> Vec<u8> {
        let cid = self.submit(0, commands::log_page(page, 0, bytes), None, bytes);
        assert_eq!(self.answer(0, cid), Some(Status::SUCCESS), "{bytes} bytes of page {page}");
        self.data(0, cid).to_vec()
    }

    /// Aborts a command of an I/O queue. Returns whether the target says that it was aborted.
    pub(super) fn abort(&mut self, admin: usize, qid: u16, cid: u16) -> bool {
        let (status, result) = self.call(admin, abort(qid, cid), None, 0);
        assert!(status.is_success(), "{status}");
        // Bit 0 of the result is set where the command was not aborted.
        result & 1 == 0
    }

    /// Starts a write of 32 KiB to the drive whose data the host does not send. Returns the command's identifier.
    pub(super) fn owe_data(&mut self, peer: usize) -> u16 {
        let cid = self.queue(peer, write(DRIVE, 0, 64), Some(vec![3; 32 << 10]), 0);
        self.run_until_asked(peer);
        cid
    }

    /// Adds four hosts whose writes hold or want more memory than there are buffers for. They do not send their data.
    pub(super) fn add_hosts_that_hold_memory(&mut self) -> Vec<usize> {
        let hosts: Vec<usize> = (0..4).map(|_| self.add_host()).collect();
        for &host in &hosts {
            let data = || Some(vec![7; 64 << 10]);
            (0..4).for_each(|n| _ = self.queue(host, write(DRIVE, n * 128, 128), data(), 0));
            self.run_until_asked(host);
        }
        let states = self.states();
        assert!(states.iter().any(|(state, _)| *state == "data_buffer"), "{states:?}");
        hosts
    }

    /// Takes the bytes that a host has to send.
    pub(super) fn bytes_of(&mut self, peer: usize) -> Vec<u8> {
        let Either::Left(host) = &mut self.peers[peer].host else { panic!("it sends no bytes") };
        let (mut all, tx) = (Vec::new(), host.tx());
        while tx.in_flight() || tx.begin() {
            let bytes: Vec<u8> = tx.slices().flatten().copied().collect();
            tx.advance(bytes.len());
            all.extend(bytes);
        }
        all
    }

    /// Counts the bytes that a host has to send.
    pub(super) fn unsent(&mut self, peer: usize) -> usize {
        let Either::Left(host) = &mut self.peers[peer].host else { panic!("it sends no bytes") };
        host.tx().pending_bytes()
    }

    /// Returns the status of a command, if it was answered.
    pub(super) fn answer(&self, peer: usize, cid: u16) -> Option<Status> {
        self.peers[peer].answers.get(&cid).map(|(status, _)| *status)
    }

    /// Returns whether all of these commands have succeeded.
    pub(super) fn succeeded(&self, peer: usize, cids: &[u16]) -> bool {
        cids.iter().all(|cid| self.answer(peer, *cid) == Some(Status::SUCCESS))
    }

    /// Returns the result of a command, if it was answered.
    pub(super) fn result(&self, peer: usize, cid: u16) -> Option<u64> {
        self.peers[peer].answers.get(&cid).map(|(_, result)| *result)
    }

    /// Returns a command's read data.
    pub(super) fn data(&self, peer: usize, cid: u16) -> &[u8] {
        &self.peers[peer].data[&cid]
    }

    /// Lets time pass, and runs until nothing happens any more.
    pub(super) fn pass(&mut self, ns: u64) {
        self.now = Nanos(self.now.0 + ns);
        self.run();
    }

    /// Lets time pass so often.
    pub(super) fn pass_often(&mut self, count: u64, ns: u64) {
        (0..count).for_each(|_| self.pass(ns));
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

    /// Ends the command that has been in the drive for longest, after this time.
    pub(super) fn end_after(&mut self, ns: u64) -> bool {
        self.now = Nanos(self.now.0 + ns);
        self.end_oldest()
    }

    /// Ends a connection, for this reason.
    pub(super) fn cut(&mut self, peer: usize, why: &'static str) {
        self.core.receive_ended(self.peers[peer].key, Some(why.into()));
        self.run();
    }

    /// Returns the commands in each state that any are in.
    pub(super) fn states(&self) -> Vec<(&'static str, u64)> {
        self.core.states().iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the statistics of the session, which all commands are charged to.
    pub(super) fn session_stats(&mut self) -> IoSnapshot {
        self.shared.rules.borrow().tenant.stats.get(0).unwrap().snapshot()
    }

    /// Returns the statistics of a connection.
    pub(super) fn stats(&self, peer: usize) -> IoSnapshot {
        self.peers[peer].stats.get().unwrap().snapshot()
    }

    /// Commands in the target, as the connection's metric says.
    pub(super) fn in_flight(&self, peer: usize) -> u32 {
        self.peers[peer].in_flight.load(Ordering::Relaxed)
    }

    /// Returns whether the reactor receives from a connection one chunk at a time.
    pub(super) fn receives_by_chunk(&self, peer: usize) -> bool {
        matches!(self.peers[peer].receiving, Some(Receive::Chunk))
    }

    /// Tells the reactor that there is no memory to receive into for a connection.
    pub(super) fn starve(&mut self, peer: usize) {
        self.peers[peer].receiving = None;
        self.core.receive_starved(self.peers[peer].key);
    }

    /// Runs until a host was asked for data, which it does not send.
    pub(super) fn run_until_asked(&mut self, peer: usize) {
        assert!(self.unsent(peer) > 0, "there is a command to send");
        self.turn();
        self.peers[peer].sends = false;
        self.run();
    }
}
