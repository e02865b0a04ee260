//! Tests of sessions, devices and flows that are added and removed. Removed objects leave nothing
//! behind, their successors inherit nothing, and the cost of a change is proportional to the
//! change.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use units::{Class, Nanos, QueueWeights};

use super::device_sessions::DeviceSessions;
use super::*;
use crate::credit::Caps;
use crate::device::DeviceRules;
use crate::limit::{Rate, Rates};
use crate::reservation::{Broker, Budget, Overrides, Reserved, Terms};
use crate::session::{HostId, Reservation, RootSpec, SessionSpec, Sessions};
use crate::settings::WindowRule;
use crate::testing::{MS, SECOND, by_place, iops, named, spec};

const ROOT: RootSpec =
    RootSpec { caps: Caps { operations: 50, payload: u64::MAX }, bounded: false, queue: u32::MAX };

/// Numbers of objects, or of places for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    sessions: usize,
    flows: usize,
    entries: usize,
    sets: usize,
    noted: usize,
    timers: usize,
}

impl<T: Copy> Arbiter<T> {
    /// Counts the objects that are there now.
    fn present(&self) -> Sizes {
        let links = |(session, _)| self.sessions.links(session);
        Sizes {
            sessions: self.sessions.iter().count(),
            flows: self.flows.sizes().0,
            entries: self.entries.sizes().0,
            sets: self.sessions.sets.check(),
            noted: self.sessions.iter().map(links).map(|links| links.blocked_at.len()).sum(),
            timers: self.timers.len(),
        }
    }

    /// Counts the places that were ever made.
    fn places(&self) -> Sizes {
        Sizes {
            sessions: self.sessions.places(),
            flows: self.flows.sizes().1,
            entries: self.entries.sizes().1,
            ..self.present()
        }
    }

    /// Checks the invariants that hold at any time.
    fn check(&self) {
        for (session, _) in self.sessions.iter() {
            let links = self.sessions.links(session);
            let noted = |device: &DeviceId| {
                self.devices.get(*device).is_some_and(|q| q.sessions.record(session).noted)
            };
            assert!(links.blocked_at.iter().all(noted), "blocked where it has nothing any more");
            let devices: std::collections::HashSet<_> = links.blocked_at.iter().collect();
            assert_eq!(devices.len(), links.blocked_at.len(), "noted twice");
        }
        if !self.is_changing() {
            self.check_settled();
        }
        for flow in self.flows.iter() {
            let queue = self.devices.get(flow.device).unwrap();
            for class in Class::ALL {
                queue.check_share(class, flow.node);
                if queue.own.has(flow.node) {
                    let first = queue.queue_of(class, flow.node).map(|waiting| waiting.first);
                    let waiting = std::iter::successors(first, |id| self.entries.behind(*id));
                    let waiting =
                        waiting.map(|id| (id, self.flows.at(self.entries.at(id).flow).own_queue));
                    queue.own.check(class, flow.node, waiting);
                }
            }
        }
        for queue in self.devices.iter() {
            queue.check_held();
            // The root's place is there from the start; its node too.
            let (nodes, places) = queue.sessions.order.sizes();
            assert!(nodes <= 3 * self.present().flows + 2 * places);
            assert!(places <= self.present().sessions.max(1));
            let DeviceSessions { due, throttled, blocked, .. } = &queue.sessions;
            assert!(due.len() + throttled.len() + blocked.len() <= places);
        }
    }

    /// Checks the invariants once all changes are carried out: the arbiter's copy of a session
    /// agrees with the session.
    fn check_settled(&self) {
        for (_, local) in self.sessions.iter() {
            let session = &local.session;
            let free = !session.line().any(|s| s.is_limited() || s.is_capped());
            assert_eq!(local.free, free, "{}", session.name());
            assert_eq!(local.limits.len(), session.line().filter(|s| s.is_limited()).count());
            let capped = session.line().filter(|s| s.is_capped()).count();
            assert_eq!(self.sessions.sets.chain(local.set).len(), capped, "{}", session.name());
        }
        for flow in self.flows.iter() {
            let queue = self.devices.get(flow.device).unwrap();
            let reserved = queue.sessions.covering(flow.session).is_some();
            let plain = self.sessions.get(flow.session).unwrap().free && !reserved;
            assert_eq!(flow.plain, plain && !queue.is_ordered() && !queue.is_bounded());
        }
    }
}

/// Returns the session, device or flow that a step chooses among the present ones.
fn one<K: Copy, V>(of: &BTreeMap<K, V>, which: u32) -> Option<K> {
    of.keys().nth(which as usize % of.len().max(1)).copied()
}

/// A target's life, on one reactor.
struct Life {
    now: Nanos,
    sessions: Sessions,
    specs: BTreeMap<u32, SessionSpec>,
    names: u32,
    arbiter: Arbiter<u64>,
    devices: BTreeMap<u32, Arc<Device>>,
    /// Arbitration features of controllers.
    controllers: [Arc<QueueWeights>; 2],
    leaving: Vec<u32>,
    flows: Vec<(u32, HostFlowId)>,
    /// Flows of devices that are on their way out.
    going: Vec<(u32, HostFlowId)>,
    /// Flows that were given up, or went with their devices.
    stale: Vec<HostFlowId>,
    grants: Vec<Grant>,
    sent: u64,
    back: u64,
    served: u64,
    most: Sizes,
}

impl Life {
    fn new() -> Self {
        let order = OrderSettings::default();
        Self {
            now: Nanos(SECOND),
            sessions: Sessions::new(&ROOT),
            specs: BTreeMap::new(),
            names: 0,
            arbiter: Arbiter::new(0, &order, Arc::new(Waiters::new(1)), 64),
            devices: BTreeMap::new(),
            controllers: [0x0502_0101, 0x07].map(|value| Arc::new(QueueWeights::new(value))),
            leaving: Vec::new(),
            flows: Vec::new(),
            going: Vec::new(),
            stale: Vec::new(),
            grants: Vec::new(),
            sent: 0,
            back: 0,
            served: 0,
            most: Sizes::default(),
        }
    }

    fn tell(&mut self) {
        drop(self.sessions.take_replaced());
        for session in self.sessions.take_touched() {
            self.arbiter.touch_session(&session);
        }
    }

    /// Adds a session below another, with a limit, a share, or nothing.
    fn add_session(&mut self, kind: u32) {
        let above = one(&self.specs, kind / 4).filter(|_| !kind.is_multiple_of(3));
        self.names += 1;
        let name = |number: u32| format!("s{number}");
        let plain = spec(&name(self.names), above.map(name).as_deref());
        let spec = match kind % 4 {
            1 => SessionSpec { operations: Some(4), ..plain },
            2 => SessionSpec { iops: Rate::per_second(1000), ..plain },
            3 => SessionSpec { writes: iops(1000), ..plain },
            _ => plain,
        };
        if self.sessions.put(self.now, &spec).is_ok() {
            self.specs.insert(self.names, spec);
        }
        self.tell();
    }

    fn remove_session(&mut self, which: u32) {
        let Some(number) = one(&self.specs, which) else { return };
        let spec = self.specs.remove(&number).unwrap();
        self.sessions.remove(self.now, &spec.name);
        let devices: Vec<u32> = self.devices.keys().copied().collect();
        for device in devices {
            self.reserve(device, |others| others.retain(|r| r.session.name() != spec.name));
        }
        for below in self.specs.values_mut().filter(|s| s.parent.as_ref() == Some(&spec.name)) {
            (below.parent, below.operations, below.payload) = (None, None, None);
        }
        self.tell();
    }

    fn change_session(&mut self, which: u32) {
        let Some(number) = one(&self.specs, which) else { return };
        let spec = self.specs.get_mut(&number).unwrap();
        let before = spec.clone();
        let toggle = |rates: Rates| if rates.is_limited() { Rates::default() } else { iops(1000) };
        match which % 5 {
            0 => spec.operations = spec.operations.is_none().then_some(3),
            1 => spec.iops = if spec.iops.is_none() { Rate::per_second(500) } else { None },
            2 => spec.payload = spec.payload.is_none().then_some(2),
            3 => spec.reads = toggle(spec.reads),
            _ => spec.writes = toggle(spec.writes),
        }
        if self.sessions.put(self.now, spec).is_err() {
            *spec = before;
        }
        self.tell();
    }

    /// Changes the reservations on a device.
    fn reserve(&mut self, device: u32, change: impl FnOnce(&mut Vec<Reservation>)) {
        let mut all = self.devices[&device].reservations().to_vec();
        change(&mut all);
        self.devices[&device].reserve(all);
        self.arbiter.touch_device(DeviceId(device));
    }

    fn change_reservation(&mut self, which: u32) {
        let Some(device) = one(&self.devices, which) else { return };
        let Some(number) = one(&self.specs, which / 3) else { return };
        let session = named(&self.sessions, &self.specs[&number].name);
        let terms = Terms::of(Budget::Operations(100), Nanos(100 * MS));
        let profile = self.devices[&device].profile().unwrap();
        let admitted = Broker::admit(&profile, &[], 20, &terms).unwrap();
        let bounded = self.devices[&device].is_bounded();
        let reserved = Arc::new(Reserved::new(self.now, &admitted).in_set(bounded));
        self.reserve(device, |all| {
            let before = all.len();
            all.retain(|one| one.session.name() != session.name());
            if all.len() == before {
                all.push(Reservation { session, reserved });
            }
        });
    }

    /// Adds a device at the lowest place that is free.
    fn add_device(&mut self, kind: u32) {
        let free = |id: &u32| !self.devices.contains_key(id) && !self.leaving.contains(id);
        let id = (0..).find(free).unwrap();
        let window =
            if kind.is_multiple_of(3) { WindowRule::Off } else { WindowRule::Fixed(1 + kind % 5) };
        let containers = by_place(8).filter(|_| kind.is_multiple_of(5));
        let (time, seeks) = (Some(Nanos(10_000)), kind.is_multiple_of(7));
        let profile = Overrides { mean: time, worst: time, parallelism: Some(8), seeks };
        let rules = DeviceRules { window, containers, profile };
        // Another reactor may use the device: then hosts' shares are counted.
        let device = Arc::new(Device::new(rules, 1 + kind as usize % 2));
        self.arbiter.add_device(DeviceId(id), Arc::clone(&device));
        self.devices.insert(id, device);
    }

    fn remove_device(&mut self, which: u32) {
        if let Some(id) = one(&self.devices, which) {
            self.reserve(id, Vec::clear);
            self.devices.remove(&id);
            self.leaving.push(id);
            let (going, stay): (Vec<_>, _) =
                self.flows.drain(..).partition(|(device, _)| *device == id);
            self.flows = stay;
            self.going.extend(going);
        }
    }

    fn add_flow(&mut self, which: u32) {
        let Some(device) = one(&self.devices, which) else { return };
        let session = match one(&self.specs, which / 7) {
            Some(number) if !which.is_multiple_of(6) => self.specs[&number].name.as_str(),
            _ => "root",
        };
        let session = named(&self.sessions, session);
        let host = HostId(u64::from(which % 3));
        let flow = match self.controllers.get(which as usize % 5) {
            Some(weights) => {
                let (weights, priority) = (Arc::clone(weights), Class::ALL[which as usize / 5 % 4]);
                let queue = WeightedQueue { qid: (which / 20 % 3) as u16, priority, weights };
                self.arbiter.flow_of_queue(DeviceId(device), &session, host, &queue)
            }
            None => self.arbiter.flow(DeviceId(device), &session, host),
        };
        let flow = flow.unwrap();
        let charged = self.arbiter.session_of(flow).unwrap();
        assert_eq!(charged.serial(), session.serial(), "the flow of another that had its place");
        self.flows.push((device, flow));
    }

    fn remove_flow(&mut self, which: u32) {
        if self.flows.is_empty() {
            return;
        }
        let (_, flow) = self.flows.swap_remove(which as usize % self.flows.len());
        self.arbiter.release(flow);
        // Others may still use the flow, or commands of it wait; else it is gone.
        if self.arbiter.flows.find(flow).is_none() {
            self.stale.push(flow);
        }
    }

    fn send(&mut self, which: u32) {
        let Some(&(_, flow)) = self.flows.get(which as usize % self.flows.len().max(1)) else {
            return;
        };
        self.sent += 1;
        let submission = Submission::of_host(self.sent, which.is_multiple_of(2), 4096);
        match self.arbiter.pass(self.now, flow, &submission) {
            Some(grant) => {
                self.served += 1;
                self.grants.push(grant);
            }
            None => {
                let class = Class::ALL[which as usize % 4];
                self.arbiter.enqueue(self.now, flow, class, submission).unwrap();
            }
        }
        if which.is_multiple_of(11) {
            self.arbiter.output(self.now, flow, Class::Low);
        }
    }

    fn complete(&mut self, which: u32) {
        if !self.grants.is_empty() {
            let grant = self.grants.swap_remove(which as usize % self.grants.len());
            self.arbiter.complete(self.now, grant, !which.is_multiple_of(8));
        }
    }

    /// Takes one turn of the reactor.
    fn turn(&mut self, steps: usize) {
        self.arbiter.settle(self.now, steps);
        let mut back = Vec::new();
        let (now, arbiter) = (self.now, &mut self.arbiter);
        self.leaving.retain(|id| !arbiter.retire_device(now, DeviceId(*id), steps, &mut back));
        let (going, gone): (Vec<_>, Vec<_>) =
            self.going.drain(..).partition(|(device, _)| self.leaving.contains(device));
        self.going = going;
        self.stale.extend(gone.into_iter().map(|(_, flow)| flow));
        self.back += back.len() as u64;
        while let Pull::Command(command) = self.arbiter.pull(self.now) {
            self.served += 1;
            self.grants.push(command.grant);
        }
        for flow in &self.stale {
            let submission = Submission::of_host((), false, 512);
            assert!(self.arbiter.pass(self.now, *flow, &submission).is_none());
            assert!(self.arbiter.session_of(*flow).is_none());
        }
        self.arbiter.check();
        let now = self.arbiter.present();
        let Sizes { sessions, flows, entries, .. } = &mut self.most;
        // A retired session keeps its place until its last command is over.
        *sessions = (*sessions).max(self.specs.len() + 1 + now.sessions + self.grants.len());
        (*flows, *entries) = ((*flows).max(now.flows), (*entries).max(now.entries));
    }

    fn step(&mut self, what: u8, which: u32, steps: usize) {
        match what {
            0 => self.add_session(which),
            1 => self.remove_session(which),
            2 => self.change_session(which),
            3 => self.add_device(which),
            4 => self.remove_device(which),
            5 | 6 => self.add_flow(which),
            7 => self.remove_flow(which),
            8..=12 => self.send(which),
            16 => self.change_reservation(which),
            _ => self.complete(which),
        }
        self.now = self.now.after(u64::from(which) * 20);
        self.turn(steps);
    }

    /// Removes all devices and sessions, with their outstanding commands.
    fn end(&mut self) {
        while let Some(device) = one(&self.devices, 0) {
            self.remove_device(device);
        }
        while !self.specs.is_empty() {
            self.remove_session(0);
        }
        let mut turns = 0;
        while !self.leaving.is_empty() || self.arbiter.is_changing() {
            self.now = self.now.after(1_000_000);
            self.turn(1);
            self.complete(turns);
            turns += 1;
            assert!(turns < 10_000, "something never leaves: {:?}", self.arbiter.present());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Objects are added and removed while commands wait, are in devices, or hold credits. No table
    /// grows beyond its peak use, all credits and window slots are returned, and nothing is left.
    #[test]
    fn removed_objects_leave_nothing_behind(
        steps in proptest::collection::vec((0u8..17, 0u32..10_000, 1usize..4), 1..400),
    ) {
        let mut life = Life::new();
        let mut all = Vec::new();
        let mut windows = Vec::new();
        for (what, which, some) in steps {
            life.step(what, which, some);
            if what == 0 {
                all.extend(life.sessions.iter().map(Arc::downgrade));
            }
            if what == 3 {
                windows.extend(life.devices.values().cloned());
            }
            // Marks among them.
            prop_assert_eq!(life.arbiter.waiting(), life.arbiter.present().entries);
        }
        life.end();
        let (left, places) = (life.arbiter.present(), life.arbiter.places());
        let timers = left.timers;
        prop_assert_eq!(left, Sizes { timers, ..Sizes::default() });
        prop_assert!(timers <= 64, "timers of removed objects: {}", timers);
        prop_assert_eq!(life.sent, life.served + life.back, "each command once");
        // A weighted queue comes with two flows, before others go in the same turn.
        prop_assert!(places.flows <= life.most.flows + 2, "{:?} {:?}", places, life.most);
        prop_assert!(places.entries <= life.most.entries + 2);
        prop_assert!(places.sessions <= 2 * life.most.sessions + 8, "{:?} {:?}", places, life.most);
        let root = life.sessions.named("root").unwrap();
        prop_assert_eq!((root.credits.used().operations, root.backlog.waiting()), (0, 0));
        let held = all.iter().filter_map(std::sync::Weak::upgrade).filter(|s| s.name() != "root");
        prop_assert_eq!(held.count(), 0, "sessions that somebody holds");
        for device in windows {
            prop_assert_eq!(device.window.held(), 0);
            prop_assert!(!device.clock.contended());
            prop_assert_eq!(device.spreads.len(), 0, "spreads of hosts that have gone");
        }
    }
}

/// Makes an arbiter in whose life `gone` sessions and devices have come and gone, with `flows`
/// flows on sessions and devices of their own.
fn used(gone: u32, flows: u32) -> Life {
    let mut life = Life::new();
    let add = |life: &mut Life, n: u32| {
        life.arbiter.add_device(DeviceId(n), Arc::new(Device::new(DeviceRules::default(), 1)));
        let name = format!("n{n}");
        life.sessions.put(life.now, &spec(&name, None)).unwrap();
        life.arbiter.flow(DeviceId(n), life.sessions.named(&name).unwrap(), HostId(1)).unwrap()
    };
    for n in 0..gone {
        let flow = add(&mut life, flows + n);
        life.arbiter.release(flow);
        life.sessions.remove(life.now, &format!("n{}", flows + n));
        assert!(life.arbiter.retire_device(life.now, DeviceId(flows + n), 10, &mut Vec::new()));
    }
    for n in 0..flows {
        let flow = add(&mut life, n);
        life.flows.push((n, flow));
    }
    life.tell();
    life.arbiter.settle(life.now, usize::MAX);
    life.arbiter.visits = 0;
    life
}

/// Counts the objects that the arbiter visits for a change.
fn work(life: &mut Life, change: impl FnOnce(&mut Life)) -> usize {
    life.arbiter.visits = 0;
    change(life);
    life.tell();
    life.arbiter.settle(life.now, usize::MAX);
    life.arbiter.visits
}

#[test]
fn change_cost_is_independent_of_table_sizes() {
    let costs = |gone, flows| {
        let life = &mut used(gone, flows);
        let limited = |name| SessionSpec { iops: Rate::per_second(10), ..spec(name, None) };
        let id = DeviceId(flows + 1);
        [
            work(life, |life| life.sessions.put(life.now, &limited("n0")).unwrap()),
            work(life, |life| {
                let order = OrderSettings { burst: 9, ..OrderSettings::default() };
                life.arbiter.set_order(&order);
            }),
            work(life, |life| {
                let device = Arc::new(Device::new(DeviceRules::default(), 1));
                life.arbiter.add_device(id, device);
            }),
            work(life, |life| {
                life.sessions.put(life.now, &spec("new", None)).unwrap();
                let session = life.sessions.named("new").unwrap();
                life.arbiter.flow(id, session, HostId(7)).unwrap();
            }),
            work(life, |life| life.arbiter.touch_device(id)),
            work(life, |life| {
                life.sessions.remove(life.now, "new");
                assert!(life.arbiter.retire_device(life.now, id, 10, &mut Vec::new()));
            }),
            // A session without flows has nothing here.
            work(life, |life| life.sessions.put(life.now, &limited("elsewhere")).unwrap()),
        ]
    };
    let few = costs(0, 1);
    assert!(few.iter().all(|cost| *cost <= 4), "{few:?}");
    assert_eq!(few[6], 0);
    for (gone, flows) in [(3, 2), (1000, 10), (10, 1000), (1000, 1000)] {
        assert_eq!(costs(gone, flows), few, "{gone} gone, {flows} there");
    }
}

#[test]
fn large_changes_complete_in_steps() {
    let mut life = used(0, 1000);
    let root = RootSpec { bounded: true, ..ROOT };
    life.sessions.set_root(life.now, &root);
    life.tell();
    let mut turns = 0;
    loop {
        let before = life.arbiter.visits;
        let more = life.arbiter.settle(life.now, 16);
        assert!(life.arbiter.visits - before <= 16);
        turns += 1;
        if !more {
            break;
        }
        // Sessions are removed during the change, including the session that the change has reached.
        let at = if turns % 2 == 0 { life.arbiter.changes.looking_at() } else { None };
        let of = |(_, flow): &(u32, HostFlowId)| {
            life.arbiter.flows.find(*flow).map(|flow| flow.session) == at
        };
        let index = life.flows.iter().position(of).unwrap_or(turns * 7 % life.flows.len());
        let (_, flow) = life.flows.swap_remove(index);
        life.arbiter.release(flow);
        assert!(turns < 1000, "it never ends");
    }
    assert!(life.flows.iter().all(|(_, flow)| !life.arbiter.is_plain(*flow)));
    assert!(turns > 50);
}
