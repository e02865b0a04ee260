//! A network, packet by packet: senders with windows, and one link with an output queue that marks.
//!
//! - [`time`]: times in picoseconds.
//! - [`port`]: the queue of an output port, and its link; [`sender`]: a sender and its controller.
//! - [`traffic`]: sources of requests; [`shares`]: the targets of classes.
//! - [`record`]: the measurements of a run.
//! - [`bottleneck`]: classes on one link; [`scenario`]: the same as a file.
//!
//! A packet costs two events: it has been sent, and its acknowledgement arrives. Nothing is allocated for one: queues keep their room.

pub(crate) mod bottleneck;
pub(crate) mod port;
pub(crate) mod record;
pub(crate) mod scenario;
pub(crate) mod sender;
pub(crate) mod shares;
pub(crate) mod time;
pub(crate) mod traffic;

#[cfg(test)]
mod tests;

use units::Calendar;

use self::port::{Port, PortSetup};
use self::record::{Completion, Record};
use self::sender::{Sender, SenderSetup};
use self::shares::Shares;
use self::time::Time;
use self::traffic::{Source, SourceSetup};

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The link has sent the first packet of its queue.
    Sent,
    /// An acknowledgement arrives at a flow's sender.
    Acked(u32),
    /// The next request of a source.
    Request(u32),
    /// A flow joins its class, with endless data or waiting for requests.
    Start { flow: u32, endless: bool },
    /// A flow ends, and leaves its class.
    Stop(u32),
    /// A round trip ends in which the classes' throughput was counted.
    Note,
}

/// The traffic of all flows of classes since the last note.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    /// The time between two notes.
    every: Time,
    /// Bytes of payload that were acknowledged.
    bytes: u64,
    /// Whether one of them was in a packet that was marked.
    marked: bool,
}

/// The link, flows and sources, and the time.
#[derive(Debug)]
pub(crate) struct Network {
    events: Calendar<Event, Time>,
    now: Time,
    handled: u64,
    link: Port,
    flows: Vec<Sender>,
    sources: Vec<Source>,
    shares: Option<Shares>,
    noted: Noted,
    record: Record,
}

impl Network {
    /// Makes a network without flows.
    pub(crate) fn new(link: PortSetup, record: Record) -> Self {
        Self {
            events: Calendar::new(),
            now: 0,
            handled: 0,
            link: Port::new(link),
            flows: Vec::new(),
            sources: Vec::new(),
            shares: None,
            noted: Noted::default(),
            record,
        }
    }

    /// Sets the shares of classes. The targets of flows follow as flows come and go.
    pub(crate) fn share(&mut self, shares: Shares) {
        self.shares = Some(shares);
    }

    /// Enables the detection of the capacity that is left to the classes (Fig. 15a), with one lambda for all flows,
    /// which is noted every `trip`.
    pub(crate) fn detect(&mut self, trip: Time, sigma: f64, floor: f64) {
        if let Some(shares) = &mut self.shares {
            shares.detect(sigma, floor);
            self.noted = Noted { every: trip.max(1), ..Noted::default() };
            self.events.insert(self.now + self.noted.every, Event::Note);
        }
    }

    /// Adds a flow, which does nothing until it is started. Returns its number.
    pub(crate) fn flow(&mut self, setup: SenderSetup) -> u32 {
        let number = number(self.flows.len() + 1);
        self.flows.push(Sender::new(setup, number));
        self.record.flow();
        number
    }

    /// Adds a source of requests that begins at a time.
    pub(crate) fn source(&mut self, setup: SourceSetup, seed: u64, at: Time) {
        let mut source = Source::new(setup, seed);
        let first = at + source.gap();
        self.sources.push(source);
        self.events.insert(first, Event::Request(number(self.sources.len())));
    }

    /// Adds a flow to its class. With `endless` the flow always has something to send, else it sends the requests of
    /// sources.
    pub(crate) fn start(&mut self, flow: u32, endless: bool, at: Time) {
        self.events.insert(at, Event::Start { flow, endless });
    }

    /// Ends a flow, which leaves its class.
    pub(crate) fn stop(&mut self, flow: u32, at: Time) {
        self.events.insert(at, Event::Stop(flow));
    }

    /// Runs until a time.
    pub(crate) fn run(&mut self, end: Time) {
        while let Some((time, event)) = self.events.pop_due(end) {
            self.now = time;
            self.handled += 1;
            self.handle(event);
        }
        self.now = end;
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Sent => self.sent(),
            Event::Acked(flow) => self.acked(flow),
            Event::Request(source) => self.request(source),
            Event::Start { flow, endless } => self.started(flow, endless),
            Event::Stop(flow) => self.stopped(flow),
            Event::Note => self.note(),
        }
    }

    #[inline]
    fn sent(&mut self) {
        let Some((packet, next)) = self.link.done() else { return };
        if let Some(time) = next {
            self.events.insert(self.now + time, Event::Sent);
        }
        let Some(flow) = self.flows.get_mut(packet.flow as usize) else { return };
        flow.arrive(packet);
        let arrives = self.now + self.link.delay();
        self.events.insert(arrives + flow.setup().back, Event::Acked(packet.flow));
    }

    #[inline]
    fn acked(&mut self, number: u32) {
        let Some(flow) = self.flows.get_mut(number as usize) else { return };
        if flow.setup().class.is_some() {
            self.noted.bytes += u64::from(flow.setup().payload);
            self.noted.marked |= flow.marked();
        }
        let completed = flow.acknowledge(self.now);
        self.record.delivered(self.now, number as usize, flow.setup().payload);
        if let Some(request) = completed {
            let completion = Completion { given: request.given, time: self.now, flow: number };
            self.record.completions.push(completion);
        }
        self.send(number);
    }

    /// Sends the packets that a flow's window allows.
    #[inline]
    fn send(&mut self, number: u32) {
        while let Some(packet) =
            self.flows.get_mut(number as usize).and_then(|flow| flow.send(self.now))
        {
            if let Some(time) = self.link.join(packet) {
                self.events.insert(self.now + time, Event::Sent);
            }
        }
    }

    fn request(&mut self, number: u32) {
        let Some(source) = self.sources.get_mut(number as usize) else { return };
        let next = self.now + source.gap();
        let request = source.request();
        self.events.insert(next, Event::Request(number));
        if let Some((flow, bytes)) = request {
            self.give(flow, bytes);
        }
    }

    /// Adds a request to a flow now.
    fn give(&mut self, number: u32, bytes: u64) {
        if let Some(flow) = self.flows.get_mut(number as usize) {
            flow.give(self.now, bytes);
            self.send(number);
        }
    }

    fn started(&mut self, number: u32, endless: bool) {
        let Some(flow) = self.flows.get_mut(number as usize) else { return };
        if endless {
            flow.open();
        }
        if let (Some(class), Some(shares)) = (flow.setup().class, &mut self.shares) {
            shares.join(class);
            self.set_target(class);
        }
        self.send(number);
    }

    fn stopped(&mut self, number: u32) {
        let Some(flow) = self.flows.get_mut(number as usize) else { return };
        flow.close();
        if let (Some(class), Some(shares)) = (flow.setup().class, &mut self.shares) {
            shares.leave(class);
            self.set_target(class);
        }
    }

    /// Notes the traffic of the classes in the round trip that ends, and sets the targets of all flows if these have
    /// changed.
    fn note(&mut self) {
        let Noted { every, bytes, marked } = self.noted;
        self.noted = Noted { every, ..Noted::default() };
        self.events.insert(self.now + every, Event::Note);
        let Some(shares) = &mut self.shares else { return };
        if shares.note(bytes as f64 / time::seconds(every), marked) {
            let classes = shares.classes();
            (0..classes).for_each(|class| self.set_target(class));
        }
    }

    /// Sets the present target of a class's flows.
    fn set_target(&mut self, class: usize) {
        let Some(target) = self.shares.as_ref().map(|shares| shares.target(class)) else { return };
        let of_class = |flow: &&mut Sender| flow.setup().class == Some(class);
        self.flows.iter_mut().filter(of_class).for_each(|flow| flow.set_target(target));
    }

    /// Returns how many events have been handled.
    pub(crate) const fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns when each unfinished transfer of a flow was given.
    pub(crate) fn waiting(&self, flow: u32) -> impl Iterator<Item = Time> {
        self.flows.get(flow as usize).into_iter().flat_map(Sender::waiting)
    }

    /// Returns the measurements.
    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }
}

/// Computes the number of the last of `count`.
fn number(count: usize) -> u32 {
    u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX)
}
