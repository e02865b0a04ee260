//! The world: the order of events, and the promises that must hold.

mod access;
mod chance;
mod controllers;
mod drain;
mod hostile;
mod hosts;
mod kept;
mod limits;
mod network;
mod reactors;
mod reserved;
mod rights;
mod sessions;
mod shares;

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arbitration::Class;
use arbitration::arbiter::Waiters;
use arbitration::credit::Caps;
use arbitration::session::{RootSpec, Sessions};
use fabric::Nanos;
use fabric::controller::{BackendId, ListenerId, ServiceConfig, TransportType};
use fastrand::Rng;
use qtcp::pacing::{Answers, Pacing};
use slab::Slab;
use sluice_core::device::BlockDevice as _;
use sluice_core::stats::IoSnapshot;
use sluice_core::testing::{self, HeapArena, Rules, Shared, listener};
use sluice_core::{Core, Entrance, Inventory, Job, Key, Settings, StateCounts, Tenant, Touched};
use units::Calendar;

use self::kept::{Access, Drain, Granted, Held};
use self::limits::Limits;
use self::shares::Shares;
use crate::connection::Connection;
use crate::disk::{Content, Counts};
use crate::host::{Host, NQN};
use crate::oracle::{Broken, Oracle};
use crate::scenario::Scenario;

/// A reactor's machine.
type Machine = testing::Machine<Content>;

const LISTENER: ListenerId = ListenerId(1);
/// Connections that may be there without a Connect.
const MAX_WAITING: u32 = 256;
/// The time at which worlds begin, in ns.
const BEGIN_NS: u64 = 1_000_000_000;
/// Shortest time of a reactor's turn, in ns.
const TURN_NS: u64 = 2_000;
/// Longest time for hosts to settle after the last command, in ns of simulated time.
const SETTLE_NS: u64 = 120_000_000_000;
/// The time in which hosts have submitted all of a world's commands, in ns of simulated time, where
/// the target serves them: 20 minutes.
const SUBMIT_NS: u64 = 1_200_000_000_000;
/// Number of entries of an I/O queue.
const ENTRIES: u16 = 64;
/// Number of entries of an admin queue.
const ADMIN_ENTRIES: u16 = 32;

/// The outcome of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Commands that hosts submitted to I/O queues.
    pub submitted: u64,
    /// Commands among these that were answered; the others' connections ended.
    pub answered: u64,
    /// Answers with the status success.
    pub succeeded: u64,
    /// Commands that would have written, and that their hosts might not send.
    pub forbidden: u64,
    /// Bytes that were received straight into commands' buffers.
    pub placed: u64,
    /// Connections that hosts made.
    pub connections: u64,
    /// Connections among these that were over RDMA.
    pub rdma: u64,
    /// Bytes that were fetched by RDMA READ.
    pub fetched: u64,
    /// Simulated time at the end.
    pub ended_at: Nanos,
    /// A number that follows from everything that happened: two runs of one seed have the same.
    pub fingerprint: u64,
}

/// An event of the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Turn(usize),
    /// A look at a reactor that is idle, which must find nothing to do.
    Look(usize),
    Up(usize),
    Down(usize),
    /// A host hears that its queue pair is accepted.
    Accepted(usize),
    /// An RDMA READ of a connection has been to the host and back.
    Fetch(usize),
    Job(usize, usize),
    Host(usize),
    /// A host's association asks for a look.
    Timer(usize),
    Service,
    Chance,
    /// A host makes connections beside its own.
    Crowd(usize),
    /// The first host sends a burst.
    Burst,
}

/// An input that a reactor finds when its turn comes.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box of a job would cost more than its moves")]
enum Input {
    Accept(usize),
    Core(testing::Input<Content>),
    Touch(Arc<Touched>),
    Lose(Arc<[BackendId]>),
    Drain(Duration),
}

impl From<testing::Input<Content>> for Input {
    fn from(input: testing::Input<Content>) -> Self {
        Self::Core(input)
    }
}

#[derive(Debug)]
struct Reactor {
    core: Core<Machine>,
    inbox: VecDeque<Input>,
    /// Connections that have come and are not served yet.
    entrance: Entrance<usize>,
    /// Time of its next turn; turns that were planned for another time do not happen.
    next: Option<Nanos>,
    /// Until when its last turn takes.
    busy: Nanos,
    /// Time until which the reactor reported to be idle, and the number of changes of rates before.
    idle_until: Option<(Nanos, u64)>,
    jobs: Slab<Job<Machine>>,
    connections: HashMap<Key, usize>,
}

/// A namespace that hosts may use.
#[derive(Clone, Copy, Debug)]
struct Known {
    nsid: u32,
    backend: BackendId,
    blocks: u64,
}

/// A whole target, its hosts, its network and its devices.
#[derive(Debug)]
pub struct World {
    scenario: Scenario,
    rng: Rng,
    now: Nanos,
    events: Calendar<Event>,
    shared: Rc<Shared<Content>>,
    sessions: Sessions,
    limits: Limits,
    /// The commands without data of which a part went to a device: reactor, connection, identifier, and arrival.
    begun: HashSet<(usize, Key, u16, Nanos)>,
    granted: Vec<Granted>,
    /// Number of commands that the first host had of its device in each period, where that is
    /// watched.
    had: Vec<u64>,
    /// The hosts' shares of the device.
    shares: Shares,
    reactors: Vec<Reactor>,
    connections: Vec<Connection>,
    hosts: Vec<Host>,
    namespaces: Vec<Known>,
    /// The network stage's pacing of connections.
    paced: Vec<Arc<Pacing>>,
    /// Number of changes of the network's rates, which cause no event of reactors.
    rates_changed: u64,
    /// Number of crowds of connections that hosts made.
    crowds: u32,
    access: Access,
    /// Time at which it changed last whether a host may connect, for each host.
    access_changed: Vec<Nanos>,
    /// The rights of each host.
    rights: Vec<Held>,
    oracle: Oracle,
    next_backend: u64,
    next_nsid: u32,
    /// Whether hosts submit no more, and nothing goes wrong any more.
    settling: bool,
    /// Drain of a target that takes no more commands, and ends.
    drain: Option<Drain>,
    /// Time at which the service wants its next tick.
    service_at: Nanos,
    outcome: Outcome,
    broken: Option<Broken>,
    /// Events in words, where they are asked for.
    trace: Option<Vec<String>>,
}

impl World {
    /// Makes a world that has not begun.
    ///
    /// # Panics
    /// The service rejects the scenario's limits.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let now = Nanos(BEGIN_NS);
        let config = ServiceConfig {
            max_transfer: scenario.max_transfer,
            in_capsule_data: scenario.in_capsule,
            queue_entries: ENTRIES,
            admin_queue_entries: ADMIN_ENTRIES,
            max_namespaces: 1024,
            max_waiting: MAX_WAITING,
            weighted_round_robin: true,
            ..ServiceConfig::default()
        };
        let listener = listener(LISTENER, TransportType::Tcp);
        let service =
            testing::service(now, config, NQN, listener).expect("a scenario's limits are right");
        let root = root(scenario.waiting);
        let sharing = arbitration::Sharing::for_reactors(scenario.reactors);
        let sessions = Sessions::shared(&root, sharing);
        let tenant = tenant(&sessions, None, scenario.reactors);
        let shares = Shares::new(&scenario.shares);
        let hosts: Vec<Host> =
            (0..scenario.hosts).map(|n| Host::new(u8::try_from(n).unwrap_or(0))).collect();
        let names = hosts.iter().map(|host| host.nqn.clone());
        let rules = Rules {
            enabled: scenario.stages,
            queue: scenario.waiting,
            classes: names.zip(scenario.shares.iter().copied()).collect(),
            ..Rules::new(tenant)
        };
        let shared = Shared::new(service, rules, HashMap::new(), scenario.reactors);
        let waiters = Arc::new(Waiters::new(scenario.reactors));
        let reactors = (0..scenario.reactors)
            .map(|reactor| {
                let settings = Settings {
                    reactor,
                    reactors: scenario.reactors,
                    direct_min: scenario.direct_min,
                    slice: scenario.slice,
                    receive_buffers: scenario.receive_buffers,
                    ..testing::settings(scenario.max_transfer, scenario.in_capsule)
                };
                let (bytes, largest) = (scenario.io_memory, scenario.max_transfer as usize);
                let capsule = (scenario.in_capsule as usize).max(4096);
                let capsules = HeapArena::new(Settings::capsule_memory(bytes, capsule), capsule);
                let pools = (HeapArena::new(bytes, largest), capsules);
                let mut machine = Machine::new(&shared);
                machine.short_of_memory = scenario.scratch;
                Reactor {
                    core: Core::new(machine, settings, Arc::clone(&waiters), pools, now),
                    inbox: VecDeque::new(),
                    entrance: Entrance::default(),
                    next: None,
                    busy: now,
                    idle_until: None,
                    jobs: Slab::new(),
                    connections: HashMap::new(),
                }
            })
            .collect();
        let mut world = Self {
            rng: Rng::with_seed(scenario.seed ^ 0x5eed),
            now,
            events: Calendar::new(),
            shared,
            sessions,
            limits: Limits::default(),
            begun: HashSet::new(),
            granted: Vec::new(),
            had: Vec::new(),
            shares,
            reactors,
            connections: Vec::new(),
            hosts,
            namespaces: Vec::new(),
            paced: Vec::new(),
            rates_changed: 0,
            crowds: 0,
            access: Access::default(),
            access_changed: vec![now; scenario.hosts],
            rights: vec![Held::default(); scenario.hosts],
            oracle: Oracle::default(),
            next_backend: 1,
            next_nsid: 1,
            settling: false,
            drain: None,
            service_at: now,
            outcome: Outcome::default(),
            broken: None,
            trace: None,
            scenario,
        };
        (0..world.scenario.disks.len()).for_each(|index| world.add_namespace(index));
        if world.scenario.groups {
            world.add_groups();
        }
        if world.scenario.latency {
            world.promise_first();
            world.after(0, Event::Burst);
        } else if world.scenario.reserved {
            world.reserve_first();
        }
        if world.scenario.bound {
            (0..world.hosts.len()).for_each(|_| world.change_access());
        }
        for host in 0..world.hosts.len() {
            world.after(0, Event::Crowd(host));
            world.after(0, Event::Host(host));
        }
        (0..world.reactors.len()).for_each(|reactor| world.plan_turn(reactor, now));
        world.after(0, Event::Service);
        world.after(1_000_000, Event::Chance);
        world
    }

    /// Returns the smallest scenario that was found to break its promises, where this one does.
    #[must_use]
    pub fn shrink(scenario: Scenario) -> Scenario {
        let mut smallest = scenario;
        'again: loop {
            for smaller in smallest.smaller() {
                if Self::new(smaller.clone()).run().is_err() {
                    smallest = smaller;
                    continue 'again;
                }
            }
            return smallest;
        }
    }

    /// Runs the world to its end: all commands submitted, all settled, nothing held.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(mut self) -> Result<Outcome, Broken> {
        self.run_on()
    }

    /// Runs the world to its end, and returns its events in words too.
    pub fn tell(mut self) -> (Result<Outcome, Broken>, Vec<String>) {
        self.trace = Some(Vec::new());
        let outcome = self.run_on();
        (outcome, self.trace.take().unwrap_or_default())
    }

    fn run_on(&mut self) -> Result<Outcome, Broken> {
        let mut until = Nanos(self.now.0 + SUBMIT_NS);
        while let Some((at, event)) = self.events.pop_due(Nanos::MAX) {
            self.now = self.now.max(at);
            self.happen(event);
            self.check_innocent();
            if !self.settling && self.outcome.submitted >= self.scenario.commands {
                self.settling = true;
                self.check_reserved();
                self.check_shares();
                self.mend();
                if self.scenario.drain {
                    self.drain();
                }
                until = Nanos(self.now.0 + SETTLE_NS);
            }
            let is_over = match self.drain {
                Some(drain) => self.has_drained(drain),
                None => self.settling && self.is_settled(),
            };
            if !is_over && self.now > until {
                self.break_unsettled();
            }
            if is_over || self.broken.is_some() {
                break;
            }
        }
        self.check_end();
        self.outcome.ended_at = self.now;
        self.broken.take().map_or(Ok(self.outcome), Err)
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.at(Nanos(self.now.0 + ns), event);
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.events.insert(at, event);
    }

    fn plan_turn(&mut self, reactor: usize, at: Nanos) {
        let one = &mut self.reactors[reactor];
        let at = at.max(one.busy);
        if one.next.is_none_or(|next| at < next) {
            one.next = Some(at);
            self.at(at, Event::Turn(reactor));
        }
    }

    fn put(&mut self, reactor: usize, input: impl Into<Input>) {
        self.reactors[reactor].inbox.push_back(input.into());
        self.plan_turn(reactor, Nanos(self.now.0 + TURN_NS));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn(reactor) => self.turn(reactor),
            Event::Look(reactor) => self.look(reactor),
            Event::Up(connection) => self.deliver_up(connection),
            Event::Down(connection) => self.deliver_down(connection),
            Event::Accepted(connection) => self.hand_down(connection, 0),
            Event::Fetch(connection) => self.end_fetch(connection),
            Event::Job(reactor, job) => self.end_job(reactor, job),
            Event::Host(host) => self.host(host),
            Event::Timer(host) => self.time(host),
            Event::Service => self.tick(),
            Event::Chance => self.chance(),
            Event::Crowd(host) => self.crowd(host),
            Event::Burst => self.burst(),
        }
        self.route();
    }

    fn breaks(&mut self, what: impl Into<String>) {
        let at = self.now;
        self.broken.get_or_insert_with(|| Broken { at, what: what.into() });
    }

    fn trace(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>14} {}", self.now.0, line()));
        }
    }

    fn note(&mut self, what: u64) {
        let mixed = self.outcome.fingerprint.rotate_left(7) ^ what;
        self.outcome.fingerprint = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Ends all faults and limits: what waits now must be served.
    fn mend(&mut self) {
        self.rates_changed += 1;
        for pacing in &self.paced {
            pacing.set_r2t_rate(None);
            pacing.set_held(false);
            pacing.set_out_rate(None);
            pacing.set_asked(None);
            pacing.hand_over(Answers::All);
        }
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            connection.down_ns = connection.down_ns.min(100_000);
            // Data that never comes must not keep a target from ending.
            connection.silent &= self.scenario.drain;
            self.schedule(index);
        }
    }

    fn is_settled(&self) -> bool {
        self.hosts.iter().all(|host| host.waits_for() == 0 && host.untold.is_empty())
            && self.reactors.iter().all(|reactor| {
                let held = reactor.core.inventory();
                reactor.inbox.is_empty()
                    && (held.commands, held.ordered) == (0, 0)
                    && (held.buffer_bytes, held.granted_bytes, held.promised_bytes) == (0, 0, 0)
            })
            && self
                .connections
                .iter()
                .all(|one| one.sending.is_empty() && one.fetching.is_empty() && one.down.is_empty())
    }

    fn break_unsettled(&mut self) {
        let waits = self.hosts.iter().map(|host| (host.waits_for(), &host.untold));
        let what = format!(
            "of the hosts, these commands are not answered and these changes not told, although \
             nothing stands in their way: {:?}; reactors hold {:?}",
            waits.collect::<Vec<_>>(),
            self.held()
        );
        self.breaks(what);
    }

    fn check_shares(&mut self) {
        let weights = self.shared.rules.borrow().order.weights;
        let shares = self.shares.check(weights, self.scenario.commands / 2);
        if let Err(what) = shares.and_then(|()| self.shares.check_own(&self.scenario)) {
            self.breaks(what);
        }
    }

    /// Returns the resources of each reactor, and its commands by their states.
    fn held(&self) -> Vec<(Inventory, StateCounts)> {
        self.reactors.iter().map(|one| (one.core.inventory(), one.core.states())).collect()
    }

    fn check_end(&mut self) {
        (0..self.hosts.len()).for_each(|host| self.check_above(host));
        if let Err(what) = self.check_held().and_then(|()| self.check_counted()) {
            self.breaks(what);
        }
    }

    /// Checks that nothing is held at the end.
    fn check_held(&self) -> Result<(), String> {
        for session in self.sessions.iter() {
            let used = session.credits.used();
            if used != arbitration::credit::Used::default() {
                let name = session.name();
                return Err(format!("session {name:?} still has credits: {used:?}"));
            }
            let waiting = session.backlog.waiting();
            if waiting > 0 {
                return Err(format!("{waiting} commands wait in a session's queue"));
            }
        }
        for (backend, disk) in self.shared.disks.borrow().iter() {
            let (given, told) = (disk.content.given(), Counts::from(&disk.total()));
            if !given.agree_with(&told) && !self.scenario.faults {
                return Err(format!("{backend:?} was given {given:?}; the target says {told:?}"));
            }
            if let Some(bytes) = disk.content.more_than_a_slice() {
                return Err(format!("{backend:?} was given {bytes} bytes to zero or verify"));
            }
            let held = disk.qos().window.held();
            if held > 0 {
                return Err(format!("{held} places of {backend:?}'s window are taken"));
            }
        }
        Ok(())
    }

    /// Checks that each command was counted for its class and its workload, and that all of its time
    /// in the target is either waiting or the device's.
    fn check_counted(&mut self) -> Result<(), String> {
        for class in Class::ALL {
            let mut done = IoSnapshot::default();
            for one in &mut self.reactors {
                done.merge(&one.core.driver().classes[class].snapshot());
            }
            let by_workload = self.shared.workloads.sum(|_, of| of == class);
            if by_workload != done {
                let ops = |io: &IoSnapshot| [&io.read, &io.write, &io.other].map(|kind| kind.ops);
                let (all, counted) = (ops(&done), ops(&by_workload));
                return Err(format!("{class:?} did {all:?}, and its workloads {counted:?}"));
            }
            let kinds = [&done.read, &done.write, &done.other];
            let latency: u64 = kinds.iter().map(|kind| kind.latency.sum_ns).sum();
            let parts = (done.queueing.sum_ns, done.service.sum_ns);
            if latency != parts.0 + parts.1 {
                return Err(format!(
                    "{class:?} took {latency} ns, and its queueing and service are {parts:?} ns"
                ));
            }
        }
        Ok(())
    }
}

fn root(queue: u32) -> RootSpec {
    RootSpec { caps: Caps { operations: 1000, payload: 1 << 20 }, bounded: true, queue }
}

fn tenant(sessions: &Sessions, name: Option<&str>, reactors: usize) -> Tenant {
    let session = name.and_then(|name| sessions.named(name)).unwrap_or(sessions.root());
    Tenant::new(session, reactors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_in_which_no_command_is_submitted_any_more_ends_broken() {
        let think_ns = 1_000 * SUBMIT_NS;
        let scenario = Scenario { think_ns, ..Scenario::random(1).without_faults() };
        let broken = World::new(scenario).run().expect_err("hosts think for too long");
        assert!(broken.at > Nanos(SUBMIT_NS), "{broken}");
    }
}
