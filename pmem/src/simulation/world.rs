//! A data node with its clients on simulated time.

use core::time::Duration;

use units::{Calendar, Nanos};

use super::client::Client;
use super::event::Event;
use super::record::{PeriodRecord, Record};
use super::setup::{ClientSetup, Kind, Setup, Workload};
use crate::capacity::Estimator;
use crate::engine::{self, Engine, Step, Words};
use crate::in_process::{Memory, Node, PortId};
use crate::message::ClientId;
use crate::monitor::{self, Action, Monitor};
use crate::one_sided::{Address, OneSided, Ticket};
use crate::token::Tokens;

/// The bit that distinguishes the tickets of I/Os from the tickets of operations on words. The
/// other bits of an I/O's ticket are the time of its start.
const IO: u64 = 1 << 63;

/// The simulation. The same setup runs in the same way each time.
#[derive(Debug)]
pub struct World {
    setup: Setup,
    now: Nanos,
    node: Node,
    monitor: Option<Monitor>,
    /// The connection of the data node to itself.
    monitor_port: PortId,
    clients: Vec<Client>,
    events: Calendar<Event>,
    random: fastrand::Rng,
    record: Record,
    started: bool,
}

impl World {
    /// Makes the world before its first period.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let memory = Memory::new(1 + 2 * setup.clients.len());
        let mut node = Node::new(setup.nics, memory, setup.seed);
        let clients = setup.clients.iter().enumerate().map(|(index, client)| {
            let engine = (client.kind == Kind::Engine).then(|| engine(&setup, client, index));
            Client::new(client.clone(), node.connect(true), engine.flatten())
        });
        let clients: Vec<Client> = clients.collect();
        let monitor_port = node.connect(false);
        let mut events = Calendar::new();
        let monitored = setup.clients.iter().any(|client| client.reservation.is_some());
        events.insert(Nanos::ZERO, if monitored { Event::MonitorStarts } else { Event::Period });
        if let Some((stops, starts)) = setup.monitor_down {
            events.insert(stops, Event::MonitorStops);
            events.insert(starts, Event::MonitorStarts);
        }
        for (index, client) in setup.clients.iter().enumerate() {
            if let Some((at, told)) = client.vanishes {
                events.insert(at, Event::Vanishes(index, told));
            }
            if let Some((stops, goes_on)) = client.stopped {
                events.insert(stops, Event::Stops(index));
                events.insert(goes_on, Event::GoesOn(index));
            }
        }
        Self {
            now: Nanos::ZERO,
            node,
            monitor: None,
            monitor_port,
            clients,
            events,
            random: fastrand::Rng::with_seed(setup.seed.wrapping_add(1)),
            record: Record::default(),
            started: false,
            setup,
        }
    }

    /// Runs until this many periods are finished, and returns the record.
    #[must_use]
    pub fn run(mut self, periods: usize) -> Record {
        while self.record.periods.len() < periods && self.step() {}
        self.record
    }

    /// Advances to the next event. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        let now = self.node.next_event().min(self.events.next_time().unwrap_or(Nanos::MAX));
        if now == Nanos::MAX {
            return false;
        }
        self.now = now;
        self.node.advance(now);
        while let Some(port) = self.node.ready(now) {
            self.completion(port);
        }
        while let Some((_, event)) = self.events.pop_due(now) {
            self.happen(event);
        }
        true
    }

    /// Returns the present time.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the record until now.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the monitor, while there is one.
    #[must_use]
    pub const fn monitor(&self) -> Option<&Monitor> {
        self.monitor.as_ref()
    }

    /// Returns the engine of a client, if it has one.
    #[must_use]
    pub fn engine(&self, client: usize) -> Option<&Engine> {
        self.clients.get(client)?.engine()
    }

    /// Returns the word of the pool.
    pub fn pool(&mut self) -> u64 {
        self.node.memory().get(Memory::address(0)).unwrap_or(0)
    }

    /// Writes the word of the pool, as a client may that does not keep to the protocol.
    #[cfg(test)]
    pub(crate) fn write_pool(&mut self, word: u64) {
        self.node.memory().set(Memory::address(0), word);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Monitor => self.check(),
            Event::MonitorStops => self.monitor = None,
            Event::MonitorStarts => self.start_monitor(),
            Event::Period => {
                self.begin_period();
                self.events.insert(self.now + self.setup.period, Event::Period);
            }
            Event::Client(index) => {
                let due = self.clients.get(index).is_some_and(|client| client.tick == self.now);
                if due {
                    self.poke(index);
                }
            }
            Event::Request(index, period) => self.make_request(index, period),
            Event::Push(index, push) => {
                let now = self.now;
                self.tell(index, |client| client.push(now, push));
            }
            Event::Ask(index, ask) => self.tell(index, |client| client.ask(ask)),
            Event::Vanishes(index, told) => self.vanish(index, told),
            Event::Stops(index) => {
                if let Some(client) = self.clients.get_mut(index) {
                    client.stopped = true;
                }
            }
            Event::GoesOn(index) => {
                if let Some(client) = self.clients.get_mut(index) {
                    client.stopped = false;
                    let port = client.port;
                    self.completion(port);
                    self.poke(index);
                }
            }
        }
    }

    /// Calls a client, and runs it.
    fn tell(&mut self, index: usize, what: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.get_mut(index) {
            what(client);
            self.poke(index);
        }
    }

    fn start_monitor(&mut self) {
        let Setup { period, interval, local, batch, conversion, .. } = self.setup;
        let settings = monitor::Settings {
            period,
            interval,
            batch,
            conversion,
            ..monitor::Settings::new(local, Memory::address(0))
        };
        let Setup { profile, increment, history, .. } = self.setup;
        let estimator = Estimator::new(profile, increment, history);
        let found = self.pool();
        let Ok(mut monitor) = Monitor::new(settings, estimator, found) else { return };
        for (client, index) in self.clients.iter().zip(0..) {
            if let Some(reservation) = client.setup.reservation.filter(|_| !client.gone) {
                // A reservation that does not fit leaves the client with global tokens.
                let admitted = monitor.admit(ClientId(index), reservation);
                if admitted.is_err() {
                    let _ = monitor.admit(ClientId(index), Tokens::ZERO);
                }
            }
        }
        self.monitor = Some(monitor);
        self.check();
    }

    /// Runs the monitor's check.
    fn check(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        for (client, index) in self.clients.iter().zip(0..).filter(|_| self.setup.counts_packets) {
            monitor.arrived(ClientId(index), self.node.arrivals(client.port));
        }
        let (before, capacity, asked) = (monitor.period(), monitor.capacity(), monitor.is_asking());
        let memory = self.node.memory();
        monitor.tick(self.now, |ClientId(index)| memory.get(report(index)).unwrap_or(0));
        self.events.insert(monitor.next_tick(), Event::Monitor);
        while let Some(finding) = monitor.next_finding() {
            self.record.findings.push((self.record.periods.len(), finding));
        }
        if monitor.period() != before {
            self.finish_period(capacity, asked);
            self.begin_period();
        }
        self.carry_out();
    }

    /// Carries out the monitor's actions.
    fn carry_out(&mut self) {
        while let Some(action) = self.monitor.as_mut().and_then(Monitor::next_action) {
            match action {
                Action::Push(ClientId(client), push) => {
                    self.send(Event::Push(usize::try_from(client).unwrap_or(usize::MAX), push));
                }
                Action::Ask(ClientId(client), ask) => {
                    self.send(Event::Ask(usize::try_from(client).unwrap_or(usize::MAX), ask));
                }
                Action::Grant(ClientId(client), grant) => {
                    self.node.memory().set(granted(client), grant.pack());
                }
                Action::Evict(ClientId(client)) => {
                    self.record.evicted.push((self.record.periods.len(), client));
                    self.vanish(usize::try_from(client).unwrap_or(usize::MAX), true);
                }
                Action::Post(ticket, operation) => {
                    self.record.words += 1;
                    let posted =
                        self.node.port(self.monitor_port, self.now).post(ticket, operation);
                    if let (Err(_), Some(monitor)) = (posted, &mut self.monitor) {
                        monitor.not_posted(ticket);
                    }
                }
            }
        }
    }

    /// Sends a message to a client, which may be lost, late or repeated.
    fn send(&mut self, event: Event) {
        let faults = self.setup.faults;
        let copies = if self.random.u8(0..100) < faults.repeated { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.u8(0..100) < faults.lost {
                continue;
            }
            let mut at = self.now + self.setup.nics.travel;
            if self.random.u8(0..100) < faults.late {
                at = at.after(self.random.u64(0..=units::nanos(faults.delay)));
            }
            self.events.insert(at, event);
        }
    }

    /// Records the clients' I/Os in the period that ends.
    fn finish_period(&mut self, capacity: Tokens, asked: bool) {
        if self.started {
            let completed = self.clients.iter().map(|client| client.completed).collect();
            self.record.periods.push(PeriodRecord { completed, capacity, asked });
        }
    }

    /// Adds the requests of a period to the clients.
    fn begin_period(&mut self) {
        if self.monitor.is_none() {
            self.finish_period(Tokens::ZERO, false);
        }
        self.started = true;
        let number = self.record.periods.len();
        let count = u64::try_from(self.clients.len()).unwrap_or(u64::MAX).max(1);
        for (index, place) in (0..self.clients.len()).zip(0_u64..) {
            let Some(client) = self.clients.get_mut(index) else { continue };
            client.completed = 0;
            client.period = client.period.wrapping_add(1);
            client.withdraw();
            if client.gone || !client.setup.active.contains(&number) {
                continue;
            }
            match client.setup.workload {
                Workload::Burst(requests) => client.request(requests),
                Workload::Constant(requests) => {
                    client.to_come = requests;
                    let gap = units::nanos(self.setup.period) / requests.max(1);
                    // Clients do not ask in step.
                    let first = self.now.after(gap * place / count);
                    self.events.insert(first, Event::Request(index, client.period));
                }
            }
            self.poke(index);
        }
    }

    /// Makes one request of a client that asks at a constant rate.
    fn make_request(&mut self, index: usize, period: u32) {
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.period != period || client.to_come == 0 {
            return;
        }
        client.to_come -= 1;
        client.request(1);
        let gap = units::nanos(self.setup.period) / client.setup.workload.requests().max(1);
        self.events.insert(self.now.after(gap), Event::Request(index, period));
        self.poke(index);
    }

    fn vanish(&mut self, index: usize, told: bool) {
        let Some(client) = self.clients.get_mut(index) else { return };
        client.gone = true;
        self.node.disconnect(client.port);
        if let (true, Ok(index), Some(monitor)) = (told, u32::try_from(index), &mut self.monitor) {
            monitor.remove(ClientId(index));
        }
    }

    /// Handles the completions of a connection.
    fn completion(&mut self, port: PortId) {
        let now = self.now;
        if port == self.monitor_port {
            while let Some(completion) = self.node.port(port, now).completed() {
                if let Some(monitor) = &mut self.monitor {
                    monitor.completed(completion);
                }
            }
            self.carry_out();
            return;
        }
        let index = port.index();
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.stopped || client.gone {
            return;
        }
        while let Some(completion) = self.node.port(port, now).completed() {
            if completion.ticket.0 & IO == 0 {
                client.word_completed(now, completion);
                continue;
            }
            client.io_completed();
            if index < self.setup.latencies {
                let latency = now.since(Nanos(completion.ticket.0 & !IO));
                self.record.latencies.push(latency);
            }
        }
        self.poke(index);
    }

    /// Runs all present steps of a client.
    fn poke(&mut self, index: usize) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.stopped || client.gone {
            return;
        }
        while let Some(step) = client.next(now) {
            let mut port = self.node.port(client.port, now);
            let posted = match step {
                Step::Io => port.io(Ticket(IO | now.0)),
                Step::Post(ticket, operation) => {
                    self.record.words += 1;
                    port.post(ticket, operation)
                }
            };
            if posted.is_err() {
                // Only a client that is gone has no connection.
                return;
            }
        }
        let tick = client.next_tick().max(now.after(1));
        if tick != Nanos::MAX && (tick < client.tick || client.tick <= now) {
            client.tick = tick;
            self.events.insert(tick, Event::Client(index));
        }
    }
}

fn engine(setup: &Setup, client: &ClientSetup, index: usize) -> Option<Engine> {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let (pool, grant, report) = (Memory::address(0), granted(index), report(index));
    let settings = engine::Settings {
        period: setup.period,
        interval: setup.interval,
        batch: setup.batch,
        window: client.window,
        best_effort_window: client.best_effort_window,
        limit: client.limit,
        words: Words { pool, grant, report },
    };
    Engine::new(settings).ok()
}

/// Returns the address of a client's grant.
fn granted(client: u32) -> Address {
    word(client, 1)
}

/// Returns the address of a client's report.
fn report(client: u32) -> Address {
    word(client, 2)
}

fn word(client: u32, place: usize) -> Address {
    let client = usize::try_from(client).unwrap_or(usize::MAX);
    Memory::address(client.saturating_mul(2).saturating_add(place))
}

/// Runs a setup for so many periods.
#[must_use]
pub fn run(setup: Setup, periods: usize) -> Record {
    World::new(setup).run(periods)
}

/// Computes the time of one I/O at a capacity of `iops` I/Os per second; rounded to ns.
#[must_use]
pub fn time_of_io(iops: u64) -> Duration {
    Duration::from_nanos((1_000_000_000 + iops / 2).checked_div(iops).unwrap_or(u64::MAX))
}
