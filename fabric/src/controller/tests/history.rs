//! Tests of random histories: under any actions of hosts, administrators and time, the invariants
//! hold.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::regions::{Regions, get_region};
use super::*;
use crate::controller::events::AERL;

/// A step of a history. Small numbers pick among the existing objects.
#[derive(Clone, Debug)]
enum Step {
    Connect { subsystem: u8, qid: u16, controller: u8, kato: u16, stranger: bool, listener: bool },
    RawConnect { sqe: [u8; 64], data: Vec<u8> },
    Admin { connection: u8, sqe: Box<Sqe>, data: bool },
    GetRegion(u8, bool),
    FabricsIo(u8, u8),
    Disconnect { connection: u8 },
    Settle(u8, bool),
    Closed { closing: u8 },
    Traffic { connection: u8 },
    Pass { milliseconds: u16 },
    Configure { what: u8, argument: u8 },
    Drain,
}

fn admin(connection: u8, sqe: Sqe, data: bool) -> Step {
    Step::Admin { connection, sqe: Box::new(sqe), data }
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0u8..16;
    prop_oneof![
        6 => (
            prop_oneof![6 => Just(0u8), 1 => Just(1), 2 => Just(2)],
            0u16..4,
            small.clone(),
            prop_oneof![Just(0u16), 500u16..5000],
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.9),
        ).prop_map(
            |(subsystem, qid, controller, kato, stranger, listener)| Step::Connect {
                subsystem, qid, controller, kato, stranger, listener
            }
        ),
        1 => (any::<[u8; 64]>(), prop::collection::vec(any::<u8>(), 0..1100))
            .prop_map(|(sqe, data)| Step::RawConnect { sqe, data }),
        3 => (small.clone(), prop_oneof![
            4 => Just(ENABLE), 1 => Just(ENABLE & !1), 1 => Just(ENABLE | 0x4000), 1 => any::<u32>()
        ]).prop_map(|(connection, cc)| admin(connection, property_set(0x14, cc), false)),
        2 => (small.clone(), any::<[u8; 64]>(), any::<bool>()).prop_map(|(connection, sqe, data)| {
            admin(connection, Sqe::read_from_bytes(&sqe).unwrap(), data)
        }),
        8 => (
            small.clone(),
            prop::sample::select(vec![2u8, 6, 8, 9, 0xa, 0xc, 0xc, 0xc, 0x18]),
            0u16..8,
            prop_oneof![0u32..0x14, Just(0x0004_0001), Just(0x003f_0004), any::<u32>()],
            prop_oneof![Just(0x100u32), Just(1 << 31), 0u32..4, any::<u32>()],
            prop_oneof![0u32..4, Just(u32::MAX)],
        ).prop_map(|(connection, opcode, cid, cdw10, cdw11, nsid)| {
            let [cdw10, cdw11, nsid] = [cdw10, cdw11, nsid].map(U32::new);
            admin(connection, Sqe { cdw10, cdw11, nsid, ..command(opcode, cid) }, true)
        }),
        4 => (small.clone(), 8u16..20, 0u32..4, 0u32..8).prop_map(
            |(connection, cid, queue, target)| admin(connection, abort(queue, target, cid), true)
        ),
        3 => (small.clone(), any::<bool>()).prop_map(|(at, granted)| Step::GetRegion(at, granted)),
        1 => (small.clone(), 0u8..10).prop_map(|(at, fctype)| Step::FabricsIo(at, fctype)),
        2 => small.clone().prop_map(|connection| Step::Disconnect { connection }),
        1 => (small.clone(), any::<bool>()).prop_map(|(abort, aborted)| Step::Settle(abort, aborted)),
        2 => small.clone().prop_map(|closing| Step::Closed { closing }),
        1 => small.clone().prop_map(|connection| Step::Traffic { connection }),
        2 => (0u16..2000).prop_map(|milliseconds| Step::Pass { milliseconds }),
        3 => (prop::sample::select(vec![0u8, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10]), small).prop_map(|(what, argument)| Step::Configure { what, argument }),
        1 => prop::bool::weighted(0.05).prop_map(|drain| {
            if drain { Step::Drain } else { Step::Pass { milliseconds: 1 } }
        }),
    ]
}

/// The daemon's side: its connections, and the commands that wait for answers.
struct Daemon {
    bench: Bench,
    open: Vec<ConnectionId>,
    /// Connections that are closing, and whose commands are not settled yet.
    closing: Vec<ConnectionId>,
    /// Deferred commands, and which of them are event requests.
    waiting: HashMap<(ConnectionId, u16), bool>,
    aborts: Vec<AbortTicket>,
    shared: HashMap<ConnectionId, Connected>,
    generation: u64,
    versions: BTreeMap<ControllerId, u64>,
    regions: Arc<Regions>,
    /// Controllers that were granted a region, and have been ready ever since.
    granted: BTreeSet<ControllerId>,
}

impl Daemon {
    fn pick(&self, n: u8) -> ConnectionId {
        let count = self.open.len().max(1);
        self.open.get(usize::from(n) % count).copied().unwrap_or(ConnectionId(u64::MAX))
    }

    fn connect(&mut self, listener: ListenerId, sqe: &Sqe, data: &[u8]) {
        self.bench.connections += 1;
        let id = ConnectionId(self.bench.connections);
        let now = self.bench.now;
        if let Ok(connected) = self.bench.service.connect(now, id, listener, sqe, data) {
            self.open.push(id);
            let io = connected.kind == QueueKind::Io;
            self.shared.insert(id, connected);
            // Most hosts enable their controller at once.
            if !io && !id.0.is_multiple_of(5) {
                self.bench.set_cc(id, ENABLE);
            }
        }
    }

    fn admin(&mut self, id: ConnectionId, sqe: &Sqe, data: &[u8]) {
        let length = self.bench.service.data_length(id, sqe);
        let key = (id, sqe.cid.get());
        if self.waiting.get(&key) == Some(&true) {
            // The command takes the request's place.
            self.waiting.remove(&key);
        }
        let busy = self.waiting.contains_key(&key);
        match self.bench.admin_with(id, sqe, data) {
            Reply::Deferred => {
                let request = sqe.opcode == op::ASYNC_EVENT_REQUEST;
                assert!(self.waiting.insert(key, request).is_none(), "one command at a time");
            }
            Reply::Done { status, .. } if busy => {
                assert_eq!(status_code(status), status_code(Status::CID_CONFLICT));
            }
            Reply::Done { status, .. } if !status.is_success() => {
                assert!(self.bench.out.is_empty(), "a failed command brings no data");
            }
            Reply::Done { .. } => {
                let most = length.controller_to_host as usize;
                assert!(self.bench.out.len() <= most, "{} > {most}", self.bench.out.len());
                assert!(self.bench.out.len() <= sqe.sgl.length.get() as usize);
            }
        }
    }

    fn lose(&mut self, id: ConnectionId) {
        self.open.retain(|c| *c != id);
        self.closing.retain(|c| *c != id);
        self.waiting.retain(|(c, _), _| *c != id);
        self.shared.remove(&id);
        self.bench.service.disconnected(self.bench.now, id);
    }

    fn act(&mut self) {
        for action in self.bench.actions() {
            match action {
                Action::Complete { connection, cid, .. } => {
                    let deferred = self.waiting.remove(&(connection, cid));
                    assert!(deferred.is_some(), "completed twice, or not deferred");
                }
                Action::Close { connection, .. } => {
                    assert!(self.open.contains(&connection), "closed twice, or never open");
                    self.open.retain(|c| *c != connection);
                    self.waiting.retain(|(c, _), _| *c != connection);
                    self.closing.push(connection);
                }
                Action::Abort { ticket, .. } => self.aborts.push(ticket),
                Action::Authenticate { .. } => panic!("no host has a secret"),
                Action::TableChanged { controller } => {
                    let now = self.bench.service.namespaces(controller);
                    assert!(now.iter().is_sorted_by_key(|n| n.nsid));
                    ana::check_log(&self.bench.service, controller);
                    let found = |n: &Namespace| n.backend != BackendId::NONE;
                    let agree = now.iter().all(|n| found(n) == n.is_ready());
                    assert!(agree, "no backend, no commands");
                }
            }
        }
    }

    fn configure(&mut self, what: u8, argument: u8) {
        let (now, s) = (self.bench.now, &mut self.bench.service);
        let nsid = u32::from(argument % 4);
        let extra = ListenerId(3);
        // A refusal is as good as a change here.
        let _ = match what {
            0 => s.add_namespace(now, SUBSYSTEM, namespace(argument)).map(drop),
            1 => s.remove_namespace(now, SUBSYSTEM, nsid).map(drop),
            2 => s.resize_namespace(now, SUBSYSTEM, nsid, u64::from(argument)),
            3 => s.remove_host(now, SUBSYSTEM, HOST),
            4 => s.add_host(now, SUBSYSTEM, HOST),
            5 => s.set_allow_any_host(now, SUBSYSTEM, argument.is_multiple_of(2)),
            6 => s.add_listener(now, listener(extra, argument.is_multiple_of(2))),
            7 => s.remove_listener(now, extra).map(drop),
            8 => s.remove_subsystem(now, OTHER).map(drop),
            10 => {
                let states = [AWAY, UNSEEN, Readiness::Ready, Readiness::Ready];
                let readiness = states[usize::from(argument / 4)];
                let changed = Namespace { nsid, readiness, ..namespace(argument + 16) };
                s.replace_namespace(now, SUBSYSTEM, changed).map(drop)
            }
            _ => s.add_subsystem(now, subsystem(OTHER, true)),
        };
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Connect { subsystem, qid, controller, kato, stranger, listener } => {
                let nqns = [SUBSYSTEM, OTHER, DISCOVERY_NQN];
                let mut nqn = nqns[usize::from(subsystem)].to_owned();
                let mut host = if stranger { STRANGER } else { HOST }.to_owned();
                let mut cntlid = 0xffff;
                let count = self.bench.service.controllers().count();
                let at = usize::from(controller) % count.max(1);
                let target = self.bench.service.controllers().nth(at);
                if let Some(target) = target.filter(|_| qid != 0) {
                    cntlid = target.id.0;
                    // Most I/O queues fit their controller.
                    if subsystem == 0 {
                        (nqn, host) = (target.subsystem.to_owned(), target.host.to_owned());
                    }
                }
                let connect = Connect::new(&nqn, qid, cntlid).kato(kato.into()).host(&host);
                let at = if listener { LISTENER } else { DISCOVERY_LISTENER };
                self.connect(at, &Sqe::from(&connect.command), connect.data.as_bytes());
            }
            Step::RawConnect { sqe, data } => {
                self.connect(LISTENER, &Sqe::read_from_bytes(&sqe).unwrap(), &data);
            }
            Step::Admin { connection, sqe, data } => {
                let id = self.pick(connection);
                let data: &[u8] = if data { &[1; 512] } else { &[] };
                self.admin(id, &sqe, data);
            }
            Step::GetRegion(connection, granted) => {
                self.regions.refuse((!granted).then_some(RegionRefusal::NoRoom));
                let id = self.pick(connection);
                self.admin(id, &get_region(), &[]);
                if let Some((controller, 0)) = self.bench.service.queue_of(id)
                    && self.bench.out.len() == 128
                {
                    self.granted.insert(controller);
                }
            }
            Step::FabricsIo(connection, fctype) => {
                let id = self.pick(connection);
                let reply = self.bench.io_fabrics(id, &fabrics_command(fctype), &[]);
                assert_ne!(reply, Reply::Deferred);
            }
            Step::Disconnect { connection } => {
                let id = self.pick(connection);
                self.lose(id);
            }
            Step::Settle(abort, aborted) => {
                let at = usize::from(abort) % self.aborts.len().max(1);
                if let Some(&ticket) = self.aborts.get(at) {
                    self.bench.service.abort_done(ticket, aborted);
                }
            }
            Step::Closed { closing } => {
                let at = usize::from(closing) % self.closing.len().max(1);
                if let Some(&id) = self.closing.get(at) {
                    self.lose(id);
                }
            }
            Step::Traffic { connection } => {
                if let Some(connected) = self.shared.get(&self.pick(connection)) {
                    connected.shared.note_traffic();
                }
            }
            Step::Pass { milliseconds } => {
                self.bench.pass(Duration::from_millis(milliseconds.into()));
                let next = self.bench.service.tick(self.bench.now);
                assert!(next.is_none_or(|next| next > self.bench.now), "a timer in the past");
            }
            Step::Configure { what, argument } => self.configure(what, argument),
            Step::Drain => self.bench.service.begin_shutdown(self.bench.now),
        }
    }

    fn check(&mut self) {
        let generation = self.bench.service.generation();
        assert!(generation >= self.generation, "the generation never goes back");
        self.generation = generation;
        let open: HashSet<ConnectionId> = self.open.iter().copied().collect();
        let known = &self.bench.service.connections;
        let remembered = |c: &ConnectionId| open.contains(c) || self.closing.contains(c);
        assert!(known.keys().all(remembered), "nothing is remembered that is gone");
        assert!(open.iter().all(|c| known.get(c).is_some_and(|a| !a.closing)));
        let limit = usize::from(AERL) + 1 + 4;
        let mut seen = HashSet::new();
        for c in self.bench.service.controllers() {
            assert!(seen.insert(c.id), "one controller for each identifier");
            assert!(open.contains(&c.admin));
            assert!(c.queues.iter().all(|(_, q)| open.contains(q)));
            let waiting = self.waiting.keys().filter(|(id, _)| *id == c.admin).count();
            assert!(waiting <= limit, "deferred commands are bounded");
        }
        assert!(self.waiting.keys().all(|(id, _)| open.contains(id)));
        for connected in self.shared.values() {
            let shared = &connected.shared;
            let version = shared.table_version.load(core::sync::atomic::Ordering::Relaxed);
            let last = self.versions.insert(shared.id, version).unwrap_or(0);
            assert!(version >= last || !seen.contains(&shared.id));
        }
        let service = &self.bench.service;
        let ready = |id: &ControllerId| {
            service.controllers.get(id).is_some_and(|controller| controller.shared.is_ready())
        };
        let mut ended = self.regions.ended();
        ended.sort();
        let gone: Vec<ControllerId> = self.granted.extract_if(.., |id| !ready(id)).collect();
        assert_eq!(ended, gone, "grants end once, with their controllers");
        assert_eq!(self.regions.held(), self.granted);
        assert!(service.aborts.len() <= 4 * seen.len());
        assert!(service.aborts.values().all(|a| open.contains(&a.target)), "none waits in vain");
        assert!(service.connections.values().all(|a| a.closing || seen.contains(&a.controller)));
    }
}

fn run(steps: Vec<Step>) {
    let mut bench =
        Bench::with(ServiceConfig { max_controllers: 6, max_namespaces: 4, ..Default::default() });
    let regions = bench.regions();
    let mut daemon = Daemon {
        bench,
        regions,
        granted: BTreeSet::new(),
        open: Vec::new(),
        closing: Vec::new(),
        waiting: HashMap::new(),
        aborts: Vec::new(),
        shared: HashMap::new(),
        generation: 0,
        versions: BTreeMap::new(),
    };
    for step in steps {
        daemon.step(step);
        daemon.act();
        daemon.check();
    }
    while let Some(connection) = daemon.open.first().or(daemon.closing.first()).copied() {
        daemon.lose(connection);
        daemon.act();
    }
    assert_eq!(daemon.bench.service.controllers().count(), 0, "nothing is left");
    assert!(daemon.regions.held().is_empty(), "no grant outlives its controller");
    assert!(daemon.bench.service.connections.is_empty());
    assert!(daemon.bench.service.aborts.is_empty());
    assert!(daemon.waiting.is_empty(), "every deferred command is settled");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn every_invariant_holds_in_any_history(steps in prop::collection::vec(step(), 1..250)) {
        run(steps);
    }
}
