//! A reactor: its turns, and what it wants done when a turn is over.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use fabric::controller::{Action, ListenerId};
use fabric::queue::{Either, Fetch};
use fabric::rdma::wire::TargetQueue;
use fabric::tcp::{TargetConnection, TargetParams};
use sluice_core::{Accepted, Core, Ended, Key, Load, Started};
use units::Nanos;

use super::address::address_of;
use super::driver::{Machine, Op, Shared};
use super::pairs::PairParams;
use crate::connection::{Batch, Connection, Receive};
use crate::payload::Place;
use crate::plan::Costs;

/// The listener of all connections over TCP, and that of those over RDMA.
pub(crate) const LISTENER: ListenerId = ListenerId(1);
pub(crate) const LISTENER_RDMA: ListenerId = ListenerId(2);
/// The shortest turn, in ns: a reactor that polls looks around about as often.
const SHORTEST: f64 = 500.0;
/// The most bytes that one receive brings into the kernel's buffers, as the daemon has them.
const CHUNK: usize = 64 << 10;
/// The most bytes that are received from a connection in a turn, as in the daemon.
const RECEIVED_MAX: usize = 1 << 20;
/// The most bytes that follow what is received into a command's buffer.
const REST: usize = 4096;

/// What a reactor finds when its turn comes.
#[derive(Debug)]
pub(crate) enum Input {
    Accept(usize),
    Sent(Key, Batch, bool),
    /// A READ is over: its data where it had no place, and whether it was lost.
    Fetched(Key, Fetch, Option<Place>, Vec<u8>, bool),
    JobEnded(Box<Ended<Machine>>),
    Act(Action),
}

/// A reactor.
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
    /// What the last turn wants done at its end.
    ops: Vec<Op>,
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
            ops: Vec::new(),
            charged: 0,
            params,
            pairs,
            costs,
        }
    }

    /// Returns what it has to do, for the choice of a reactor for a new connection.
    pub(crate) fn load(&mut self) -> Load {
        let connections = u64::try_from(self.keys.len()).unwrap_or(0);
        let io_queues = self.core.driver().io_queues;
        Load { io_queues, waiting: self.coming, connections: connections + self.coming }
    }

    /// Returns the connection of a key.
    pub(crate) fn connection_of(&self, key: Key) -> Option<usize> {
        self.keys.get(&key).copied()
    }

    /// Puts something into its inbox. Returns the time of the turn that takes it, where that was not
    /// planned before.
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

    /// Says whether a turn is planned for this time.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.next == Some(now)
    }

    /// Takes a turn. Returns the time at which the turn is over: then [`Self::take_ops`] has what it
    /// wants done, and a turn may follow at the time that [`Self::planned`] tells.
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
                Input::Sent(key, batch, lost) => {
                    self.core.sent(key, batch, lost.then(|| "it was cut".into()));
                }
                Input::Fetched(key, fetch, place, bytes, lost) => {
                    let lost = lost.then(|| "it was cut".into());
                    self.core.fetched(key, (&fetch, &bytes), place, lost);
                }
                Input::JobEnded(ended) => {
                    let key = ended.job.connection();
                    self.core.job_ended(key, Started::<Machine>::Ended(*ended));
                }
                Input::Act(action) => self.core.act(action),
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
        self.ops.append(&mut self.core.driver().ops);
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

    /// Takes what the last turn wants done.
    pub(crate) fn take_ops(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.ops)
    }

    /// Gives back the vector of [`Self::take_ops`], emptied.
    pub(crate) fn keep_ops(&mut self, ops: Vec<Op>) {
        debug_assert!(ops.is_empty(), "all of it is done");
        if self.ops.is_empty() {
            self.ops = ops;
        }
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
            .ops
            .iter()
            .map(|op| match op {
                Op::Send(_, Either::Left(batch)) => batch.slices().map(<[u8]>::len).sum(),
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

    /// Takes a connection in.
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
            self.core.driver().ops.push(Op::Answer(key));
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
            if matches!(connection.receive, Receive::None) {
                break;
            }
            if connection.stopping || (readable == 0 && connection.cut) {
                connection.stopping = false;
                connection.receive = Receive::None;
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
            let mode = std::mem::replace(&mut connection.receive, Receive::None);
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
                if matches!(mode, Receive::Chunks) {
                    connection.receive = mode;
                } else if matches!(mode, Receive::Chunk) {
                    self.core.receive_ended(key, None);
                }
                self.apply_receives(connections);
                continue;
            }
            match mode {
                Receive::None => break,
                Receive::Once(mut place) => {
                    let into = place.as_mut().map_or(0, |place| place.bytes_mut().len());
                    let placed = into.min(readable);
                    connection.up.consume(placed);
                    let rest = connection.up.front(REST);
                    let length = rest.len();
                    self.core.received_once(key, place, placed, Either::Left(rest));
                    connection.up.consume(length);
                    received += placed + length;
                }
                mode => {
                    let chunk = connection.up.front(CHUNK);
                    let length = chunk.len();
                    self.core.received(key, Either::Left(chunk));
                    connection.up.consume(length);
                    received += length;
                    if matches!(mode, Receive::Chunks) {
                        connection.receive = mode;
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
                        matches!(connection.receive, Receive::Chunks | Receive::Chunk);
                }
                Some(how) => {
                    debug_assert!(
                        matches!(connection.receive, Receive::None),
                        "a connection is received from once at a time"
                    );
                    (connection.receive, connection.stopping) = (how, false);
                }
            }
            enlist(&mut self.ready, index, connection);
        }
        self.core.driver().receives = receives;
    }
}

/// Puts a connection with input on the list of those that are ready, unless it is there. Says whether it was
/// put there.
fn enlist(ready: &mut VecDeque<usize>, index: usize, connection: &mut Connection) -> bool {
    if connection.listed || !connection.has_input() {
        return false;
    }
    connection.listed = true;
    ready.push_back(index);
    true
}
