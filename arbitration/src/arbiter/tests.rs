//! What the composed stages guarantee, on a model device that one or several reactors feed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::credit::Caps;
use crate::device::DeviceRules;
use crate::limit::Rate;
use crate::session::{RootSpec, SessionSpec, Sessions};
use crate::settings::{OrderSettings, Unit, Weights, WindowRule};

const ROOT: RootSpec = RootSpec { caps: Caps::NONE, bounded: true, queue: u32::MAX };
const DEVICE: DeviceId = DeviceId(0);

/// Who sends commands: always `depth` of them outstanding.
#[derive(Clone, Debug)]
struct Source {
    reactor: usize,
    session: &'static str,
    host: u64,
    class: Class,
    depth: usize,
    bytes: u32,
    write: bool,
    /// Commands per second instead of `depth` outstanding ones.
    rate: Option<u64>,
}

fn source(reactor: usize, class: Class, depth: usize) -> Source {
    let host = reactor as u64 * 10 + class as u64;
    Source { reactor, session: "root", host, class, depth, bytes: 4096, write: false, rate: None }
}

/// Arbiters over one device that carries out `channels` commands at a time.
struct World {
    now: Nanos,
    arbiters: Vec<Arbiter<u64>>,
    device: Arc<Device>,
    sessions: Sessions,
    sources: Vec<Source>,
    flows: Vec<FlowId>,
    /// Each command's source and when it came.
    commands: Vec<(usize, Nanos)>,
    in_device: BinaryHeap<Reverse<(Nanos, u64)>>,
    grants: HashMap<u64, (usize, Grant)>,
    channels: Vec<Nanos>,
    service_ns: u64,
    ns_per_kib: u64,
    dispatched: HashSet<u64>,
    done: Vec<u64>,
    bytes_done: Vec<u64>,
    longest_wait: Vec<u64>,
    waits: Vec<Vec<u64>>,
    next_due: Vec<Nanos>,
    /// The reactor that always looks first, if any.
    eager: Option<usize>,
}

impl World {
    fn new(
        reactors: usize,
        rule: WindowRule,
        order: OrderSettings,
        specs: &[SessionSpec],
        sources: Vec<Source>,
    ) -> Self {
        let mut sessions = Sessions::new(&ROOT);
        sessions.apply(Nanos(0), &ROOT, specs).unwrap();
        let waiters = Arc::new(Waiters::new(reactors));
        let rules = DeviceRules { window: rule, ..DeviceRules::default() };
        let device = Arc::new(Device::new(rules, reactors));
        let arbiters = (0..reactors)
            .map(|reactor| {
                let reactor = u32::try_from(reactor).unwrap();
                let mut arbiter = Arbiter::new(reactor, &order, Arc::clone(&waiters), 1000);
                arbiter.add_device(DEVICE, Arc::clone(&device));
                arbiter
            })
            .collect();
        let count = sources.len();
        let mut world = Self {
            now: Nanos(1_000_000_000),
            arbiters,
            device,
            sessions,
            sources,
            flows: Vec::new(),
            commands: Vec::new(),
            in_device: BinaryHeap::new(),
            grants: HashMap::new(),
            channels: vec![Nanos(0); 4],
            service_ns: 100_000,
            ns_per_kib: 0,
            dispatched: HashSet::new(),
            done: vec![0; count],
            bytes_done: vec![0; count],
            longest_wait: vec![0; count],
            waits: vec![Vec::new(); count],
            next_due: vec![Nanos(1_000_000_000); count],
            eager: None,
        };
        for index in 0..count {
            let source = world.sources[index].clone();
            let session = world.sessions.named(source.session).unwrap();
            let flow = world.arbiters[source.reactor].flow(DEVICE, session, source.host);
            world.flows.push(flow.unwrap());
        }
        world
    }

    /// Makes the sessions what `specs` say; the arbiters take it in steps.
    fn apply(&mut self, root: &RootSpec, specs: &[SessionSpec]) {
        self.sessions.apply(self.now, root, specs).unwrap();
        for session in self.sessions.take_touched() {
            for arbiter in &mut self.arbiters {
                arbiter.touch_session(&session);
            }
        }
    }

    fn send(&mut self, index: usize) {
        let source = self.sources[index].clone();
        let id = self.commands.len() as u64;
        self.commands.push((index, self.now));
        let arbiter = &mut self.arbiters[source.reactor];
        if let Some(grant) = arbiter.pass(self.now, self.flows[index], source.write, source.bytes) {
            self.start(id, source.reactor, grant, 0);
            return;
        }
        let request = Request::user(id, source.write, source.bytes);
        arbiter.enqueue(self.now, self.flows[index], source.class, request).unwrap();
    }

    fn start(&mut self, id: u64, reactor: usize, grant: Grant, waited: u64) {
        assert!(self.dispatched.insert(id), "dispatched twice");
        let (index, _) = self.commands[usize::try_from(id).unwrap()];
        self.longest_wait[index] = self.longest_wait[index].max(waited);
        self.waits[index].push(waited);
        let time = self.service_ns + u64::from(self.sources[index].bytes / 1024) * self.ns_per_kib;
        let channel = self.channels.iter_mut().min().unwrap();
        *channel = (*channel).max(self.now).after(time);
        self.in_device.push(Reverse((*channel, id)));
        self.grants.insert(id, (reactor, grant));
    }

    fn dispatch_all(&mut self) {
        // In turn, as reactors that run side by side would.
        let mut idle = 0;
        let mut reactor = 0;
        for arbiter in &mut self.arbiters {
            arbiter.settle(self.now, 3);
            arbiter.poll(self.now);
        }
        while idle < self.arbiters.len() {
            match self.arbiters[reactor].dispatch(self.now, DEVICE) {
                Some(Dispatched { item, grant, waited_ns, .. }) => {
                    self.start(item, reactor, grant, waited_ns);
                    idle = 0;
                    reactor = self.eager.unwrap_or(reactor);
                }
                None => {
                    idle += 1;
                    reactor = (reactor + 1) % self.arbiters.len();
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        if let WindowRule::Fixed(depth) = self.device.rules.window {
            // A large command may go in where there is room for an ordinary one.
            let largest = self.sources.iter().map(|source| source.bytes >> 17).max().unwrap_or(0);
            let depth = depth + largest.saturating_sub(1);
            assert!(self.device.window.in_use() <= f64::from(depth) + 1e-9);
        }
        let waiting: usize = self.arbiters.iter().map(Arbiter::waiting).sum();
        assert_eq!(
            waiting + self.grants.len() + usize::try_from(self.done.iter().sum::<u64>()).unwrap(),
            self.commands.len(),
            "nothing is lost"
        );
    }

    fn run(&mut self, time_ns: u64) {
        let end = self.now.after(time_ns);
        for index in 0..self.sources.len() {
            let open = self.commands.iter().filter(|(source, _)| *source == index).count();
            if self.sources[index].rate.is_none() && open == 0 {
                for _ in 0..self.sources[index].depth {
                    self.send(index);
                }
            }
        }
        self.dispatch_all();
        loop {
            let device = self.in_device.peek().map(|Reverse((when, _))| *when);
            let due = (0..self.sources.len())
                .filter(|index| self.sources[*index].rate.is_some())
                .map(|index| self.next_due[index])
                .min();
            let timer = self.arbiters.iter().filter_map(Arbiter::next_timer).min();
            let Some(next) = [device, due, timer].into_iter().flatten().min() else { break };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            while let Some(&Reverse((when, id))) = self.in_device.peek() {
                if when > self.now {
                    break;
                }
                self.in_device.pop();
                let (reactor, grant) = self.grants.remove(&id).unwrap();
                self.arbiters[reactor].complete(self.now, grant, true);
                let (index, _) = self.commands[usize::try_from(id).unwrap()];
                self.done[index] += 1;
                self.bytes_done[index] += u64::from(self.sources[index].bytes);
                if self.sources[index].rate.is_none() {
                    self.send(index);
                }
            }
            for index in 0..self.sources.len() {
                if let Some(rate) = self.sources[index].rate
                    && self.next_due[index] <= self.now
                {
                    self.next_due[index] = self.next_due[index].after(1_000_000_000 / rate);
                    self.send(index);
                }
            }
            self.dispatch_all();
        }
        self.now = end;
    }

    fn done_by(&self, class: Class) -> f64 {
        let of = |(index, source): (usize, &Source)| {
            if source.class == class { self.done[index] } else { 0 }
        };
        self.sources.iter().enumerate().map(of).sum::<u64>() as f64
    }

    fn bytes_by(&self, class: Class) -> f64 {
        let of = |(index, source): (usize, &Source)| {
            if source.class == class { self.bytes_done[index] } else { 0 }
        };
        self.sources.iter().enumerate().map(of).sum::<u64>() as f64
    }
}

fn assert_close(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() <= tolerance, "{what}: {got}, not {want}");
}

fn fixed(depth: u32) -> WindowRule {
    WindowRule::Fixed(depth)
}

fn spec(name: &str, parent: Option<&str>) -> SessionSpec {
    SessionSpec {
        name: name.to_owned(),
        parent: parent.map(str::to_owned),
        ..SessionSpec::default()
    }
}

#[test]
fn e5_backlogged_classes_share_by_weight_with_one_reactor_and_with_several() {
    use Class::{High, Low, Medium};
    // (reactor, class, depth): together; each on its own reactor; spread unevenly.
    type Given = Vec<(usize, Class, usize)>;
    let worlds: [(usize, Given); 4] = [
        (1, vec![(0, High, 64), (0, Medium, 64), (0, Low, 64)]),
        (2, vec![(0, High, 64), (1, Medium, 64), (0, Low, 64)]),
        (2, vec![(0, High, 64), (1, High, 16), (1, Medium, 64), (1, Low, 128)]),
        (3, vec![(2, High, 32), (0, Medium, 64), (1, Low, 128), (2, Low, 8)]),
    ];
    for (reactors, sources) in worlds {
        for (weights, window) in [((3, 2, 1), 8), ((16, 4, 1), 4), ((1, 1, 1), 16)] {
            let order = OrderSettings {
                weights: Weights { high: weights.0, medium: weights.1, low: weights.2 },
                ..OrderSettings::default()
            };
            let list = sources.iter().map(|(r, c, d)| source(*r, *c, *d)).collect();
            let mut world = World::new(reactors, fixed(window), order, &[], list);
            world.run(2_000_000_000);
            let total = world.done.iter().sum::<u64>() as f64;
            assert!(total >= 79_000.0, "the device is kept busy: {total}");
            let sum = f64::from(weights.0 + weights.1 + weights.2);
            for (class, weight) in [(High, weights.0), (Medium, weights.1), (Low, weights.2)] {
                let name = format!("{class} of {weights:?} with {reactors} reactors");
                assert_close(&name, world.done_by(class) / total, f64::from(weight) / sum, 0.02);
            }
        }
    }
}

#[test]
fn d4_hosts_of_one_class_share_whichever_reactor_serves_them() {
    // Three hosts at one reactor, one at another; the first refills the window whenever it can.
    let host = |reactor, host, depth| Source { host, ..source(reactor, Class::Low, depth) };
    let list = vec![host(0, 1, 128), host(0, 2, 128), host(0, 3, 128), host(1, 4, 128)];
    let mut world = World::new(2, fixed(8), OrderSettings::default(), &[], list);
    world.eager = Some(0);
    world.run(2_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    assert!(total >= 79_000.0, "the device is kept busy: {total}");
    for done in &world.done {
        assert_close("a host's share", *done as f64 / total, 0.25, 0.02);
    }
}

#[test]
fn e5_bytes_share_by_weight_whatever_the_sizes() {
    let order = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
    let mut sources =
        vec![source(0, Class::High, 64), source(0, Class::Medium, 64), source(0, Class::Low, 64)];
    (sources[0].bytes, sources[1].bytes, sources[2].bytes) = (4096, 131_072, 32_768);
    let mut world = World::new(1, fixed(8), order, &[], sources);
    world.ns_per_kib = 5000;
    world.run(20_000_000_000);
    let low = world.bytes_by(Class::Low);
    assert_close("High : Low", world.bytes_by(Class::High) / low, 3.0, 0.02);
    assert_close("Medium : Low", world.bytes_by(Class::Medium) / low, 2.0, 0.02);
}

#[test]
fn work_is_conserved_when_a_class_is_idle() {
    let list = vec![source(0, Class::Low, 64)];
    let mut alone = World::new(2, fixed(8), OrderSettings::default(), &[], list);
    alone.run(1_000_000_000);
    // A High class that asks for next to nothing, at another reactor.
    let mut high = source(1, Class::High, 1);
    high.rate = Some(100);
    let list = vec![source(0, Class::Low, 64), high];
    let mut world = World::new(2, fixed(8), OrderSettings::default(), &[], list);
    world.run(1_000_000_000);
    let share = world.done[0] as f64 / alone.done[0] as f64;
    assert!(share >= 0.95, "Low gets {share} of the device");
}

#[test]
fn e5_urgent_within_its_share_waits_for_nobody_and_starves_nobody() {
    // Urgent asks for 10 % of 40,000 commands per second; the rest is flooded.
    let mut urgent = source(0, Class::Urgent, 1);
    urgent.rate = Some(4000);
    let list = vec![urgent, source(0, Class::High, 128), source(0, Class::Low, 128)];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &[], list);
    world.run(1_000_000_000);
    // It waits for a place in the window, and for its own commands that came just before.
    assert!(world.longest_wait[0] <= 2 * world.service_ns, "{} ns", world.longest_wait[0]);
    // Urgent floods too: it has its share, and High's weight beyond.
    let list = vec![
        source(0, Class::Urgent, 256),
        source(0, Class::High, 128),
        source(0, Class::Medium, 128),
        source(0, Class::Low, 128),
    ];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &[], list);
    world.run(2_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    // (1 - 0.2) / (3 + 3 + 2 + 1).
    assert_close("Low under an Urgent flood", world.done_by(Class::Low) / total, 0.8 / 9.0, 0.02);
    // 128 of its own before it, each once in 11.25 commands.
    let bound = 129.0 * 11.25 * 25_000.0 * 1.1;
    assert!((world.longest_wait[3] as f64) < bound, "{} ns", world.longest_wait[3]);
}

#[test]
fn d1_sessions_are_polled_in_turn_and_d4_hosts_share_by_deficit() {
    let specs = [spec("a", None), spec("b", None), spec("b1", Some("b")), spec("b2", Some("b"))];
    let from = |session, host, depth| Source { session, host, ..source(0, Class::Low, depth) };
    let list = vec![
        from("a", 1, 100),
        from("a", 2, 3),
        from("b1", 3, 20),
        from("b2", 4, 20),
        from("b2", 5, 200),
    ];
    let mut world = World::new(1, fixed(2), OrderSettings::default(), &specs, list);
    world.run(1_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    for (index, share) in [(0, 0.25), (1, 0.25), (2, 0.25), (3, 0.125), (4, 0.125)] {
        // Three outstanding are too few to be backlogged for bursts of four.
        let tolerance = if index < 2 { 0.35 } else { 0.02 };
        assert_close("share", world.done[index] as f64 / total, share, tolerance);
    }
}

#[test]
fn d4_a_giant_neither_blocks_the_small_nor_is_starved() {
    let order = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
    let mut giant = source(0, Class::Low, 8);
    (giant.bytes, giant.host) = (1 << 20, 7);
    let list = vec![giant, source(0, Class::Low, 64)];
    let mut world = World::new(1, fixed(16), order, &[], list);
    world.ns_per_kib = 1000;
    world.run(5_000_000_000);
    let (big, small) = (world.bytes_done[0] as f64, world.bytes_done[1] as f64);
    assert!(big / small > 0.9 && big / small < 1.1, "{big} {small}");
}

#[test]
fn d2_credits_bound_what_is_in_flight_and_come_back() {
    let specs = [
        SessionSpec { operations: Some(30), ..spec("a", None) },
        SessionSpec { payload: Some(50), ..spec("b", None) },
    ];
    let root = RootSpec { caps: Caps { operations: 10, payload: 100 }, bounded: true, queue: 100 };
    let from = |reactor, session, bytes| Source {
        session,
        bytes,
        host: reactor as u64,
        ..source(reactor, Class::Low, 32)
    };
    let list = vec![from(0, "a", 4096), from(1, "a", 4096), from(0, "b", 16_384)];
    let mut world = World::new(2, WindowRule::Off, OrderSettings::default(), &specs, list);
    world.apply(&root, &specs);
    world.channels = vec![Nanos(0); 100];
    for _ in 0..2000 {
        world.run(100_000);
        let held = |session: &str| {
            let of = |grant: &&(usize, Grant)| {
                grant.1.session() == world.sessions.named(session).unwrap().id()
            };
            world.grants.values().filter(of).count()
        };
        assert!(held("a") <= 3, "30 % of 10 operations");
        assert!(held("b") <= 3, "50 % of 100 KiB in commands of 16 KiB");
        assert!(held("a") + held("b") <= 10);
    }
    // The device would take more: credits are what is used up, all the time.
    let a = world.done[0] + world.done[1];
    assert!(a as f64 >= 0.95 * 3.0 * 2000.0, "three at a time, 100 us each: {a}");
}

#[test]
fn d1_limits_hold_for_a_session_and_all_below_it() {
    for rate in [1u64, 10, 1000, 20_000] {
        let specs = [
            SessionSpec { iops: Rate::per_second(rate), ..spec("pool", None) },
            spec("one", Some("pool")),
            spec("two", Some("pool")),
        ];
        let from = |session, reactor| Source {
            session,
            host: reactor as u64,
            ..source(reactor, Class::High, 64)
        };
        let free = source(0, Class::Low, 64);
        let list = vec![from("one", 0), from("two", 1), free];
        let mut world = World::new(2, fixed(8), OrderSettings::default(), &specs, list);
        let mut last = 0;
        for second in 0..5 {
            world.run(1_000_000_000);
            let done = world.done[0] + world.done[1];
            let slack = (rate as f64 * 0.02).max(2.0);
            let got = (done - last) as f64;
            assert!((got - rate as f64).abs() <= slack, "second {second}: {got} of {rate}");
            last = done;
        }
        let total = world.done.iter().sum::<u64>() as f64;
        assert!(total >= 5.0 * 39_000.0, "others have the rest: {total}");
    }
}

#[test]
fn d1_a_limit_is_reached_beside_a_flood_of_the_same_class() {
    for rate in [500u64, 3000] {
        let specs = [SessionSpec { iops: Rate::per_second(rate), ..spec("a", None) }];
        let capped = Source { session: "a", host: 2, ..source(0, Class::High, 32) };
        let flood = source(0, Class::High, 512);
        let list = vec![capped, flood, source(0, Class::Low, 64)];
        let mut world = World::new(1, fixed(4), OrderSettings::default(), &specs, list);
        // 4,000 commands per second, of which 3,000 are High's and 1,500 a session's.
        world.service_ns = 1_000_000;
        world.run(5_000_000_000);
        let got = world.done[0] as f64 / 5.0;
        assert_close("the limit or the fair share", got, (rate as f64).min(1500.0), 0.02);
    }
}

#[test]
fn a_plan_takes_effect_while_commands_wait() {
    let specs = [spec("a", None), spec("b", None)];
    let from = |session, class| Source { session, ..source(0, class, 64) };
    let list = vec![from("a", Class::High), from("b", Class::Low)];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &specs, list);
    world.run(1_000_000_000);
    assert_close("3:1", world.done[0] as f64 / world.done[1] as f64, 3.0, 0.02);
    // Other weights; and the sessions are gone altogether.
    let order = OrderSettings {
        weights: Weights { high: 1, medium: 1, low: 4 },
        ..OrderSettings::default()
    };
    world.apply(&ROOT, &[]);
    world.arbiters[0].set_order(&order);
    let before = world.done.clone();
    world.run(1_000_000_000);
    let ratio = (world.done[0] - before[0]) as f64 / (world.done[1] - before[1]) as f64;
    assert_close("1:4", ratio, 0.25, 0.02);
}

#[test]
fn what_is_withdrawn_is_gone_and_leaves_no_trace() {
    let specs = [SessionSpec { operations: Some(1), ..spec("a", None) }];
    let mut world = World::new(1, fixed(1), OrderSettings::default(), &specs, Vec::new());
    let session = world.sessions.named("a").unwrap();
    let arbiter = &mut world.arbiters[0];
    let flow = arbiter.flow(DEVICE, session, 1).unwrap();
    let entries: Vec<EntryId> = (0..10)
        .map(|n| {
            arbiter.enqueue(Nanos(1), flow, Class::Medium, Request::user(n, false, 4096)).unwrap()
        })
        .collect();
    for (n, entry) in entries.iter().enumerate() {
        if n % 2 == 1 {
            assert_eq!(arbiter.cancel(*entry), Some(n as u64));
            assert_eq!(arbiter.cancel(*entry), None);
        }
    }
    let mut order = Vec::new();
    while let Some(command) = arbiter.dispatch(Nanos(2), DEVICE) {
        order.push(command.item);
        arbiter.complete(Nanos(3), command.grant, true);
        arbiter.poll(Nanos(3));
    }
    assert_eq!(order, [0, 2, 4, 6, 8], "first come, first served");
    assert_eq!(session.backlog.waiting(), 0);
    assert_eq!(session.credits.used().operations, 0);
    assert!(!world.device.clock.contended());
    arbiter.release(flow);
    assert!(arbiter.retire_device(DEVICE, 0, &mut Vec::new()));
}

#[test]
fn sessions_that_go_with_their_parents_take_their_commands_to_the_end() {
    let specs = [
        SessionSpec { operations: Some(10), ..spec("a", None) },
        spec("b", Some("a")),
        spec("c", Some("b")),
    ];
    let list = vec![Source { session: "c", ..source(0, Class::High, 64) }];
    let mut world = World::new(1, fixed(2), OrderSettings::default(), &specs, list);
    world.run(1_000_000);
    for specs in [&specs[..0], &specs[..1], &specs[..0]] {
        world.apply(&ROOT, specs);
        let before = world.done[0];
        world.run(10_000_000);
        assert!(world.done[0] > before, "they stand still");
    }
}

#[test]
fn a_reactor_held_back_for_a_class_elsewhere_is_woken_when_that_goes() {
    let list = vec![source(0, Class::High, 1), source(1, Class::Low, 1)];
    let mut world = World::new(2, WindowRule::Off, OrderSettings::default(), &[], list);
    let [high, low] = [world.flows[0], world.flows[1]];
    let request = |n| Request::user(n, false, 4096);
    let entry = world.arbiters[1].enqueue(Nanos(1), low, Class::Low, request(0)).unwrap();
    let mut grants = Vec::new();
    for n in 0.. {
        world.arbiters[0].enqueue(Nanos(1), high, Class::High, request(n)).unwrap();
        let Some(command) = world.arbiters[0].dispatch(Nanos(1), DEVICE) else { break };
        grants.push(command.grant);
        assert!(n < 100_000, "High is never held back");
    }
    for grant in grants {
        world.arbiters[0].complete(Nanos(2), grant, true);
    }
    assert!(matches!(world.arbiters[0].pull_before_sleep(Nanos(2)), Pull::Nothing));
    assert_eq!(world.arbiters[1].cancel(entry), Some(0));
    let Pull::Wake(mut wake) = world.arbiters[1].pull(Nanos(2)) else { panic!("nobody wakes it") };
    assert_eq!((wake.next(), wake.next()), (Some(0), None));
    assert!(matches!(world.arbiters[1].pull(Nanos(2)), Pull::Nothing), "it is said once");
    assert!(matches!(world.arbiters[0].pull(Nanos(3)), Pull::Command(_)));
}

#[test]
fn a_flow_ends_with_its_device_and_is_none_of_the_next_in_its_place() {
    let specs = [spec("a", None), spec("b", None)];
    let from = |session, host| Source { session, host, ..source(0, Class::High, 1) };
    let list = vec![from("a", 1), from("b", 2), from("b", 3)];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &specs, list);
    let flows = world.flows.clone();
    let request = |n| Request::user(n, false, 512);
    let arbiter = &mut world.arbiters[0];
    let first = arbiter.pass(Nanos(1), flows[2], false, 512).unwrap();
    for n in 0..5 {
        arbiter.enqueue(Nanos(1), flows[0], Class::Low, request(n)).unwrap();
    }
    // In steps: two flows, five commands that wait, and their flow; then what is in the device.
    let mut back = Vec::new();
    assert!(!arbiter.retire_device(DEVICE, 5, &mut back));
    assert_eq!(back, [0, 1, 2]);
    let b = world.sessions.named("b").unwrap();
    assert!(arbiter.flow(DEVICE, b, 9).is_none(), "nothing new comes");
    assert!(!arbiter.retire_device(DEVICE, 100, &mut back));
    assert_eq!(back, [0, 1, 2, 3, 4]);
    assert!(arbiter.device(DEVICE).is_some(), "a command is in it");
    arbiter.complete(Nanos(2), first, true);
    assert!(arbiter.retire_device(DEVICE, 0, &mut back));
    assert!(arbiter.device(DEVICE).is_none());
    arbiter.add_device(DEVICE, Arc::new(Device::new(DeviceRules::default(), 1)));
    let fresh = arbiter.flow(DEVICE, b, 2).unwrap();
    for flow in flows {
        assert!(arbiter.enqueue(Nanos(3), flow, Class::Low, request(7)).is_none());
        assert!(arbiter.pass(Nanos(3), flow, false, 512).is_none());
        assert!(arbiter.session_of(flow).is_none() && !arbiter.is_plain(flow));
        arbiter.release(flow);
    }
    let grant = arbiter.pass(Nanos(4), fresh, false, 512).expect("others' flows are untouched");
    arbiter.complete(Nanos(5), grant, true);
    arbiter.release(fresh);
    assert!(arbiter.retire_device(DEVICE, 0, &mut back));
}

/// One of two reactors on threads of their own: sends `commands`, keeps them in the device for a
/// few turns, sleeps when it can do nothing, and is told by `doorbells` when it can again.
fn react(
    reactor: usize,
    mut arbiter: Arbiter<u64>,
    session: &Arc<Session>,
    commands: u64,
    doorbells: &[std::sync::atomic::AtomicBool; 2],
) -> u64 {
    use std::sync::atomic::Ordering::SeqCst;
    let clock = std::time::Instant::now();
    let flow = arbiter.flow(DEVICE, session, reactor as u64).unwrap();
    let mut in_device = std::collections::VecDeque::new();
    let mut seen = HashSet::new();
    let (mut sent, mut turn) = (0, 0);
    loop {
        turn += 1;
        let now = Nanos(u64::try_from(clock.elapsed().as_nanos()).unwrap());
        while sent < commands && arbiter.waiting() < 8 {
            let class = Class::ALL[usize::try_from(sent % 4).unwrap()];
            let bytes = if sent % 7 == 0 { 300_000 } else { 4096 };
            arbiter.enqueue(now, flow, class, Request::user(sent, false, bytes)).unwrap();
            sent += 1;
        }
        // Whether to pull again.
        let mut serve = |pull, in_device: &mut std::collections::VecDeque<_>| match pull {
            Pull::Command(command) => {
                assert_eq!(command.device, DEVICE);
                assert!(seen.insert(command.item), "dispatched twice");
                in_device.push_back((turn + command.item % 3, command.grant));
                true
            }
            Pull::Wake(reactors) => {
                for other in reactors {
                    doorbells[other as usize].store(true, SeqCst);
                }
                true
            }
            Pull::Later(_) | Pull::Nothing => false,
        };
        while serve(arbiter.pull(now), &mut in_device) {}
        while in_device.front().is_some_and(|(due, _)| *due <= turn) {
            let (_, grant) = in_device.pop_front().unwrap();
            arbiter.complete(now, grant, true);
        }
        if sent == commands && arbiter.waiting() == 0 && in_device.is_empty() {
            while serve(arbiter.pull(now), &mut in_device) {}
            return seen.len() as u64;
        }
        if in_device.is_empty() && arbiter.waiting() > 0 {
            if serve(arbiter.pull_before_sleep(now), &mut in_device) {
                continue;
            }
            // Nobody but the other reactor can make room now, and it must say so.
            let slept = std::time::Instant::now();
            while !doorbells[reactor].swap(false, SeqCst) {
                assert!(slept.elapsed().as_secs() < 20, "reactor {reactor} is never woken");
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn reactors_on_threads_lose_no_command_and_no_wake_up() {
    const COMMANDS: u64 = 20_000;
    let specs = [SessionSpec { operations: Some(20), ..spec("a", None) }, spec("b", None)];
    let root =
        RootSpec { caps: Caps { operations: 10, payload: u64::MAX }, bounded: true, queue: 1000 };
    for (window, names) in [(2, ["a", "a"]), (1, ["b", "b"]), (3, ["a", "b"])] {
        let mut world = World::new(2, fixed(window), OrderSettings::default(), &specs, Vec::new());
        world.apply(&root, &specs);
        let sessions = &world.sessions;
        let doorbells = Default::default();
        let seen: u64 = std::thread::scope(|threads| {
            let arbiters = world.arbiters.drain(..).enumerate();
            let running: Vec<_> = arbiters
                .map(|(reactor, mut arbiter)| {
                    arbiter.settle(Nanos(0), usize::MAX);
                    let session = sessions.named(names[reactor]).unwrap();
                    let doorbells = &doorbells;
                    threads.spawn(move || react(reactor, arbiter, session, COMMANDS, doorbells))
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(seen, 2 * COMMANDS);
        assert_eq!(world.device.window.held(), 0);
        assert!(!world.device.clock.contended());
        for session in sessions.iter() {
            assert_eq!(session.credits.used().operations, 0, "{}", session.name());
            assert_eq!(session.backlog.waiting(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whoever waits is served after a number of others that depends on the weights, the sessions
    /// and the hosts, but not on how much any of them sends.
    #[test]
    fn d4_no_command_waits_longer_than_its_bound(
        floods in proptest::collection::vec((0usize..3, 1u64..6, 0usize..3, 1usize..200), 1..8),
        victim in (0usize..3, 0usize..3),
        window in 1u32..8,
    ) {
        const SESSIONS: [&str; 3] = ["a", "b", "c"];
        const CLASSES: [Class; 3] = [Class::High, Class::Medium, Class::Low];
        let specs = [spec("a", None), spec("b", Some("a")), spec("c", None)];
        let mut list: Vec<Source> = floods
            .iter()
            .map(|(session, host, class, depth)| Source {
                session: SESSIONS[*session],
                host: *host,
                ..source(0, CLASSES[*class], *depth)
            })
            .collect();
        let hosts = list.len() as u64;
        list.push(Source {
            session: SESSIONS[victim.0],
            host: 99,
            ..source(0, CLASSES[victim.1], 1)
        });
        let mut world = World::new(1, fixed(window), OrderSettings::default(), &specs, list);
        world.channels = vec![Nanos(0); window as usize];
        world.run(500_000_000);
        let last = world.longest_wait.len() - 1;
        // One burst for each host and each level of sessions, in its class; for each of these the
        // other classes have at most (3 + 2) commands, and a burst.
        let burst = u64::from(OrderSettings::default().burst);
        let turns = (hosts + 1) * 3 * burst;
        let commands = turns * 6 + 16;
        let per_command = world.service_ns / u64::from(window);
        let bound = commands * per_command + 2 * world.service_ns;
        prop_assert!(world.longest_wait[last] <= bound, "{} > {bound}", world.longest_wait[last]);
        prop_assert!(world.done[last] > 0);
    }

    /// Any history of changes: nothing is lost, nothing is dispatched twice, credits come back.
    #[test]
    fn nothing_is_lost_whatever_changes(
        steps in proptest::collection::vec((0u8..6, 0usize..4, 1u64..2_000_000), 1..60),
        window in 1u32..20,
    ) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let base: Vec<SessionSpec> = NAMES.iter().map(|name| spec(name, None)).collect();
        let list = (0..8)
            .map(|n| Source {
                session: NAMES[n % 4],
                host: n as u64,
                write: n % 3 == 0,
                ..source(n % 2, Class::ALL[n % 4], 1 + n * 5)
            })
            .collect();
        let mut world = World::new(2, fixed(window), OrderSettings::default(), &base, list);
        let mut specs = base;
        for (what, which, ns) in steps {
            let one = &mut specs[which];
            match what {
                0 => one.operations = (one.operations.is_none()).then_some(25),
                1 => one.iops = Rate::per_second(ns),
                2 => one.iops = None,
                3 => one.parent = (which > 0).then(|| NAMES[which - 1].to_owned()),
                4 => one.parent = None,
                _ => one.payload = (one.payload.is_none()).then_some(20),
            }
            let root = RootSpec { caps: Caps { operations: 40, payload: 400 }, bounded: true, queue: 64 };
            world.apply(&root, &specs);
            world.run(ns);
        }
        // All limits away: everything that was sent comes to its end.
        for one in &mut specs {
            (one.iops, one.operations, one.payload) = (None, None, None);
        }
        world.apply(&ROOT, &specs);
        for source in &mut world.sources {
            source.rate = Some(1);
        }
        world.next_due = vec![Nanos::MAX; world.sources.len()];
        world.run(100_000_000_000);
        prop_assert_eq!(world.done.iter().sum::<u64>(), world.commands.len() as u64);
        prop_assert!(world.device.window.in_use() == 0.0);
        for session in world.sessions.iter() {
            let used = session.credits.used();
            prop_assert_eq!((used.operations, used.payload), (0, 0), "{}", session.name());
            prop_assert_eq!(session.backlog.waiting(), 0);
        }
        prop_assert!(!world.device.clock.contended());
    }
}

/// Commands in the set that is ordered by place hold credits; they give them back to those they
/// have them of, whatever plan has come meanwhile.
#[test]
fn credits_of_a_set_come_back_after_a_new_plan() {
    let mut sessions = Sessions::new(&ROOT);
    let capped = |name: &str| SessionSpec { operations: Some(40), ..spec(name, None) };
    let root = RootSpec {
        caps: Caps { operations: 1000, payload: u64::MAX },
        bounded: true,
        queue: u32::MAX,
    };
    sessions.apply(Nanos(0), &root, &[capped("a"), capped("b")]).unwrap();
    let rules = DeviceRules {
        window: WindowRule::Fixed(1),
        containers: Some(crate::device::ContainerRules {
            scheduler: crate::container::Scheduler::Containers,
            capacity: 64,
            deadline_ns: 20_000_000,
        }),
        ..DeviceRules::default()
    };
    let device = Arc::new(Device::new(rules, 1));
    let order = OrderSettings::default();
    let mut arbiter: Arbiter<u64> = Arbiter::new(0, &order, Arc::new(Waiters::new(1)), 100);
    arbiter.add_device(DEVICE, device);
    let now = Nanos(1_000_000_000);
    for (host, name) in (0..).zip(["a", "b"]) {
        let flow = arbiter.flow(DEVICE, sessions.named(name).unwrap(), host).unwrap();
        for item in 0..10 {
            arbiter.enqueue(now, flow, Class::Low, Request::user(item, false, 4096)).unwrap();
        }
    }
    let first = arbiter.dispatch(now, DEVICE).unwrap();
    let less = |name: &str| SessionSpec { operations: Some(30), ..spec(name, None) };
    sessions.apply(now, &root, &[less("a"), spec("b", None)]).unwrap();
    for session in sessions.take_touched() {
        arbiter.touch_session(&session);
    }
    arbiter.settle(now, usize::MAX);
    arbiter.complete(now, first.grant, true);
    let mut count = 1;
    while let Some(next) = arbiter.dispatch(now, DEVICE) {
        arbiter.complete(now, next.grant, true);
        count += 1;
    }
    assert_eq!(count, 20);
    for name in ["a", "b", "root"] {
        let session = sessions.named(name).unwrap();
        assert_eq!(session.credits.used().operations, 0, "credits of {name} in use");
    }
}
