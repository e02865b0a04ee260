//! Tests of the composed stages, on a model device that one or several reactors feed.

mod changes;
mod counted;
mod demand;
mod limits;
mod order;
mod own_order;
mod properties;
mod threads;
mod waits;
mod weights;

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use units::{Calendar, Class, Nanos};

use super::*;
use crate::credit::Caps;
use crate::device::DeviceRules;
use crate::limit::Rate;
use crate::reservation::{Reserved, Terms};
use crate::session::{HostId, Reservation, RootSpec, SessionSpec, Sessions};
use crate::settings::{OrderSettings, Unit, Weights, WindowRule};
use crate::testing::*;

/// A sender that always has `depth` commands outstanding; with 0 it sends no more.
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
    flows: Vec<HostFlowId>,
    /// Each command's source and when it came.
    commands: Vec<(usize, Nanos)>,
    in_device: Calendar<u64>,
    grants: HashMap<u64, (usize, Grant)>,
    channels: Vec<Nanos>,
    service_ns: u64,
    ns_per_kib: u64,
    /// Time that a write takes beyond a read of its size, in ns.
    write_ns: u64,
    dispatched: HashSet<u64>,
    done: Vec<u64>,
    longest_wait: Vec<u64>,
    /// The counts of the arbiters for waiting commands.
    watches: HashMap<u64, Watch>,
    /// The source of each command that waited, its wait in ns, and the reasons.
    reasons: Vec<(usize, u64, Waited)>,
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
        let rules = DeviceRules { window: rule, ..DeviceRules::default() };
        let device = Arc::new(Device::new(rules, reactors));
        let mut world = Self {
            now: Nanos(SECOND),
            arbiters: arbiters(reactors, &order, &device),
            device,
            sessions: sessions(&ROOT, specs),
            sources: Vec::new(),
            flows: Vec::new(),
            commands: Vec::new(),
            in_device: Calendar::new(),
            grants: HashMap::new(),
            channels: vec![Nanos(0); 4],
            service_ns: 100_000,
            ns_per_kib: 0,
            write_ns: 0,
            dispatched: HashSet::new(),
            done: Vec::new(),
            longest_wait: Vec::new(),
            watches: HashMap::new(),
            reasons: Vec::new(),
            next_due: Vec::new(),
            eager: None,
        };
        sources.into_iter().for_each(|source| world.add(source));
        world
    }

    fn add(&mut self, source: Source) {
        let session = self.sessions.named(source.session).unwrap();
        let flow = self.arbiters[source.reactor].flow(DEVICE, session, HostId(source.host));
        self.flows.push(flow.unwrap());
        self.sources.push(source);
        self.done.push(0);
        self.longest_wait.push(0);
        self.next_due.push(self.now);
    }

    /// Changes the sessions to what `specs` say; the arbiters carry the change out in steps.
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
        let submission = Submission::of_host(id, source.write, source.bytes);
        if let Some(grant) = arbiter.pass(self.now, self.flows[index], &submission) {
            self.start(id, source.reactor, grant);
            return;
        }
        let entry = arbiter.enqueue(self.now, self.flows[index], source.class, submission).unwrap();
        self.watches.extend(arbiter.watch(self.now, entry).map(|watch| (id, watch)));
    }

    /// Lets a source that has nothing outstanding send again.
    fn resume(&mut self, index: usize, depth: usize) {
        self.sources[index].depth = depth;
        (0..depth).for_each(|_| self.send(index));
    }

    fn start(&mut self, id: u64, reactor: usize, grant: Grant) {
        assert!(self.dispatched.insert(id), "dispatched twice");
        let (index, sent) = self.commands[usize::try_from(id).unwrap()];
        let waited = self.now.ns_since(sent);
        self.longest_wait[index] = self.longest_wait[index].max(waited);
        if let Some(watch) = self.watches.remove(&id) {
            let reasons = self.arbiters[reactor].explain(self.now, &watch);
            self.reasons.push((index, waited, reasons));
        }
        let time = self.time_of(index);
        let channel = self.channels.iter_mut().min().unwrap();
        *channel = (*channel).max(self.now).after(time);
        self.in_device.insert(*channel, id);
        self.grants.insert(id, (reactor, grant));
    }

    /// Reserves a part of the device for a session.
    fn reservation(&self, session: &str, terms: &Terms) -> Reservation {
        reservation(&named(&self.sessions, session), (self.service_ns, 4), terms)
    }

    /// Replaces all reservations of the device.
    fn reserve(&mut self, all: Vec<Reservation>) {
        self.device.reserve(all);
        for arbiter in &mut self.arbiters {
            arbiter.touch_device(DEVICE);
            arbiter.settle(self.now, usize::MAX);
        }
    }

    /// Computes the time that the device takes for a command of a source, in ns.
    fn time_of(&self, index: usize) -> u64 {
        let Source { bytes, write, .. } = self.sources[index];
        let write_ns = if write { self.write_ns } else { 0 };
        self.service_ns + u64::from(bytes / 1024) * self.ns_per_kib + write_ns
    }

    fn dispatch_all(&mut self) {
        // Reactors dispatch in turn, as if they ran side by side.
        let mut idle = 0;
        let mut reactor = 0;
        for arbiter in &mut self.arbiters {
            arbiter.settle(self.now, 3);
            arbiter.poll(self.now);
        }
        while idle < self.arbiters.len() {
            match self.arbiters[reactor].dispatch(self.now, DEVICE) {
                Some(Dispatched { item, grant, .. }) => {
                    self.start(item, reactor, grant);
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
            let price = |source: &Source| {
                // Writes may seem to cost more than reads, by what else was in the device.
                let times = if source.write { 16 } else { 1 };
                (source.bytes >> 17).max(1) * times
            };
            let largest = self.sources.iter().map(price).max().unwrap_or(0);
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
            let has_sent = self.commands.iter().any(|(source, _)| *source == index);
            if self.sources[index].rate.is_none() && !has_sent {
                self.resume(index, self.sources[index].depth);
            }
        }
        self.dispatch_all();
        loop {
            let device = self.in_device.next_time();
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
            while let Some((_, id)) = self.in_device.pop_due(self.now) {
                let (reactor, grant) = self.grants.remove(&id).unwrap();
                self.arbiters[reactor].complete(self.now, grant, true);
                let (index, _) = self.commands[usize::try_from(id).unwrap()];
                self.done[index] += 1;
                if self.sources[index].rate.is_none() && self.sources[index].depth > 0 {
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

    /// Runs for a time. Returns the commands of each source that completed in it.
    fn serve(&mut self, time_ns: u64) -> Vec<f64> {
        let before = self.done.clone();
        self.run(time_ns);
        self.done.iter().zip(before).map(|(done, before)| (done - before) as f64).collect()
    }

    /// Runs for a time in which the device is kept busy. Returns the part of each source in the
    /// commands that completed in it.
    fn parts(&mut self, case: &str, time_ns: u64) -> Vec<f64> {
        let done = self.serve(time_ns);
        let total: f64 = done.iter().sum();
        let most = time_ns as f64 / self.service_ns as f64 * self.channels.len() as f64;
        assert!(total >= 0.993 * most, "{case}: the device is kept busy: {total}");
        done.iter().map(|done| done / total).collect()
    }

    /// Adds up an amount of each source over the selected sources.
    fn sum(&self, amounts: &[f64], is_selected: impl Fn(&Source) -> bool) -> f64 {
        let of = self.sources.iter().zip(amounts).filter(|(source, _)| is_selected(source));
        of.map(|(_, amount)| amount).sum()
    }
}

/// Makes a world with the default order.
fn world(reactors: usize, window: u32, specs: &[SessionSpec], sources: Vec<Source>) -> World {
    World::new(reactors, fixed(window), OrderSettings::default(), specs, sources)
}

fn assert_close(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() <= tolerance, "{what}: {got}, not {want}");
}

fn fixed(depth: u32) -> WindowRule {
    WindowRule::Fixed(depth)
}

/// Makes the arbiter of the only reactor of a device.
fn arbiter<T: Copy>(rules: DeviceRules) -> Arbiter<T> {
    arbiters(1, &OrderSettings::default(), &Arc::new(Device::new(rules, 1))).remove(0)
}
