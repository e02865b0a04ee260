//! A data node with a model of its capacity, under simulated time.
//!
//! An I/O goes through the NIC of its client, which does C_L of them in a second, travels to the
//! data node, and goes through the NIC there, which does C_G in a second in the order of their
//! arrival; then its completion travels back. Operations on words go the same way, take less of both
//! NICs, and take effect when the data node's is done with them. So clients with the same number of
//! I/Os under way get equal parts of a busy data node, as they do in the paper's Fig. 8 and 9.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::VecDeque;

use units::{Calendar, Nanos, nanos};

use super::memory::Memory;
use crate::monitor::Arrivals;
use crate::one_sided::{Completion, NotPosted, OneSided, Operation, Ticket};

/// The capacities of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nics {
    /// Time that an I/O takes of the data node's NIC: 1 / C_G.
    pub io_at_node: Duration,
    /// Time that an I/O takes of its client's NIC: 1 / C_L.
    pub io_at_client: Duration,
    /// Time that an operation on a word takes of each NIC. The paper does not give it.
    pub word: Duration,
    /// Time to travel, each way.
    pub travel: Duration,
    /// The part, in percent, by which the time at the data node varies evenly, up and down.
    pub jitter: u8,
}

/// The number of a connection to a [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId(usize);

impl PortId {
    /// Returns the number of connections that were made before this one.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// Work on its way to the data node.
#[derive(Clone, Copy, Debug)]
enum Work {
    Io,
    Word(Operation),
}

/// One connection.
#[derive(Debug)]
struct Link {
    /// Whether a client's NIC is in between.
    remote: bool,
    /// Time at which the client's NIC has completed all posted work.
    free: Nanos,
    /// Completions, with their time, the earliest first.
    done: VecDeque<(Nanos, Completion)>,
    /// Number of I/Os that the data node has carried out for it.
    ios: u64,
    /// Number of operations on words that it has carried out for it.
    words: u64,
    connected: bool,
}

/// A data node: words, and a NIC that serves I/Os and operations on words in order of arrival.
#[derive(Debug)]
pub struct Node {
    nics: Nics,
    memory: Memory,
    links: Vec<Link>,
    /// Operations on their way to the data node, each with the index of its link. An operation is dropped on
    /// arrival if its link is disconnected by then.
    arrivals: Calendar<(usize, Ticket, Work)>,
    /// Time at which the NIC has completed all arrived work.
    free: Nanos,
    /// Completions of all links, in order of their time.
    done: VecDeque<(Nanos, PortId)>,
    random: fastrand::Rng,
}

impl Node {
    /// Makes a data node of these words; `seed` decides how times vary.
    #[must_use]
    pub fn new(nics: Nics, memory: Memory, seed: u64) -> Self {
        Self {
            nics,
            memory,
            links: Vec::new(),
            arrivals: Calendar::new(),
            free: Nanos::ZERO,
            done: VecDeque::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a connection: of a client with a NIC of its own, or of the data node to itself.
    pub fn connect(&mut self, remote: bool) -> PortId {
        let (free, done) = (Nanos::ZERO, VecDeque::new());
        self.links.push(Link { remote, free, done, ios: 0, words: 0, connected: true });
        PortId(self.links.len() - 1)
    }

    /// Ends a connection: messages on their way are dropped, and later ones are refused.
    pub fn disconnect(&mut self, port: PortId) {
        if let Some(link) = self.links.get_mut(port.0) {
            link.connected = false;
            link.done.clear();
        }
    }

    /// Returns the data node's memory, which it reads and writes itself without its NIC.
    pub const fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Returns the number of I/Os carried out for a connection, like the counter of a NIC for each
    /// connection.
    #[must_use]
    pub fn ios(&self, port: PortId) -> u64 {
        self.links.get(port.0).map_or(0, |link| link.ios)
    }

    /// Returns how far the packets of a connection have come: one for each operation, and four for each
    /// I/O.
    #[must_use]
    pub fn arrivals(&self, port: PortId) -> Arrivals {
        let packets_per_io = NonZeroU64::MIN.saturating_add(3);
        let counts = self.links.get(port.0).map_or((0, 0), |link| (link.ios, link.words));
        let packets = counts.0.wrapping_mul(packets_per_io.get()).wrapping_add(counts.1);
        let next = u32::try_from(packets % (1 << 24)).unwrap_or(0);
        Arrivals { next, packets_per_io }
    }

    /// Returns access by a connection at the time `now`.
    pub const fn port(&mut self, port: PortId, now: Nanos) -> Port<'_> {
        Port { node: self, port, now }
    }

    /// Returns the time at which something happens next by itself.
    #[must_use]
    pub fn next_event(&self) -> Nanos {
        let done = self.done.front().map(|(at, _)| *at);
        self.arrivals.next_time().into_iter().chain(done).min().unwrap_or(Nanos::MAX)
    }

    /// Serves the work that has arrived by `now`. Must be called at each time of
    /// [`Self::next_event`].
    pub fn advance(&mut self, now: Nanos) {
        while let Some((at, (index, ticket, work))) = self.arrivals.pop_due(now) {
            self.serve(at, index, ticket, work);
        }
    }

    /// Returns a connection with a completion by `now` that was not yet returned here.
    pub fn ready(&mut self, now: Nanos) -> Option<PortId> {
        let (_, port) = self.done.pop_front_if(|(at, _)| *at <= now)?;
        Some(port)
    }

    /// Serves an arrival.
    fn serve(&mut self, at: Nanos, index: usize, ticket: Ticket, work: Work) {
        let Some(link) = self.links.get_mut(index).filter(|link| link.connected) else { return };
        let (time, result) = match work {
            Work::Io => {
                link.ios += 1;
                (varied(&mut self.random, self.nics.io_at_node, self.nics.jitter), Ok(0))
            }
            Work::Word(operation) => {
                link.words += 1;
                (self.nics.word, self.memory.carry_out(operation))
            }
        };
        self.free = self.free.max(at) + time;
        let travel = if link.remote { self.nics.travel } else { Duration::ZERO };
        // Completions of the data node's own operations could overtake travelling ones; they are
        // kept in order, so that the first one is always the next.
        let last = self.done.back().map_or(Nanos::ZERO, |(at, _)| *at);
        let done = (self.free + travel).max(last);
        link.done.push_back((done, Completion { ticket, result }));
        self.done.push_back((done, PortId(index)));
    }
}

/// Varies a time evenly by up to so many percent.
fn varied(random: &mut fastrand::Rng, time: Duration, percent: u8) -> Duration {
    let spread = nanos(time).saturating_mul(u64::from(percent)) / 100;
    if spread == 0 {
        return time;
    }
    let least = nanos(time).saturating_sub(spread);
    Duration::from_nanos(least.saturating_add(random.u64(0..=spread.saturating_mul(2))))
}

/// Access to a [`Node`] by one connection, at one time.
#[derive(Debug)]
pub struct Port<'a> {
    node: &'a mut Node,
    port: PortId,
    now: Nanos,
}

impl Port<'_> {
    /// Posts an I/O: the reading or writing of data, of which the model knows only the time.
    ///
    /// # Errors
    ///
    /// [`NotPosted::Disconnected`] where the connection has ended.
    pub fn io(&mut self, ticket: Ticket) -> Result<(), NotPosted> {
        self.send(ticket, Work::Io, self.node.nics.io_at_client)
    }

    fn send(&mut self, ticket: Ticket, work: Work, time: Duration) -> Result<(), NotPosted> {
        let Self { node, port: PortId(index), now } = self;
        let link = node.links.get_mut(*index).filter(|link| link.connected);
        let Some(link) = link else { return Err(NotPosted::Disconnected) };
        let arrival = if link.remote {
            link.free = link.free.max(*now) + time;
            link.free + node.nics.travel
        } else {
            *now
        };
        node.arrivals.insert(arrival, (*index, ticket, work));
        Ok(())
    }
}

impl OneSided for Port<'_> {
    fn post(&mut self, ticket: Ticket, operation: Operation) -> Result<(), NotPosted> {
        self.send(ticket, Work::Word(operation), self.node.nics.word)
    }

    fn completed(&mut self) -> Option<Completion> {
        let link = self.node.links.get_mut(self.port.0)?;
        if !link.connected {
            return None;
        }
        let (_, completion) = link.done.pop_front_if(|(at, _)| *at <= self.now)?;
        Some(completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NICS: Nics = Nics {
        io_at_node: Duration::from_nanos(600),
        io_at_client: Duration::from_nanos(2500),
        word: Duration::from_nanos(20),
        travel: Duration::from_nanos(1000),
        jitter: 0,
    };

    /// Runs until nothing happens any more. Returns the time and the ticket of each completion.
    fn run(node: &mut Node) -> Vec<(u64, u64)> {
        let mut done = Vec::new();
        loop {
            let now = node.next_event();
            if now == Nanos::MAX {
                return done;
            }
            node.advance(now);
            while let Some(port) = node.ready(now) {
                let completion = node.port(port, now).completed().unwrap();
                done.push((now.0, completion.ticket.0));
            }
        }
    }

    #[test]
    fn io_passes_both_nics_and_round_trip() {
        let mut node = Node::new(NICS, Memory::new(1), 0);
        let (one, two) = (node.connect(true), node.connect(true));
        for ticket in [1, 2] {
            node.port(one, Nanos(0)).io(Ticket(ticket)).unwrap();
        }
        node.port(two, Nanos(0)).io(Ticket(3)).unwrap();
        assert_eq!(run(&mut node), [(5100, 1), (5700, 3), (7600, 2)]);
        assert_eq!([node.ios(one), node.ios(two)], [2, 1]);
        assert_eq!(node.arrivals(one).next, 8);
    }

    #[test]
    fn operations_on_words_take_effect_in_order_of_arrival() {
        let mut node = Node::new(NICS, Memory::new(1), 0);
        let (client, own) = (node.connect(true), node.connect(false));
        let at = Memory::address(0);
        node.port(client, Nanos(0)).fetch_add(Ticket(1), at, -5).unwrap();
        let swap = Operation::CompareSwap { at, expected: 0, new: 9 };
        node.port(own, Nanos(1000)).post(Ticket(2), swap).unwrap();
        assert_eq!(run(&mut node), [(1020, 2), (2040, 1)]);
        assert_eq!(node.memory().get(at), Some(4));
        assert_eq!(node.arrivals(client).next, 1);
    }

    #[test]
    fn ended_connection_accepts_nothing() {
        let mut node = Node::new(NICS, Memory::new(1), 0);
        let port = node.connect(true);
        node.port(port, Nanos(0)).io(Ticket(1)).unwrap();
        node.disconnect(port);
        assert_eq!(node.port(port, Nanos(0)).io(Ticket(1)), Err(NotPosted::Disconnected));
        assert_eq!(run(&mut node), []);
        assert_eq!(node.ios(port), 0);
    }

    #[test]
    fn jitter_is_bounded_and_reproducible() {
        let times = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            [(); 50].map(|()| varied(&mut random, Duration::from_nanos(600), 10).as_nanos())
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        assert!(times(1).iter().all(|time| (540..=660).contains(time)));
    }
}
