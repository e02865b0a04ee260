//! Reservations beside floods, on devices that keep a queue of their own (docs/research/sources.md, F3:
//! reservations are kept). Service is read from the host's own log of completions, never from the
//! arbiter.

mod property;
mod table;

use std::collections::VecDeque;

use super::*;
use crate::memory::{MemoryFlowId, MemoryGate, MemoryGrant};
use crate::reservation::{Admitted, Broker, Cause, Occupancy, Overrides, Profile};
use crate::session::Session;

const START: Nanos = Nanos(SECOND);

/// A host that always has `depth` commands outstanding, but for the time that it thinks.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) class: Class,
    pub(super) depth: u64,
    /// Time from a completion to the next command, in ns.
    pub(super) think: u64,
    pub(super) reactor: usize,
    pub(super) bytes: u32,
    pub(super) write: bool,
    /// The tenant whose session and host these are, too; `None`: they are its own.
    pub(super) of: Option<usize>,
}

/// A device that carries commands out in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) service: u64,
    pub(super) channels: usize,
    pub(super) seeks: bool,
    pub(super) window: u32,
    pub(super) reactors: usize,
}

impl Model {
    /// Returns how long the device takes for a command, in ns.
    pub(super) fn takes(&self, bytes: u32) -> u64 {
        let each = Profile::default().per_kib.read * self.channels as u64;
        self.service + each * u64::from(bytes.div_ceil(1024).saturating_sub(4))
    }

    fn device(&self, overrides: Overrides) -> Arc<Device> {
        let window = WindowRule::Fixed(self.window);
        let rules = DeviceRules { window, profile: overrides, ..DeviceRules::default() };
        Arc::new(Device::new(rules, self.reactors))
    }

    /// Makes a device that was measured for a second before the start, with reads of 4 KiB, always `depth` of them.
    pub(super) fn measured(&self, depth: u32) -> Arc<Device> {
        let device = self.device(Overrides::default());
        let waves = u64::from(depth).div_ceil(self.channels as u64);
        let takes = self.service * waves;
        for n in 1..=2000 {
            let begin = Nanos(n * (SECOND - takes) / 2000);
            let (end, steady) = (begin.after(takes), Occupancy::steady(depth));
            device.profiler.record(end, false, 4096, begin, steady);
        }
        device
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A host sends a command.
    Send(usize),
    /// The data of a command is here.
    Data(u64),
    /// A channel has carried a command out.
    Done(u64),
}

/// The memory of each reactor for the data of commands.
struct Memory {
    gates: Vec<MemoryGate<u64>>,
    flows: Vec<MemoryFlowId>,
    /// Time in ns until a host has sent the data for which there is memory.
    sends: u64,
}

/// A command of a host.
struct Sent {
    host: usize,
    arrived: Nanos,
    /// The grant while the command is in the device.
    grant: Option<Grant>,
    memory: Option<MemoryGrant>,
    announced: Option<Announced>,
}

/// Hosts, reactors and a device. The first hosts are the tenants.
pub(super) struct Lab {
    model: Model,
    now: Nanos,
    arbiters: Vec<Arbiter<u64>>,
    hosts: Vec<Host>,
    flows: Vec<HostFlowId>,
    sessions: Vec<Arc<Session>>,
    memory: Option<Memory>,
    events: Calendar<Event>,
    queue: VecDeque<u64>,
    idle: usize,
    /// The next time at which a reactor goes on by itself.
    timer: Option<Nanos>,
    commands: Vec<Sent>,
    /// Times at which each host's commands were complete: its own log.
    pub(super) logs: Vec<Vec<Nanos>>,
    pub(super) device: Arc<Device>,
    /// The reservations of the tenants.
    pub(super) reserved: Vec<Arc<Reserved>>,
    admitted: Vec<Admitted>,
}

impl Lab {
    /// Makes a tenant that reserves `operations` a second, and other hosts.
    pub(super) fn new(model: Model, operations: u64, hosts: Vec<Host>) -> Self {
        Self::several(model, &[(operations, SessionSpec::default())], hosts)
    }

    /// Makes tenants: each reserves so many commands a second, and has the limits of its session. Tenants without a
    /// reservation come last.
    pub(super) fn several(model: Model, tenants: &[(u64, SessionSpec)], hosts: Vec<Host>) -> Self {
        let overrides = Overrides {
            mean: Some(Nanos(model.service)),
            worst: Some(Nanos(model.service / 8 * 9)),
            parallelism: Some(u32::try_from(model.channels).unwrap()),
            seeks: model.seeks,
        };
        Self::on(model, model.device(overrides), tenants, hosts)
    }

    /// Makes tenants of a `device` that is known well enough for their reservations.
    pub(super) fn on(
        model: Model,
        device: Arc<Device>,
        tenants: &[(u64, SessionSpec)],
        hosts: Vec<Host>,
    ) -> Self {
        let spec = |n: usize| {
            let limits = tenants.get(n).map(|(_, limits)| limits.clone()).unwrap_or_default();
            SessionSpec { name: n.to_string(), ..limits }
        };
        let specs: Vec<SessionSpec> = (0..hosts.len()).map(spec).collect();
        let sessions = sessions(&ROOT, &specs);
        let mut admitted = Vec::new();
        for (operations, _) in tenants.iter().filter(|(operations, _)| *operations > 0) {
            let (terms, profile) = (per_second(*operations), device.profile().unwrap());
            admitted.push(Broker::admit(&profile, &admitted, 20, &terms).unwrap());
        }
        let named = |n: usize| named(&sessions, &n.to_string());
        let reservation = |(n, one)| Reservation {
            session: named(n),
            reserved: Arc::new(Reserved::new(START, one).in_set(device.is_bounded())),
        };
        let reservations: Vec<_> = admitted.iter().enumerate().map(reservation).collect();
        let reserved = reservations.iter().map(|one| Arc::clone(&one.reserved)).collect();
        device.reserve(reservations);
        let mut arbiters = arbiters(model.reactors, &OrderSettings::default(), &device);
        let session = |(n, host): (usize, &Host)| named(host.of.unwrap_or(n));
        let sessions: Vec<_> = hosts.iter().enumerate().map(session).collect();
        let flow = |(n, host): (usize, &Host)| {
            let id = HostId(host.of.unwrap_or(n) as u64);
            arbiters[host.reactor].flow(DEVICE, &sessions[n], id).unwrap()
        };
        let flows = hosts.iter().enumerate().map(flow).collect();
        let mut events = Calendar::new();
        for (n, host) in hosts.iter().enumerate() {
            (0..host.depth).for_each(|_| events.insert(START, Event::Send(n)));
        }
        Self {
            model,
            now: START,
            arbiters,
            flows,
            sessions,
            memory: None,
            events,
            queue: VecDeque::new(),
            idle: model.channels,
            timer: None,
            commands: Vec::new(),
            logs: vec![Vec::new(); hosts.len()],
            hosts,
            device,
            reserved,
            admitted,
        }
    }

    /// Lets commands wait for memory, of which each reactor has `bytes`, and for their hosts' data, which takes
    /// `sends` ns.
    pub(super) fn with_memory(mut self, bytes: usize, sends: u64) -> Self {
        let order = OrderSettings::default();
        let gate = |_| MemoryGate::new(&order, bytes).setting_aside();
        let mut gates: Vec<_> = (0..self.model.reactors).map(gate).collect();
        let flow = |(n, host): (usize, &Host)| {
            gates[host.reactor].flow(&self.sessions[n], HostId(host.of.unwrap_or(n) as u64))
        };
        let flows = self.hosts.iter().enumerate().map(flow).collect();
        self.memory = Some(Memory { gates, flows, sends });
        self
    }

    fn send(&mut self, n: usize) {
        let id = self.commands.len() as u64;
        let Host { class, reactor, bytes, .. } = self.hosts[n];
        let mut sent =
            Sent { host: n, arrived: self.now, grant: None, memory: None, announced: None };
        if let Some(memory) = &mut self.memory {
            sent.announced = self.arbiters[reactor].announce(self.now, self.flows[n]);
            memory.gates[reactor].enqueue(memory.flows[n], class, bytes, id);
            self.commands.push(sent);
        } else {
            self.commands.push(sent);
            self.submit(id);
        }
    }

    /// Brings a command to the arbiter.
    fn submit(&mut self, id: u64) {
        let sent = &mut self.commands[usize::try_from(id).unwrap()];
        let Host { class, reactor, bytes, write, .. } = self.hosts[sent.host];
        let (arbiter, flow) = (&mut self.arbiters[reactor], self.flows[sent.host]);
        let submission = Submission::of_host(id, write, bytes);
        sent.grant = arbiter.pass(self.now, flow, &submission);
        if sent.grant.is_some() {
            self.queue.push_back(id);
        } else {
            arbiter.enqueue_since(self.now, sent.arrived, flow, class, submission).unwrap();
        }
        if let Some(announced) = sent.announced.take() {
            arbiter.end_announced(self.now, announced);
        }
    }

    fn done(&mut self, id: u64) {
        let Sent { host: n, grant, memory, .. } = &mut self.commands[usize::try_from(id).unwrap()];
        let (n, grant, grant_of_memory) = (*n, grant.take().unwrap(), memory.take());
        self.idle += 1;
        let Host { reactor, think, .. } = self.hosts[n];
        self.arbiters[reactor].complete(self.now, grant, true);
        if let Some((memory, grant)) = self.memory.as_mut().zip(grant_of_memory) {
            memory.gates[reactor].give_back(grant);
        }
        self.logs[n].push(self.now);
        self.events.insert(self.now.after(think), Event::Send(n));
    }

    /// Lets all reactors go on until none has anything to do, and has them wake at the next timer.
    fn pull(&mut self) {
        let (mut quiet, mut later, mut rounds) = (0, None, 0);
        while quiet < self.arbiters.len() {
            quiet += 1;
            rounds += 1;
            assert!(rounds < 10_000, "reactors wake each other without end");
            if let Some(memory) = &mut self.memory {
                for gate in &mut memory.gates {
                    while let Some((id, grant)) = gate.pull() {
                        self.commands[usize::try_from(id).unwrap()].memory = Some(grant);
                        self.events.insert(self.now.after(memory.sends), Event::Data(id));
                    }
                }
            }
            for arbiter in &mut self.arbiters {
                loop {
                    match arbiter.pull_before_sleep(self.now) {
                        Pull::Command(command) => {
                            self.queue.push_back(command.item);
                            let at = usize::try_from(command.item).unwrap();
                            self.commands[at].grant = Some(command.grant);
                            quiet = 0;
                        }
                        Pull::Wake(_) => quiet = 0,
                        Pull::Later(when) => {
                            later = later.into_iter().chain([when]).min();
                            break;
                        }
                        Pull::Nothing => break,
                    }
                }
            }
        }
        self.timer = later;
        while self.idle > 0
            && let Some(id) = self.queue.pop_front()
        {
            self.idle -= 1;
            let host = self.commands[usize::try_from(id).unwrap()].host;
            let takes = self.model.takes(self.hosts[host].bytes);
            self.events.insert(self.now.after(takes), Event::Done(id));
        }
    }

    /// Adapts the reservations to the measured device, as the daemon does once a second.
    pub(super) fn review(&mut self) {
        let Some(profile) = self.device.profile() else { return };
        let Some(after) = Broker::review(&profile, &self.admitted, 20) else { return };
        let all = self.device.reservations();
        let renew = |(one, admitted): (&Reservation, &Admitted)| Reservation {
            session: Arc::clone(&one.session),
            reserved: Arc::new(one.reserved.renewed(self.now, admitted)),
        };
        let renewed: Vec<_> = all.iter().zip(&after).map(renew).collect();
        self.reserved = renewed.iter().map(|one| Arc::clone(&one.reserved)).collect();
        self.admitted = after;
        self.device.reserve(renewed);
        for arbiter in &mut self.arbiters {
            arbiter.touch_device(DEVICE);
            while arbiter.settle(self.now, 64) {}
        }
        self.pull();
    }

    /// Runs until this many periods of a second have passed since the start.
    pub(super) fn run(&mut self, periods: u64) {
        let end = START.after(periods * SECOND);
        loop {
            let next = self.events.next_time().into_iter().chain(self.timer).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            self.timer = self.timer.filter(|timer| *timer > self.now);
            while let Some((_, event)) = self.events.pop_due(self.now) {
                match event {
                    Event::Send(n) => self.send(n),
                    Event::Data(id) => self.submit(id),
                    Event::Done(id) => self.done(id),
                }
                // A reactor proceeds after each event: the first one does not know the next.
                self.pull();
            }
            self.pull();
        }
        self.now = end.after(1);
        for reserved in &self.reserved {
            let _ = reserved.due(self.now);
        }
    }

    /// Counts a tenant's completions in each period, from its log, if they are within the period's begin and end.
    fn count(&self, tenant: usize, periods: u64, is_in: fn(Nanos, [Nanos; 2]) -> bool) -> Vec<u64> {
        let within = |n: u64| {
            let period = [n, n + 1].map(|n| START.after(n * SECOND));
            self.logs[tenant].iter().filter(|at| is_in(**at, period)).count() as u64
        };
        (0..periods).map(within).collect()
    }

    /// Counts a tenant's completions in each period, from its log.
    pub(super) fn had(&self, tenant: usize, periods: u64) -> Vec<u64> {
        self.count(tenant, periods, |at, [from, to]| at > from && at <= to)
    }

    /// Counts a tenant's completions within each period, and those with the ones at its very begin and
    /// end: of several events in one ns, the first may end the period.
    pub(super) fn had_about(&self, tenant: usize, periods: u64) -> Vec<(u64, u64)> {
        let within = self.count(tenant, periods, |at, [from, to]| at > from && at < to);
        let about = self.count(tenant, periods, |at, [from, to]| at >= from && at <= to);
        within.into_iter().zip(about).collect()
    }

    /// Counts the completions of all hosts.
    pub(super) fn total(&self) -> u64 {
        self.logs.iter().map(|log| log.len() as u64).sum()
    }
}

/// Makes the hosts of a flood of High: `hosts` with `depth` commands each.
pub(super) fn flood(hosts: u64, depth: u64, reactor: usize) -> Vec<Host> {
    let host = Host { class: Class::High, think: 50_000, reactor, ..tenant(depth, 0) };
    vec![host; usize::try_from(hosts).unwrap()]
}

pub(super) fn tenant(depth: u64, think: u64) -> Host {
    let class = Class::Low;
    Host { class, depth, think, reactor: 0, bytes: 4096, write: false, of: None }
}
