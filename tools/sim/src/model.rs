//! A target, its hosts, its network and its devices, composed.
//!
//! - [`Plan`]: all of it, as a value.
//! - [`Model`]: the order of all events.
//! - [`Measured`]: the results of a run.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use arbitration::classify::{Classifier, ConnectionClass, PolicyClass, class_of_dscp};
use sluice_core::stats::IoSnapshot;
use units::{Calendar, Class, Nanos, nanos};

use crate::connection::Connection;
use crate::host::{self, Again, Host, Window, Wish};
use crate::measured::since;
use crate::network::{self, FlowSpec, Network, NodeId, Sender};
use crate::others::Others;
use crate::pair::QueuePair;
use crate::target::{self, NQN, Target, missing_namespace};

pub use crate::measured::{
    DeviceMeasured, Done, FlowMeasured, HostMeasured, LoadMeasured, Measured, OtherMeasured,
    QualityPoint, Way,
};
pub use crate::plan::{
    Costs, DevicePlan, HostPlan, LinkPlan, LoadPlan, NamespacePlan, OtherPlan, Plan, PlanError,
    QosPlan, ReservePlan, SessionPlan, StagePlan, TargetPlan, Transport,
};

/// An event of the model's own. Devices and the network have theirs.
#[derive(Debug)]
enum Event {
    Target(target::Event),
    /// A host connects.
    Begin(usize),
    /// A host's association has something to do.
    Timer(usize),
    /// A load of a host wants something.
    Load(usize, usize),
    /// A flow that has nothing to do with the target comes or goes.
    Other(usize),
    /// A host tries a command again.
    Retry(usize, Again),
}

/// The ends of a host's connections.
#[derive(Clone, Copy, Debug)]
struct Ends {
    node: NodeId,
    dscp: u8,
    sender: Sender,
    send_buffer: u64,
    /// Of a host: what limits the target's end, and what carries its queues.
    answers: Option<Sender>,
    transport: Transport,
}

/// The counters at the end of the warm-up.
#[derive(Debug)]
struct Before {
    /// The target's statistics of hosts, by load.
    statistics: Vec<Vec<IoSnapshot>>,
    /// The busy time of the target's cable in ns, to the target and from it.
    cable: [u64; 2],
    /// The busy time of devices in ns, by namespace.
    devices: Vec<Option<u64>>,
}

/// A target, its hosts, its network and its devices.
#[derive(Debug)]
pub struct Model {
    now: Nanos,
    events: Calendar<Event>,
    network: Rc<RefCell<Network>>,
    target: Target,
    /// The target's end of all connections.
    target_end: Ends,
    hosts: Vec<Host>,
    host_ends: Vec<Ends>,
    connections: Vec<Connection>,
    /// The connection of each flow, and whether the flow goes to the target.
    flows: Vec<(usize, bool)>,
    window: Window,
    agenda: target::Agenda,
    wishes: Vec<Wish>,
    lost: Vec<(usize, String)>,
    heard: Vec<network::Event>,
    others: Others,
    /// The NQN of each host, with the NSID and the class of each of its loads.
    workloads: Vec<(String, Vec<(u32, Class)>)>,
    /// The counts at the end of the warm-up.
    before: Option<Before>,
}

impl Model {
    /// Makes a model in which nothing has happened yet.
    ///
    /// # Errors
    /// The plan names a missing item, or its numbers are out of their ranges; the error names the item or number, and
    /// the remedy.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.check()?;
        let Plan {
            seed,
            warmup,
            duration,
            interval,
            topology,
            target,
            qos,
            stage,
            namespaces,
            hosts,
            others,
            record_quality,
        } = plan;
        let network = Network::new(topology, seed)
            .map_err(|error| PlanError::Settings(format!("the network: {error}")))?;
        let network = Rc::new(RefCell::new(network));
        let window = Window {
            begin: Nanos(nanos(warmup)),
            end: Nanos(nanos(warmup)).after(nanos(duration)),
            interval,
        };
        let nqn = |host: &HostPlan| format!("nqn.2026-01.io.sluicegate:{}", host.name);
        for host in &hosts {
            for load in &host.loads {
                if load.namespace >= namespaces.len() {
                    let what = format!("a load of host {}", host.name);
                    return Err(missing_namespace(what, load.namespace, namespaces.len()));
                }
            }
        }
        let known: Vec<target::Known<'_>> =
            hosts.iter().map(|host| (nqn(host), host.class, host.session.as_deref())).collect();
        let parts = (&target, &qos, &stage);
        let made = Target::new(parts, namespaces, &known, &network, record_quality)?;
        let target_end = Ends {
            node: target.node,
            dscp: 0,
            sender: target.sender,
            send_buffer: target.send_buffer,
            answers: None,
            transport: Transport::Tcp,
        };
        let mut model = Self {
            now: Nanos(0),
            events: Calendar::new(),
            network,
            target: made,
            target_end,
            hosts: Vec::new(),
            host_ends: Vec::new(),
            connections: Vec::new(),
            flows: Vec::new(),
            window,
            agenda: Vec::new(),
            wishes: Vec::new(),
            lost: Vec::new(),
            heard: Vec::new(),
            others: Others::new(others),
            workloads: Vec::new(),
            before: None,
        };
        for (number, host) in hosts.into_iter().enumerate() {
            let classes: Vec<Class> =
                host.loads.iter().map(|load| class_of(&qos, &host, load.class)).collect();
            let HostPlan { node, dscp, sender, answers, transport, send_buffer, begins, .. } = host;
            let ends = Ends { node, dscp, sender, send_buffer, answers, transport };
            model.host_ends.push(ends);
            let nsids = host
                .loads
                .iter()
                .map(|load| u32::try_from(load.namespace).unwrap_or(u32::MAX).saturating_add(1));
            model.workloads.push((nqn(&host), nsids.zip(classes.iter().copied()).collect()));
            let names = (nqn(&host), NQN);
            model.hosts.push(Host::new(number, names, host, &classes, window));
            model.at(Nanos(nanos(begins)), Event::Begin(number));
        }
        for (at, index) in model.others.changes() {
            model.at(at, Event::Other(index));
        }
        model.target(|target, around| target.begin(around));
        Ok(model)
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the end of the time that is measured.
    #[must_use]
    pub fn end(&self) -> Nanos {
        self.window.end
    }

    /// Runs until a time. Calls `progress` with the time now and then.
    pub fn run(&mut self, until: Nanos, progress: &mut dyn FnMut(Nanos)) {
        /// Events between two calls of `progress`.
        const OFTEN: u32 = 1 << 14;
        let mut count = 0_u32;
        loop {
            let network = self.network.borrow().next();
            let own = self.events.next_time();
            let device = self.target.next();
            let Some(at) = [network, own, device].into_iter().flatten().min() else { break };
            if at > until {
                break;
            }
            if at >= self.window.begin && self.before.is_none() {
                self.before = Some(Before {
                    statistics: self.statistics(),
                    cable: self.cable(),
                    devices: self.target.busy(),
                });
            }
            self.now = self.now.max(at);
            if network == Some(at) {
                self.advance_network();
            } else if device == Some(at) {
                self.target(|target, around| target.advance(around));
            } else if let Some((_, event)) = self.events.pop_due(at) {
                self.happen(event);
            }
            count = count.wrapping_add(1);
            if count.is_multiple_of(OFTEN) {
                progress(self.now);
            }
        }
        self.now = self.now.max(until);
        progress(self.now);
    }

    /// Returns the results of the run so far.
    #[must_use]
    pub fn report(&self) -> Measured {
        let time = self.now.min(self.window.end).since(self.window.begin);
        let sum = |bytes: fn(&Connection) -> u64| self.connections.iter().map(bytes).sum();
        Measured {
            time,
            interval: self.window.interval,
            hosts: self.hosts.iter().map(Host::measured).collect(),
            others: self.others.measured(),
            statistics: self.counted(),
            flows: self.target.flows(),
            ports: self.network.borrow().counters().collect(),
            devices: self.devices(time),
            cable: self.cable_used(time),
            bytes_to_hosts: sum(|connection| connection.down.read),
            bytes_to_target: sum(|connection| connection.up.read),
            unread_by_hosts: sum(|connection| connection.down.unread()),
            unread_by_target: sum(|connection| connection.up.unread()),
        }
    }

    /// Returns the target's statistics of each host's loads. The statistics do not distinguish loads of one class at
    /// one namespace: the first has all their commands.
    fn statistics(&self) -> Vec<Vec<IoSnapshot>> {
        let of = |(host, loads): &(String, Vec<(u32, Class)>)| {
            let one = |(place, of): (usize, &(u32, Class))| {
                let first = loads.iter().position(|other| other == of) == Some(place);
                if first { self.target.workload(host, *of) } else { IoSnapshot::default() }
            };
            loads.iter().enumerate().map(one).collect()
        };
        self.workloads.iter().map(of).collect()
    }

    /// Returns the target's statistics since the end of the warm-up.
    fn counted(&self) -> Vec<Vec<IoSnapshot>> {
        let Some(Before { statistics: before, .. }) = &self.before else { return Vec::new() };
        let of_host = |(now, before): (Vec<IoSnapshot>, &Vec<IoSnapshot>)| {
            now.iter().zip(before).map(|(now, before)| since(now, before)).collect()
        };
        self.statistics().into_iter().zip(before).map(of_host).collect()
    }

    /// Returns the busy time of the target's cable since the start in ns, to the target and from it.
    fn cable(&self) -> [u64; 2] {
        let (network, node) = (self.network.borrow(), self.target_end.node);
        let mut cable = [0; 2];
        for (_, port) in network.counters() {
            let [to, from] = &mut cable;
            *to += if port.to == node { nanos(port.busy) } else { 0 };
            *from += if port.from == node { nanos(port.busy) } else { 0 };
        }
        cable
    }

    /// Computes the parts of the measured time that the target's cable was busy.
    fn cable_used(&self, time: Duration) -> [f64; 2] {
        let [to_before, from_before] = self.before.as_ref().map_or([0; 2], |before| before.cable);
        let [to, from] = self.cable();
        [used(to, to_before, time), used(from, from_before, time)]
    }

    /// Returns the results of the devices.
    fn devices(&self, time: Duration) -> Vec<DeviceMeasured> {
        let mut devices = self.target.devices();
        let Some(before) = &self.before else { return devices };
        let busy = self.target.busy().into_iter().zip(&before.devices);
        for (device, (now, before)) in devices.iter_mut().zip(busy) {
            device.used = now.zip(*before).map(|(now, before)| used(now, before, time));
        }
        devices
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.events.insert(at, event);
    }

    /// Advances the network to the present time, and passes its events to the ends of connections.
    fn advance_network(&mut self) {
        let mut heard = std::mem::take(&mut self.heard);
        self.network.borrow_mut().advance(self.now, &mut heard);
        for event in heard.drain(..) {
            if self.others.hear(event, &self.window) {
                continue;
            }
            let place = usize::try_from(event.flow().0).unwrap_or(usize::MAX);
            let Some(&(index, to_target)) = self.flows.get(place) else { continue };
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let (host, qid) = (connection.host, connection.qid);
            match (event, to_target) {
                (network::Event::Arrived { bytes, .. }, true) if connection.pair.is_some() => {
                    self.target(|target, around| target.moved(index, bytes, around));
                }
                (network::Event::Arrived { bytes, .. }, true) => {
                    connection.up.arrive(bytes);
                    self.target(|target, around| target.heard(index, around));
                }
                (network::Event::Arrived { bytes, .. }, false) => {
                    match &mut connection.pair {
                        Some(pair) => {
                            pair.arrive_down(bytes);
                            connection.down.receive(bytes);
                        }
                        None => connection.down.arrive(bytes),
                    }
                    self.host(host, |host, around| host.hear(qid, around));
                }
                (network::Event::Writable { .. }, true) => {
                    self.host(host, |host, around| host.pump(qid, around));
                }
                (network::Event::Writable { .. }, false) => {
                    self.target(|target, around| target.go_on(index, around));
                }
                // A host's own memory is there for as long as a command is.
                (network::Event::Acknowledged { .. }, true) => {}
                (network::Event::Acknowledged { bytes, .. }, false) => {
                    self.target(|target, around| target.acknowledged(index, bytes, around));
                }
            }
        }
        self.heard = heard;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Target(event) => self.target(|target, around| target.happen(event, around)),
            Event::Begin(host) => self.connect(host, 0),
            Event::Timer(host) => self.host(host, Host::time),
            Event::Load(host, load) => self.host(host, |host, around| host.load_due(load, around)),
            Event::Other(index) => {
                self.others.change(self.now, index, &mut self.network.borrow_mut());
            }
            Event::Retry(host, again) => {
                self.host(host, |host, around| host.try_again(again, around));
            }
        }
    }

    /// Runs the target, and schedules the resulting events.
    fn target(&mut self, act: impl FnOnce(&mut Target, &mut target::Around<'_>)) {
        let mut around = target::Around {
            now: self.now,
            connections: &mut self.connections,
            network: &self.network,
            agenda: &mut self.agenda,
            lost: &mut self.lost,
        };
        act(&mut self.target, &mut around);
        let mut agenda = std::mem::take(&mut self.agenda);
        for (at, event) in agenda.drain(..) {
            self.at(at, Event::Target(event));
        }
        self.agenda = agenda;
        for (index, why) in std::mem::take(&mut self.lost) {
            let Some(connection) = self.connections.get(index) else { continue };
            let (host, qid) = (connection.host, connection.qid);
            if let Some(host) = self.hosts.get_mut(host) {
                host.lose(qid, &why);
            }
        }
    }

    /// Runs a host, and carries out its wishes.
    fn host(&mut self, number: usize, act: impl FnOnce(&mut Host, &mut host::Around<'_>)) {
        let Some(host) = self.hosts.get_mut(number) else { return };
        let mut network = self.network.borrow_mut();
        let mut around = host::Around {
            now: self.now,
            connections: &mut self.connections,
            network: &mut network,
            wishes: &mut self.wishes,
        };
        act(host, &mut around);
        drop(network);
        let mut wishes = std::mem::take(&mut self.wishes);
        for wish in wishes.drain(..) {
            match wish {
                Wish::Connect(qid) => self.connect(number, qid),
                Wish::Timer(at) => self.at(at, Event::Timer(number)),
                Wish::Load(load, at) => self.at(at, Event::Load(number, load)),
                Wish::Retry(at, again) => self.at(at, Event::Retry(number, again)),
            }
        }
        if self.wishes.is_empty() {
            self.wishes = wishes;
        }
    }

    /// Connects a queue of a host.
    fn connect(&mut self, number: usize, qid: u16) {
        let Some(host) = self.host_ends.get(number).copied() else { return };
        let target = self.target_end;
        let rdma = host.transport == Transport::Rdma;
        let spec = |from: &Ends, to: &Ends, sender| FlowSpec {
            from: from.node,
            to: to.node,
            dscp: from.dscp,
            sender,
            // The posts of a queue pair are its send buffer.
            send_buffer: if rdma { u64::MAX } else { from.send_buffer },
            notsent_lowat: None,
        };
        let index = self.connections.len();
        let mut network = self.network.borrow_mut();
        let up = network.open(self.now, spec(&host, &target, host.sender));
        let answers = host.answers.unwrap_or(target.sender);
        let down = network.open(self.now, spec(&target, &host, answers));
        drop(network);
        for (flow, to_target) in [(up, true), (down, false)] {
            let place = usize::try_from(flow.0).unwrap_or(usize::MAX);
            if self.flows.len() <= place {
                self.flows.resize(place.saturating_add(1), (usize::MAX, false));
            }
            if let Some(at) = self.flows.get_mut(place) {
                *at = (index, to_target);
            }
        }
        let reactor = self.target.place();
        let mut connection = Connection::new((number, qid), host.dscp, reactor, (up, down));
        connection.pair = rdma.then(|| Box::new(QueuePair::new()));
        self.connections.push(connection);
        self.target(|target, around| target.accept(index, around));
        self.host(number, |host, around| host.attach(qid, index, around));
    }
}

/// Computes the busy part of a time, from the busy time in ns at the end and at the start. Work that began before the
/// end counts in full.
fn used(now: u64, before: u64, time: Duration) -> f64 {
    (now.saturating_sub(before) as f64 / nanos(time).max(1) as f64).min(1.0)
}

/// Returns the class that the target gives commands of a host that name `named`.
fn class_of(qos: &QosPlan, host: &HostPlan, named: Option<Class>) -> Class {
    let connection = ConnectionClass {
        priority: host.priority.map_or(0, |class| u8::try_from(class.number()).unwrap_or(0)),
        weighted: host.priority.is_some() && qos.wrr,
        dscp: class_of_dscp(&qos.dscp, host.dscp),
        listener: None,
    };
    let policy = PolicyClass { class: host.class, ..PolicyClass::default() };
    // Low has no name in a command, and is inherited.
    let named = named.filter(|class| *class != Class::Low);
    Classifier::new(&connection, policy).class(Nanos(0), named)
}
