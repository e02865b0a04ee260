//! The target: production reactors ([`sluice_core::Core`]) with the real service, arbiter, sessions,
//! reservations, windows and pacers, on simulated time.
//!
//! - [`make`]: a target from its plan.
//! - [`reactor`]: one reactor's turns; [`pairs`]: the parameters of queue pairs; [`counters`]: what
//!   their device counts.
//! - [`stage`]: the network's stage, by the daemon's own poller.
//! - [`disk`]: the devices as the reactors see them.

mod address;
mod counters;
mod disk;
mod make;
mod pairs;
mod reactor;
mod stage;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fabric::controller::Action;
use fabric::queue::Either;
use slab::Slab;
use sluice_core::device::BlockDevice as _;
use sluice_core::stats::IoSnapshot;
use sluice_core::testing::{Input, Op, end_job};
use sluice_core::{Job, Key, place};
use units::{Class, Nanos};

use self::disk::{Disk, Machine, Shared, request_of};
use self::reactor::{Reactor, Wish};
use self::stage::Stage;
use crate::connection::Connection;
use crate::device::{Device, Request};
use crate::measured::{DeviceMeasured, FlowMeasured};
use crate::network::Network;
use crate::pair::QueuePair;
use crate::plan::{DevicePlan, NamespacePlan, PlanError, QosPlan, StagePlan, TargetPlan};

pub(crate) use make::{Known, NQN, OPERATIONS, missing_namespace};

/// Longest time between two ticks of the service, in ns, as in the daemon.
const TICK_NS: u64 = 200_000_000;

/// An event of the target that is to happen at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A reactor's turn.
    Turn(usize),
    /// The end of a reactor's turn.
    TurnOver(usize),
    /// A look of the network's stage at connections.
    Poll,
    /// A tick of the service.
    Tick,
}

/// Future events with their times.
pub(crate) type Agenda = Vec<(Nanos, Event)>;

/// Everything around the target that it acts on.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) now: Nanos,
    pub(crate) connections: &'a mut Vec<Connection>,
    pub(crate) network: &'a RefCell<Network>,
    /// Future events.
    pub(crate) agenda: &'a mut Agenda,
    /// Connections that the target has ended, in words.
    pub(crate) lost: &'a mut Vec<(usize, String)>,
}

/// A command in a device: its reactor, and the job.
type Running = (usize, Job<Machine>);

#[derive(Debug)]
pub(crate) struct Target {
    shared: Rc<Shared>,
    reactors: Vec<Reactor>,
    disks: Vec<Arc<Disk>>,
    devices: Vec<Box<dyn Device>>,
    jobs: Slab<Running>,
    stage: Stage,
    /// Time of the planned look of the stage.
    poll_at: Option<Nanos>,
    /// Time of the planned tick of the service.
    tick_at: Nanos,
    /// Requests that have ended, which one call of a device fills.
    done: Vec<(Nanos, u64)>,
}

impl Target {
    /// Makes a target.
    pub(crate) fn new(
        (plan, qos, stage): (&TargetPlan, &QosPlan, &StagePlan),
        mut namespaces: Vec<NamespacePlan>,
        hosts: &[Known<'_>],
        network: &Rc<RefCell<Network>>,
        record: bool,
    ) -> Result<Self, PlanError> {
        let mut devices = Vec::new();
        let numbers: Vec<Option<usize>> = namespaces
            .iter_mut()
            .map(|one| match std::mem::replace(&mut one.device, DevicePlan::Memory) {
                DevicePlan::Memory => None,
                DevicePlan::Model(device) => {
                    devices.push(device);
                    Some(devices.len() - 1)
                }
            })
            .collect();
        let now = Nanos(0);
        let (shared, reactors, disks) = make::make(now, plan, qos, &namespaces, &numbers, hosts)?;
        Ok(Self {
            shared,
            reactors,
            disks,
            devices,
            jobs: Slab::new(),
            stage: Stage::new(stage, plan.sender, Rc::clone(network), record),
            poll_at: None,
            tick_at: now,
            done: Vec::new(),
        })
    }

    /// Begins: plans the first turn of each reactor.
    pub(crate) fn begin(&mut self, around: &mut Around<'_>) {
        for (index, reactor) in self.reactors.iter_mut().enumerate() {
            let at = reactor.plan(around.now);
            around.agenda.extend(at.map(|at| (at, Event::Turn(index))));
        }
        around.agenda.push((around.now, Event::Tick));
    }

    /// Chooses the reactor for a new connection, as the daemon does.
    pub(crate) fn place(&mut self) -> usize {
        place(self.reactors.iter_mut().map(Reactor::load), None).unwrap_or(0)
    }

    /// Accepts a new connection.
    pub(crate) fn accept(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(connection) = around.connections.get(index) else { return };
        let reactor = connection.reactor;
        self.put(reactor, reactor::Input::Accept(index), around);
    }

    /// Notes that bytes have arrived at a connection, or that it is cut.
    pub(crate) fn heard(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(connection) = around.connections.get_mut(index) else { return };
        let number = connection.reactor;
        let Some(reactor) = self.reactors.get_mut(number) else { return };
        let at = reactor.list(around.now, index, connection);
        around.agenda.extend(at.map(|at| (at, Event::Turn(number))));
    }

    /// Continues sending on a connection whose socket has room.
    pub(crate) fn go_on(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(connection) = around.connections.get_mut(index) else { return };
        let over = connection.push_batch(around.now, &mut around.network.borrow_mut());
        if let (Some(batch), Some(key)) = (over, connection.key) {
            let (reactor, cut) = (connection.reactor, connection.cut);
            self.put(reactor, Input::Sent(key, Either::Left(batch), cut), around);
        }
    }

    /// Handles an event.
    pub(crate) fn happen(&mut self, event: Event, around: &mut Around<'_>) {
        match event {
            Event::Turn(index) => self.turn(index, around),
            Event::TurnOver(index) => self.turn_over(index, around),
            Event::Poll => self.poll(around),
            Event::Tick => self.tick(around),
        }
        self.route(around);
    }

    /// Returns the time of the devices' next event.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(|device| device.next()).min()
    }

    /// Advances devices to a time.
    pub(crate) fn advance(&mut self, around: &mut Around<'_>) {
        let mut done = std::mem::take(&mut self.done);
        for device in &mut self.devices {
            if device.next().is_some_and(|next| next <= around.now) {
                device.advance(around.now, &mut done);
            }
        }
        for (_, id) in done.drain(..) {
            self.end_job(id, around);
        }
        self.done = done;
    }

    /// Returns the results of the looks at connections.
    pub(crate) fn flows(&self) -> Vec<FlowMeasured> {
        self.stage.flows()
    }

    /// Returns the results of the devices.
    pub(crate) fn devices(&self) -> Vec<DeviceMeasured> {
        let device = |disk: &Arc<Disk>| {
            let done = disk.total();
            let kinds = [&done.read, &done.write, &done.other];
            let commands = kinds.iter().map(|kind| kind.ops).sum();
            let bytes = kinds.iter().map(|kind| kind.bytes).sum();
            DeviceMeasured { commands, bytes, waiting: disk.qos().waiting(), used: None }
        };
        self.disks.iter().map(device).collect()
    }

    /// Returns the time that each namespace's device was busy since the start, in ns.
    pub(crate) fn busy(&self) -> Vec<Option<u64>> {
        let device = |disk: &Arc<Disk>| self.devices.get(disk.content.device?)?.busy();
        self.disks.iter().map(device).collect()
    }

    /// Returns the target's statistics of a host's commands of a class to a namespace.
    pub(crate) fn workload(&self, host: &str, of: (u32, Class)) -> IoSnapshot {
        self.shared.workload(host, of)
    }

    /// Notes that bytes have arrived at a queue pair.
    pub(crate) fn moved(&mut self, index: usize, bytes: u64, around: &mut Around<'_>) {
        let Some(connection) = around.connections.get_mut(index) else { return };
        connection.up.receive(bytes);
        let (reactor, key) = (connection.reactor, connection.key);
        let mut fetched = Vec::new();
        if let Some(pair) = &mut connection.pair {
            pair.arrive_up(around.now, bytes, &mut fetched);
        }
        for (fetching, own) in fetched {
            if let Some(key) = key {
                let input = Input::Fetched(key, fetching.fetch, fetching.place, own, false);
                self.put(reactor, input, around);
            }
        }
        self.heard(index, around);
    }

    /// Notes that a host has acknowledged bytes of a queue pair.
    pub(crate) fn acknowledged(&mut self, index: usize, bytes: u64, around: &mut Around<'_>) {
        let Some(connection) = around.connections.get_mut(index) else { return };
        let (reactor, key) = (connection.reactor, connection.key);
        let mut sent = Vec::new();
        if let Some(pair) = &mut connection.pair {
            pair.acknowledge(around.now, bytes, &mut sent);
        }
        for batch in sent {
            if let Some(key) = key {
                self.put(reactor, Input::Sent(key, Either::Right(batch), false), around);
            }
        }
    }

    /// Posts something on a queue pair. Posts on a closed queue pair are flushed.
    fn post(
        &mut self,
        index: usize,
        around: &mut Around<'_>,
        post: impl FnOnce(&mut QueuePair, Nanos) -> u64,
    ) {
        let Some(connection) = around.connections.get_mut(index) else { return };
        let Some(pair) = &mut connection.pair else { return };
        let bytes = post(pair, around.now);
        if connection.cut {
            return self.flush_pair(index, around);
        }
        connection.down.send(around.now, &mut around.network.borrow_mut(), bytes);
    }

    /// Ends a queue pair, and flushes its posts.
    fn flush_pair(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(connection) = around.connections.get_mut(index) else { return };
        let (reactor, key) = (connection.reactor, connection.key);
        let Some(pair) = &mut connection.pair else { return };
        let (sent, fetched) = pair.flush();
        let Some(key) = key else { return };
        for batch in sent {
            self.put(reactor, Input::Sent(key, Either::Right(batch), true), around);
        }
        for fetching in fetched {
            let input = Input::Fetched(key, fetching.fetch, fetching.place, Vec::new(), true);
            self.put(reactor, input, around);
        }
    }

    fn put(&mut self, reactor: usize, input: impl Into<reactor::Input>, around: &mut Around<'_>) {
        let one = self.reactors.get_mut(reactor);
        let at = one.and_then(|one| one.put(around.now, input.into()));
        around.agenda.extend(at.map(|at| (at, Event::Turn(reactor))));
    }

    fn turn(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(reactor) = self.reactors.get_mut(index) else { return };
        if !reactor.is_due(around.now) {
            return;
        }
        let over = reactor.turn(around.now, around.connections, &self.shared);
        around.agenda.push((over, Event::TurnOver(index)));
        around.agenda.extend(reactor.planned().map(|at| (at, Event::Turn(index))));
    }

    fn turn_over(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(reactor) = self.reactors.get_mut(index) else { return };
        let (mut wishes, jobs) = (reactor.take_wishes(), reactor.take_jobs());
        jobs.into_iter().for_each(|job| self.launch(index, job, around));
        for wish in wishes.drain(..) {
            match wish {
                Wish::Core(op) => self.carry_out(index, op, around),
                Wish::Answer(key) => {
                    if let Some(index) = self.index_of(index, key) {
                        self.post(index, around, |pair, _| pair.accept());
                    }
                }
            }
        }
        if let Some(reactor) = self.reactors.get_mut(index) {
            reactor.keep_vector(wishes);
            around.lost.extend(reactor.take_faults());
        }
    }

    fn carry_out(&mut self, number: usize, op: Op, around: &mut Around<'_>) {
        let now = around.now;
        match op {
            Op::Send(key, batch) => {
                let Some(index) = self.index_of(number, key) else { return };
                if let Some(connection) = around.connections.get_mut(index) {
                    match batch {
                        Either::Left(batch) => {
                            debug_assert!(connection.sending.is_none(), "one is sent at a time");
                            connection.sending = Some(batch);
                        }
                        Either::Right(batch) => {
                            self.post(index, around, |pair, now| pair.post(now, batch));
                        }
                    }
                }
                self.go_on(index, around);
            }
            Op::Fetch(key, fetch, place) => {
                let Some(index) = self.index_of(number, key) else { return };
                self.post(index, around, |pair, now| pair.fetch(now, fetch, place));
            }
            Op::ShutDown(key) => {
                let Some(index) = self.index_of(number, key) else { return };
                if let Some(connection) = around.connections.get_mut(index) {
                    connection.cut = true;
                }
                self.flush_pair(index, around);
                self.go_on(index, around);
                self.heard(index, around);
            }
            Op::Wake(reactors) => {
                for woken in reactors {
                    let woken = woken as usize;
                    let at = self.reactors.get_mut(woken).and_then(|one| one.plan(now));
                    around.agenda.extend(at.map(|at| (at, Event::Turn(woken))));
                }
            }
            Op::Mark(key, dscp, _) => {
                let Some(index) = self.index_of(number, key) else { return };
                if let Some(connection) = around.connections.get(index) {
                    around.network.borrow_mut().set_dscp(connection.down.flow, dscp);
                }
            }
            Op::Join(key, pacing) => {
                let Some(index) = self.index_of(number, key) else { return };
                let Some(connection) = around.connections.get_mut(index) else { return };
                let flows = (connection.down.flow, connection.up.flow);
                let names = (index, connection.host, connection.qid);
                let told = connection.pair.as_mut().map(|pair| pair.meter());
                self.stage.join(now, names, flows, pacing, told);
                if self.poll_at.is_none_or(|at| at > now) {
                    self.poll_at = Some(now);
                    around.agenda.push((now, Event::Poll));
                }
            }
            Op::Ended(key, _) => {
                let ended = self.reactors.get_mut(number).and_then(|one| one.forget(key));
                let Some(index) = ended else { return };
                self.stage.leave(index);
                if let Some(connection) = around.connections.get_mut(index) {
                    connection.key = None;
                    connection.cut = true;
                    connection.receive = None;
                    let mut network = around.network.borrow_mut();
                    network.close(now, connection.down.flow);
                    network.close(now, connection.up.flow);
                }
            }
        }
    }

    fn index_of(&self, reactor: usize, key: Key) -> Option<usize> {
        self.reactors.get(reactor)?.connection_of(key)
    }

    /// Hands a command to its device.
    fn launch(&mut self, reactor: usize, job: Job<Machine>, around: &Around<'_>) {
        let (kind, offset, length) = request_of(&job.command);
        let (class, device) = (job.class(), job.device.content.device);
        let id = self.jobs.insert((reactor, job)) as u64;
        let device = device.and_then(|device| self.devices.get_mut(device));
        debug_assert!(device.is_some(), "commands of memory are carried out on the spot");
        if let Some(device) = device {
            device.submit(around.now, Request { id, kind, offset, length, class });
        }
    }

    /// Ends a command that was in its device.
    fn end_job(&mut self, id: u64, around: &mut Around<'_>) {
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        let Some((reactor, job)) = self.jobs.try_remove(place) else { return };
        self.put(reactor, Input::JobEnded(end_job(job, None)), around);
    }

    fn poll(&mut self, around: &mut Around<'_>) {
        if self.poll_at != Some(around.now) {
            return;
        }
        self.poll_at = self.stage.poll(around.now);
        around.agenda.extend(self.poll_at.map(|at| (at, Event::Poll)));
    }

    fn tick(&mut self, around: &mut Around<'_>) {
        let now = around.now;
        if now < self.tick_at {
            return;
        }
        let next = self.shared.with_service(|service| service.tick(now));
        let longest = now.after(TICK_NS);
        self.tick_at = next.map_or(longest, |at| at.min(longest)).max(now.after(1_000_000));
        around.agenda.push((self.tick_at, Event::Tick));
    }

    /// Passes the service's actions to the reactors.
    fn route(&mut self, around: &mut Around<'_>) {
        loop {
            let Some(action) = self.shared.take_action() else { return };
            let (Action::Complete { connection, .. }
            | Action::Close { connection, .. }
            | Action::Abort { connection, .. }) = action
            else {
                continue;
            };
            self.put(Key::of(connection).0, Input::Act(action), around);
            // Time-outs may have moved.
            self.tick_at = around.now;
            around.agenda.push((around.now, Event::Tick));
        }
    }
}
