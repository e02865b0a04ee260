//! A reactor: its turns, and the operations that follow a turn.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use fabric::controller::{ListenerId, QueueKind};
use fabric::queue::Either;
use fabric::rdma::wire::TargetQueue;
use fabric::tcp::{TargetConnection, TargetParams};
use sluice_core::testing::{self, Op, Receive, Seen};
use sluice_core::{Accepted, Core, Job, Key, Load};
use units::Nanos;

use super::address::address_of;
use super::disk::{Machine, Shared, Zeroes};
use super::pairs::PairParams;
use crate::connection::Connection;
use crate::plan::Costs;

/// The listener of all connections over TCP, and the one for RDMA.
pub(crate) const LISTENER: ListenerId = ListenerId(1);
pub(crate) const LISTENER_RDMA: ListenerId = ListenerId(2);
/// The shortest turn, in ns: a reactor that polls looks around about as often.
const SHORTEST: f64 = 500.0;
/// The most bytes that one receive brings into the kernel's buffers, as the daemon has them.
const CHUNK: usize = 64 << 10;
/// The most bytes that are received from a connection in a turn, as in the daemon.
const RECEIVED_MAX: usize = 1 << 20;
/// The most bytes that one receive reads after the rest of a command's buffer.
const REST: usize = 4096;

/// An input that a reactor handles in its turn.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box of a job would cost more than its moves")]
pub(crate) enum Input {
    Accept(usize),
    Core(testing::Input<Zeroes>),
}

impl From<testing::Input<Zeroes>> for Input {
    fn from(input: testing::Input<Zeroes>) -> Self {
        Self::Core(input)
    }
}

/// An operation that follows the end of a turn.
#[derive(Debug)]
pub(crate) enum Wish {
    Core(Op),
    /// A queue pair's connection is accepted.
    Answer(Key),
}

#[derive(Debug)]
pub(crate) struct Reactor {
    number: usize,
    pub(crate) core: Core<Machine>,
    inbox: VecDeque<Input>,
    /// Connections that something may be received from.
    ready: VecDeque<usize>,
    /// The connection of each key.
    keys: HashMap<Key, usize>,
    /// Connections that are on their way to it.
    coming: u64,
    /// Time of its next turn; turns that were planned for another time do not happen.
    next: Option<Nanos>,
    /// Until when its last turn takes.
    busy: Nanos,
    /// Operations that follow the last turn.
    wishes: Vec<Wish>,
    /// I/O queues that its connections became.
    io_queues: u64,
    /// Words of connections that have ended otherwise than by their hosts.
    faults: Vec<(Key, String)>,
    /// Commands that turns were charged for.
    charged: u64,
    params: TargetParams,
    pairs: PairParams,
    costs: Costs,
}

impl Reactor {
    pub(crate) fn new(
        number: usize,
        core: Core<Machine>,
        (params, pairs): (TargetParams, PairParams),
        costs: Costs,
    ) -> Self {
        Self {
            number,
            core,
            inbox: VecDeque::new(),
            ready: VecDeque::new(),
            keys: HashMap::new(),
            coming: 0,
            next: None,
            busy: Nanos(0),
            wishes: Vec::new(),
            io_queues: 0,
            faults: Vec::new(),
            charged: 0,
            params,
            pairs,
            costs,
        }
    }

    /// Returns its load, for the choice of a reactor for a new connection.
    pub(crate) fn load(&mut self) -> Load {
        let connections = u64::try_from(self.keys.len()).unwrap_or(0);
        Load {
            io_queues: self.io_queues,
            waiting: self.coming,
            connections: connections + self.coming,
        }
    }

    pub(crate) fn connection_of(&self, key: Key) -> Option<usize> {
        self.keys.get(&key).copied()
    }

    /// Adds an input to its inbox. Returns the time of the turn that handles it, if that was not planned before.
    pub(crate) fn put(&mut self, now: Nanos, input: Input) -> Option<Nanos> {
        if matches!(input, Input::Accept(_)) {
            self.coming += 1;
        }
        self.inbox.push_back(input);
        self.plan(now)
    }

    /// Lists a connection from which something may be received. Returns as [`Self::put`] does.
    pub(crate) fn list(
        &mut self,
        now: Nanos,
        index: usize,
        connection: &mut Connection,
    ) -> Option<Nanos> {
        if enlist(&mut self.ready, index, connection) { self.plan(now) } else { None }
    }

    /// Plans a turn at a time, or as soon as it may be. Returns its time, where no turn was planned as
    /// early.
    pub(crate) fn plan(&mut self, at: Nanos) -> Option<Nanos> {
        let at = at.max(self.busy);
        if self.next.is_some_and(|next| next <= at) {
            return None;
        }
        self.next = Some(at);
        Some(at)
    }

    /// Returns whether a turn is planned for this time.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.next == Some(now)
    }

    /// Runs a turn. Returns the time at which it ends: then [`Self::take_wishes`] returns its operations, and another
    /// turn may follow at the time of [`Self::planned`].
    pub(crate) fn turn(
        &mut self,
        now: Nanos,
        connections: &mut [Connection],
        shared: &Rc<Shared>,
    ) -> Nanos {
        self.next = None;
        self.core.set_time(now);
        self.core.driver().now = now;
        if self.core.has_changes() {
            self.core.change();
        }
        self.core.begin();
        while let Some(input) = self.inbox.pop_front() {
            match input {
                Input::Accept(index) => self.accept(index, connections, shared),
                Input::Core(input) => drop(input.put(&mut self.core)),
            }
        }
        self.apply_receives(connections);
        let mut received = 0;
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            if let Some(connection) = connections.get_mut(index) {
                connection.listed = false;
            }
            received += self.receive(index, connections);
        }
        self.core.settle();
        if self.core.has_tallies() {
            self.core.record(now);
        }
        self.core.end();
        self.apply_receives(connections);
        let idle_until = self.core.idle_until();
        self.apply_receives(connections);
        self.keep_wishes();
        for (key, seen) in self.core.driver().seen.drain(..) {
            self.io_queues += u64::from(matches!(seen, Seen::Connected(QueueKind::Io, _)));
            self.faults.extend(fault(seen).map(|why| (key, why)));
        }
        self.busy = Nanos(now.0.saturating_add(self.cost(received)));
        let busy_now = idle_until.is_none() || !self.ready.is_empty();
        self.next =
            Some(if busy_now { self.busy } else { idle_until.unwrap_or(now).max(self.busy) });
        self.busy
    }

    /// Returns the time of the turn that is planned.
    pub(crate) fn planned(&self) -> Option<Nanos> {
        self.next
    }

    /// Keeps the core's operations until the turn is over.
    fn keep_wishes(&mut self) {
        self.wishes.extend(self.core.driver().ops.drain(..).map(Wish::Core));
    }

    /// Removes and returns the operations of the last turn.
    pub(crate) fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// Keeps the vector of [`Self::take_wishes`], emptied, for the next turn.
    pub(crate) fn keep_vector(&mut self, wishes: Vec<Wish>) {
        debug_assert!(wishes.is_empty(), "all of it is done");
        if self.wishes.is_empty() {
            self.wishes = wishes;
        }
    }

    /// Removes the commands that the last turn has submitted to their devices.
    pub(crate) fn take_jobs(&mut self) -> Vec<Job<Machine>> {
        std::mem::take(&mut self.core.driver().jobs)
    }

    /// Removes the reasons of connections that ended otherwise than by their hosts.
    pub(crate) fn take_faults(&mut self) -> Vec<(usize, String)> {
        let faults = std::mem::take(&mut self.faults);
        let named = |(key, why)| Some((self.connection_of(key)?, why));
        faults.into_iter().filter_map(named).collect()
    }

    /// Forgets a connection that has ended.
    pub(crate) fn forget(&mut self, key: Key) -> Option<usize> {
        self.keys.remove(&key)
    }

    /// Computes the CPU time of a turn that received so many bytes, in ns.
    fn cost(&mut self, received: usize) -> u64 {
        let completed = self.core.driver().completed();
        let commands = completed - self.charged;
        self.charged = completed;
        let sent: usize = self
            .wishes
            .iter()
            .map(|wish| match wish {
                Wish::Core(Op::Send(_, Either::Left(batch))) => {
                    batch.slices().map(<[u8]>::len).sum()
                }
                // A device moves the data of a queue pair.
                _ => 0,
            })
            .sum();
        let Costs { turn_ns, command_ns, sent_byte_ns, received_byte_ns } = self.costs;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "commands and bytes of one turn"
        )]
        let ns = (turn_ns
            + command_ns * commands as f64
            + sent_byte_ns * sent as f64
            + received_byte_ns * received as f64)
            .max(SHORTEST) as u64;
        ns
    }

    fn accept(&mut self, index: usize, connections: &mut [Connection], shared: &Rc<Shared>) {
        self.coming = self.coming.saturating_sub(1);
        let Some(connection) = connections.get_mut(index) else { return };
        let address = address_of(connection.host);
        let (transport, listener) = match connection.pair {
            None => (Either::Left(TargetConnection::new(self.params)), LISTENER),
            Some(_) => {
                let queue = TargetQueue::new(self.pairs.of(connection.qid));
                (Either::Right(queue), LISTENER_RDMA)
            }
        };
        let key = self.core.accept(Accepted {
            transport,
            listener,
            peer: address,
            tos: Some(connection.dscp << 2),
            stats: Arc::default(),
            in_flight: Arc::default(),
        });
        self.keys.insert(key, index);
        connection.key = Some(key);
        let id = key.id(self.number);
        shared.with_service(|service| service.accepted(id, address));
        if listener == LISTENER_RDMA {
            self.keep_wishes();
            self.wishes.push(Wish::Answer(key));
        }
        self.core.start(key);
    }

    /// Receives from a connection as the core wants it. Returns how many bytes that were.
    fn receive(&mut self, index: usize, connections: &mut [Connection]) -> usize {
        let mut received = 0;
        while received < RECEIVED_MAX {
            let Some(connection) = connections.get_mut(index) else { break };
            let Some(key) = connection.key else { break };
            let capsules = connection.pair.as_ref().map_or(0, |pair| pair.capsules.len());
            let readable = connection.up.readable().max(capsules);
            if connection.receive.is_none() {
                break;
            }
            if connection.stopping || (readable == 0 && connection.cut) {
                connection.stopping = false;
                connection.receive = None;
                let lost = connection.cut && readable == 0;
                self.core.receive_ended(key, lost.then(|| "it was cut".into()));
                self.apply_receives(connections);
                if lost {
                    break;
                }
                continue;
            }
            if readable == 0 {
                break;
            }
            let Some(mode) = connection.receive.take() else { break };
            if let Some(pair) = &mut connection.pair {
                let list = std::mem::take(&mut pair.capsules);
                let chunk = Either::Right(&list[..]);
                received += list.iter().map(Vec::len).sum::<usize>();
                match mode {
                    Receive::Once(_) => {
                        self.core.received_once(key, None, 0, chunk);
                    }
                    _ => self.core.received(key, chunk),
                }
                self.core.caught_up(key);
                if matches!(mode, Receive::Chunks) {
                    connection.receive = Some(mode);
                } else if matches!(mode, Receive::Chunk) {
                    self.core.receive_ended(key, None);
                }
                self.apply_receives(connections);
                continue;
            }
            match mode {
                Receive::Once(mut place) => {
                    let into = place.as_mut().map_or(0, |place| place.bytes_mut().len());
                    let placed = into.min(readable);
                    connection.up.consume(placed);
                    let rest = connection.up.front(REST);
                    let length = rest.len();
                    self.core.received_once(key, place, placed, Either::Left(rest));
                    connection.up.consume(length);
                    if connection.up.front(1).is_empty() {
                        self.core.caught_up(key);
                    }
                    received += placed + length;
                }
                mode => {
                    let chunk = connection.up.front(CHUNK);
                    let length = chunk.len();
                    self.core.received(key, Either::Left(chunk));
                    connection.up.consume(length);
                    if connection.up.front(1).is_empty() {
                        self.core.caught_up(key);
                    }
                    received += length;
                    if matches!(mode, Receive::Chunks) {
                        connection.receive = Some(mode);
                    } else {
                        self.core.receive_ended(key, None);
                    }
                }
            }
            self.apply_receives(connections);
        }
        if let Some(connection) = connections.get_mut(index) {
            enlist(&mut self.ready, index, connection);
        }
        received
    }

    /// Changes how connections are received from, as the core has asked for.
    fn apply_receives(&mut self, connections: &mut [Connection]) {
        let mut receives = std::mem::take(&mut self.core.driver().receives);
        for (key, how) in receives.drain(..) {
            let Some(&index) = self.keys.get(&key) else { continue };
            let Some(connection) = connections.get_mut(index) else { continue };
            match how {
                // A receive that has ended already is not there to be stopped.
                None => {
                    connection.stopping =
                        matches!(connection.receive, Some(Receive::Chunks | Receive::Chunk));
                }
                Some(how) => {
                    debug_assert!(
                        connection.receive.is_none(),
                        "a connection is received from once at a time"
                    );
                    (connection.receive, connection.stopping) = (Some(how), false);
                }
            }
            enlist(&mut self.ready, index, connection);
        }
        self.core.driver().receives = receives;
    }
}

/// Returns why a connection ends, unless its host ended it.
fn fault(seen: Seen) -> Option<String> {
    match seen {
        Seen::Connected(..) | Seen::Terminated(_) => None,
        Seen::Ending(why) => Some(why),
        Seen::Refused(_, reason) => Some(format!("{reason:?}")),
        Seen::BrokeProtocol(violation) => Some(violation),
        Seen::KeepAliveExpired => Some("no Keep Alive came".to_owned()),
        Seen::NoConnect => Some("no Connect came".to_owned()),
        Seen::TooSlow(why) => Some(why.to_owned()),
    }
}

/// Puts a connection with input on the list of ready connections, unless it is listed. Returns whether it was added.
fn enlist(ready: &mut VecDeque<usize>, index: usize, connection: &mut Connection) -> bool {
    if connection.listed || !connection.has_input() {
        return false;
    }
    connection.listed = true;
    ready.push_back(index);
    true
}
