//! A fluid model of a bottleneck under kernels' own controllers: windows and limits in, queue and
//! marks out. Each flow has a path of its own beside the queue, and learns of the queue with the
//! delay of that path.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model: its numbers are small"
)]

use core::time::Duration;
use std::collections::VecDeque;

use units::{Class, PerClass};

use super::{ClassFlowId, ClassGoal, Link, Rules};
use crate::pacing::Answers;
use crate::{Nanos, Observation, Rate};

/// The kernel's answer to marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Kernel {
    /// The answer of DCTCP (Eq. 4).
    #[default]
    Dctcp,
    /// A cut once in a marked round trip, to this part (classic ECN: 0.5 Reno, 0.7 CUBIC).
    Cut(f64),
}

/// Sets the values of the first classes, and the default for the others.
pub(super) fn per_class<T: Copy + Default>(first: &[T]) -> PerClass<T> {
    PerClass::from_fn(|class| first.get(class.number()).copied().unwrap_or_default())
}

/// The bytes of payload in a packet.
pub(super) const MSS: f64 = 1448.0;
/// The bytes of acknowledgements for each byte of data: 66 on the wire for two full packets.
const ACKNOWLEDGEMENTS: f64 = 66.0 / (2.0 * MSS);
/// The model's step in seconds.
const STEP: f64 = 100e-6;
/// The steps between two observations of the flows.
const LOOK: u32 = 25;
/// The default round trip without the queue, in seconds.
pub(super) const BASE: f64 = 200e-6;

/// The bytes of a flow that the link carried in a step, and the marked bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    bytes: f64,
    marked: f64,
}

#[derive(Debug, Default)]
pub(super) struct Flow {
    id: Option<ClassFlowId>,
    kernel: Kernel,
    base: f64,
    window: f64,
    /// Whether the window has not been marked yet, and doubles in a round trip.
    slow_start: bool,
    alpha: f64,
    limit: f64,
    /// The most that the flow would send, in bytes per second.
    wants: f64,
    /// Whether the link is not told that the flow wants no more.
    pub(super) silent: bool,
    pub(super) on: bool,
    in_flight: f64,
    queued: f64,
    /// Bytes on their way to the receiver and back, by step.
    returning: VecDeque<Carried>,
    // The bytes since the last observation.
    seen: Carried,
    // The seconds, and the bytes, since the last round trip.
    trip: f64,
    tripped: Carried,
    /// Whether the window held the flow back in this round trip.
    window_limited: bool,
    /// The bytes since the last [`Bottleneck::run`] began.
    total: f64,
    /// The bytes that the sender has to send; infinite where no commands are modelled.
    ready: f64,
    /// Whether the limit meters the requests to the sender, not its data.
    asked: bool,
    /// The bytes that the sender was asked for, or waits to be asked for, and that have not arrived.
    owed: f64,
    /// The bytes that were ever sent.
    sent: f64,
    /// The bytes that the link carried in the last step.
    carried: f64,
    /// The smoothed rate, in bytes per second.
    rate: f64,
}

#[derive(Debug)]
pub(super) struct Bottleneck {
    pub(super) capacity: f64,
    pub(super) threshold: f64,
    queue: f64,
    pub(super) queued: f64,
    now: f64,
    looks: u32,
    pub(super) link: Link,
    pub(super) control: bool,
    pub(super) flows: Vec<Flow>,
    random: fastrand::Rng,
    /// The longest time in seconds for which all stands still ten times a second, as on a busy
    /// machine; 0: nothing does.
    pub(super) stalls: f64,
    /// The time of the last look.
    looked: f64,
    /// Time for which acknowledgements wait in the queue of the other direction, in seconds.
    reverse: f64,
    /// The bytes of acknowledgements in the queue, for data of the other direction.
    acknowledgements: f64,
    /// The bytes of data that the link carried in the last step.
    carried: f64,
}

impl Bottleneck {
    pub(super) fn new(mbit: f64, goals: &[ClassGoal], control: bool) -> Self {
        Self {
            capacity: mbit * 1e6 / 8.0,
            threshold: 60e3,
            queue: 0.0,
            queued: 0.0,
            now: 0.0,
            looks: 0,
            link: Link::new(per_class(goals), None, Rules::default()),
            control,
            flows: Vec::new(),
            random: fastrand::Rng::with_seed(0),
            reverse: 0.0,
            acknowledgements: 0.0,
            carried: 0.0,
            stalls: 0.0,
            looked: 0.0,
        }
    }

    pub(super) fn seed(&mut self, seed: u64) {
        self.random.seed(seed);
    }

    /// Adds a flow next to the queue. Returns its number.
    pub(super) fn flow(&mut self, class: Option<usize>, kernel: Kernel, wants: f64) -> usize {
        self.far_flow(class, kernel, wants, BASE)
    }

    /// Adds a flow whose round trip takes `base` seconds beside the queue. Returns its number.
    pub(super) fn far_flow(
        &mut self,
        class: Option<usize>,
        kernel: Kernel,
        wants: f64,
        base: f64,
    ) -> usize {
        let id = class.map(|class| self.link.add(Class::ALL[class]));
        self.flows.push(Flow {
            id,
            kernel,
            base,
            window: 10.0,
            slow_start: true,
            alpha: 1.0,
            limit: f64::INFINITY,
            wants: wants / 8.0,
            on: true,
            ready: f64::INFINITY,
            ..Flow::default()
        });
        self.flows.len() - 1
    }

    /// Starts or stops a flow; a stopped flow leaves its link.
    pub(super) fn turn(&mut self, index: usize, class: usize, on: bool) {
        let flow = &mut self.flows[index];
        flow.on = on;
        match (on, flow.id) {
            (false, Some(id)) => {
                self.link.remove(id);
                flow.id = None;
                flow.limit = f64::INFINITY;
            }
            (true, None) => flow.id = Some(self.link.add(Class::ALL[class])),
            _ => {}
        }
    }

    pub(super) fn run(&mut self, seconds: f64) {
        let end = self.begin(seconds);
        while self.now < end {
            self.step();
        }
        self.queued /= seconds;
    }

    /// Runs two directions of one link at once: acknowledgements of one wait in the queue of the
    /// other, and take their part of it.
    pub(super) fn run_both(&mut self, other: &mut Self, seconds: f64) {
        let end = self.begin(seconds);
        other.begin(seconds);
        while self.now < end {
            self.step_both(other);
        }
    }

    /// Begins a run. Returns the time of its end.
    fn begin(&mut self, seconds: f64) -> f64 {
        self.flows.iter_mut().for_each(|flow| flow.total = 0.0);
        self.queued = 0.0;
        self.now + seconds
    }

    /// Runs a step of two directions.
    fn step_both(&mut self, other: &mut Self) {
        self.acknowledge(other.carried);
        self.step();
        other.reverse = self.queue / self.capacity;
        other.acknowledge(self.carried);
        other.step();
        self.reverse = other.queue / other.capacity;
    }

    /// Adds the acknowledgements of data of the other direction to the queue.
    fn acknowledge(&mut self, data: f64) {
        let bytes = data * ACKNOWLEDGEMENTS;
        self.acknowledgements += bytes;
        self.queue += bytes;
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.stalls > 0.0 && self.random.f64() < 1e-3 {
            self.now += self.stalls * self.random.f64();
        }
        for index in 0..self.flows.len() {
            // A flow sends in bursts.
            let noise = 0.5 + self.random.f64();
            let flow = &mut self.flows[index];
            flow.receive();
            let sent = flow.sends(noise);
            flow.queued += sent;
            self.queue += sent;
        }
        let marked = self.queue > self.threshold;
        let served = (self.capacity * STEP / self.queue.max(1.0)).min(1.0);
        self.acknowledgements *= 1.0 - served;
        (self.queue, self.carried) = (self.acknowledgements, 0.0);
        for flow in &mut self.flows {
            let bytes = flow.queued * served;
            flow.queued -= bytes;
            flow.total += bytes;
            flow.carried = bytes;
            self.carried += bytes;
            self.queue += flow.queued;
            flow.return_in(self.reverse, bytes, marked);
        }
        self.queued += self.queue * STEP;
        let waits = self.queue / self.capacity;
        for flow in &mut self.flows {
            flow.trip += STEP;
            if flow.trip >= flow.base + waits + self.reverse {
                flow.end_trip();
            }
        }
        self.looks += 1;
        if self.looks.is_multiple_of(LOOK) {
            self.look(waits);
        }
    }

    fn look(&mut self, waits: f64) {
        let now = Nanos((self.now * 1e9) as u64);
        for flow in &mut self.flows {
            let Some(id) = flow.id else { continue };
            let rtt = flow.base + waits + self.reverse;
            let whole = (flow.seen.bytes / MSS).floor() * MSS;
            let marked = (flow.seen.marked.min(whole) / MSS).round();
            let empty = if flow.asked { flow.owed < MSS } else { flow.is_empty() };
            let seen = Observation {
                interval: Duration::from_secs_f64(self.now - self.looked),
                delivered: (whole / MSS) as u32,
                marked: marked as u32,
                bytes: whole as u64,
                rtt: Duration::from_secs_f64(rtt),
                mss: 1448,
                app_limited: !flow.on
                    || empty
                    || (!flow.silent && flow.wants < flow.limit.min(flow.window * MSS / rtt)),
            };
            flow.seen.bytes -= whole;
            flow.seen.marked = (flow.seen.marked - marked * MSS).clamp(0.0, flow.seen.bytes);
            let standing = self.link.observe(id, now, &seen);
            flow.rate = standing.rate.bytes();
            if self.control {
                flow.limit = standing.limit.map_or(f64::INFINITY, Rate::bytes);
            }
        }
        self.looked = self.now;
    }

    /// Returns the bytes of data that the link carries in a second beside the acknowledgements of as
    /// much data of the other direction.
    pub(super) fn data_capacity(&self) -> f64 {
        self.capacity / (1.0 + ACKNOWLEDGEMENTS)
    }

    /// Computes the bits per second of each flow in the last run, which took this many seconds.
    pub(super) fn rates(&self, seconds: f64) -> Vec<f64> {
        self.flows.iter().map(|flow| flow.total * 8.0 / seconds).collect()
    }
}

impl Flow {
    /// Sends the carried data on its way to the receiver and back.
    fn return_in(&mut self, reverse: f64, bytes: f64, marked: bool) {
        let steps = ((self.base + reverse) / STEP).round().max(1.0) as usize;
        if self.returning.len() < steps {
            self.returning.resize(steps, Carried::default());
        }
        let arrives = &mut self.returning[steps - 1];
        arrives.bytes += bytes;
        arrives.marked += if marked { bytes } else { 0.0 };
    }

    /// Handles the acknowledgements that arrive in this step.
    fn receive(&mut self) {
        let Some(carried) = self.returning.pop_front() else { return };
        self.in_flight -= carried.bytes;
        for count in [&mut self.seen, &mut self.tripped] {
            count.bytes += carried.bytes;
            count.marked += carried.marked;
        }
    }

    /// Returns whether nothing holds the flow back but that it has nothing to send.
    fn is_empty(&self) -> bool {
        self.ready < MSS && self.in_flight < self.window * MSS
    }

    /// Computes the bytes that the flow sends in a step.
    fn sends(&mut self, noise: f64) -> f64 {
        if !self.on {
            return 0.0;
        }
        let may = (self.window * MSS - self.in_flight).max(0.0);
        let limit = if self.asked { f64::INFINITY } else { self.limit };
        let paced = (limit.min(self.wants) * STEP * noise).min(self.ready);
        self.window_limited |= may <= paced;
        let sent = may.min(paced);
        self.in_flight += sent;
        self.ready -= sent;
        self.sent += sent;
        sent
    }

    fn end_trip(&mut self) {
        let Carried { bytes, marked } = self.tripped;
        let f = if bytes > 0.0 { marked / bytes } else { 0.0 };
        self.alpha = self.alpha * (15.0 / 16.0) + f / 16.0;
        if f > 0.0 {
            self.slow_start = false;
            self.window *= match self.kernel {
                Kernel::Dctcp => 1.0 - self.alpha / 2.0,
                Kernel::Cut(part) => part,
            };
        } else if self.window_limited {
            // A kernel's window does not grow while something else holds the flow back.
            self.window += if self.slow_start { self.window } else { 1.0 };
        }
        self.window = self.window.max(2.0);
        (self.trip, self.tripped, self.window_limited) = (0.0, Carried::default(), false);
    }
}

/// A step in the life of a command, which travels with the data of one direction.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// A command to read, on its way to the target.
    Read,
    /// A command to write, on its way to the target.
    Write,
    /// An R2T, on its way to the host.
    R2t,
    /// The answer to a write, on its way to the host.
    Written,
}

/// Words that wait behind data in one end of a connection, and those on their way.
#[derive(Debug, Default)]
struct Words {
    /// The data to be sent before each, as the count of bytes ever sent.
    behind: VecDeque<(f64, f64, Word)>,
    /// The time at which each arrives.
    under_way: VecDeque<(f64, f64, Word)>,
}

impl Words {
    /// Adds a word of `bytes` bytes of commands, behind `waiting` bytes of data in the sender.
    fn send(&mut self, sender: &Flow, waiting: f64, bytes: f64, word: Word) {
        if bytes > 0.0 {
            // A later word does not overtake.
            let last = self.behind.back().map_or(0.0, |last| last.0);
            self.behind.push_back(((sender.sent + waiting).max(last), bytes, word));
        }
    }

    /// Releases the words whose turn has come, and returns an arriving one.
    fn arrive(&mut self, now: f64, sender: &Flow, delay: f64) -> Option<(f64, Word)> {
        let sent = |word: &mut (f64, f64, Word)| sender.sent >= word.0 - 1.0;
        while let Some((_, bytes, word)) = self.behind.pop_front_if(sent) {
            let last = self.under_way.back().map_or(0.0, |last| last.0);
            self.under_way.push_back(((now + delay).max(last), bytes, word));
        }
        let (_, bytes, word) = self.under_way.pop_front_if(|word| word.0 <= now)?;
        Some((bytes, word))
    }
}

/// A connection of a host that reads and writes at once: a flow of the same number in each direction.
#[derive(Debug, Default)]
struct Connection {
    flow: usize,
    down: Words,
    up: Words,
    /// Data on its way to the host, and to the target.
    data: [VecDeque<(f64, f64)>; 2],
    /// The bytes of commands to write of which the host was not asked for data.
    fresh: f64,
    tokens: f64,
}

/// Both directions of a link, and hosts with commands on it.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) out: Bottleneck,
    pub(super) into: Bottleneck,
    connections: Vec<Connection>,
}

impl Commands {
    pub(super) fn new(out: Bottleneck, into: Bottleneck) -> Self {
        Self { out, into, connections: Vec::new() }
    }

    /// Joins flows of the same number in both directions to connections; each has `depth` bytes of
    /// reads and `depth` bytes of writes at once.
    pub(super) fn connect(&mut self, depth: f64) {
        for flow in 0..self.out.flows.len() {
            let (out, into) = (&mut self.out.flows[flow], &mut self.into.flows[flow]);
            (out.ready, into.ready) = (0.0, 0.0);
            into.asked = true;
            let mut up = Words::default();
            up.send(into, 0.0, depth, Word::Write);
            up.send(into, 0.0, depth, Word::Read);
            self.connections.push(Connection { flow, up, ..Connection::default() });
        }
    }

    pub(super) fn run(&mut self, seconds: f64) {
        let end = self.out.begin(seconds);
        self.into.begin(seconds);
        while self.out.now < end {
            self.out.step_both(&mut self.into);
            for connection in &mut self.connections {
                connection.step(&mut self.out, &mut self.into);
            }
        }
    }
}

impl Connection {
    fn step(&mut self, down: &mut Bottleneck, up: &mut Bottleneck) {
        let now = down.now;
        let (down_delay, up_delay) = (down.queue / down.capacity, up.queue / up.capacity);
        let (out, into) = (&mut down.flows[self.flow], &mut up.flows[self.flow]);
        let way = out.base / 2.0;
        for (data, flow) in self.data.iter_mut().zip([&mut *out, &mut *into]) {
            data.push_back((now + way, flow.carried));
        }
        let arrive = |data: &mut VecDeque<(f64, f64)>| data.pop_front_if(|data| data.0 <= now);
        let arrived = self.data.each_mut().map(|data| arrive(data).map_or(0.0, |data| data.1));
        // The host reads again; the target answers a write.
        self.up.send(into, into.ready, arrived[0], Word::Read);
        into.owed -= arrived[1];
        // The target's messages overtake its answers, except for handed-over ones. The kernel takes
        // a window more than it sends.
        let handed_over = Answers::Pieces(Rate::new(out.rate)).ahead() as f64;
        let ahead = out.ready.min(handed_over + out.window * MSS);
        self.down.send(out, ahead, arrived[1], Word::Written);
        // The pacer asks for data.
        self.tokens = (self.tokens + into.limit * STEP).min(into.limit * 0.004);
        let asks = self.fresh.min(self.tokens);
        self.fresh -= asks;
        self.tokens = if into.limit < f64::INFINITY { self.tokens - asks } else { 0.0 };
        self.down.send(out, ahead, asks, Word::R2t);
        while let Some((bytes, word)) = self.down.arrive(now, out, way + down_delay) {
            match word {
                Word::R2t => into.ready += bytes,
                _ => self.up.send(into, into.ready, bytes, Word::Write),
            }
        }
        while let Some((bytes, word)) = self.up.arrive(now, into, way + up_delay) {
            match word {
                Word::Read => out.ready += bytes,
                _ => (self.fresh, into.owed) = (self.fresh + bytes, into.owed + bytes),
            }
        }
    }
}
