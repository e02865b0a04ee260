//! One reactor's connections and commands: what has happened goes in, what follows is done.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use arbitration::arbiter::{Dispatched, Pull, Waiters};
use fabric::Nanos;
use fabric::controller::{Action, CloseReason, ListenerId};
use fabric::queue::SlotId;
use fabric::tcp::Batch;

use crate::connection::{Connection, Stage};
use crate::context::{Context, Settings};
use crate::driver::{Buffer, Driver, End, Memory, Notice};
use crate::job::Started;
use crate::key::Key;
use crate::payload::TxData;
use crate::stats::IoStats;

/// How long a connection may take to send Connect, in ns.
const CONNECT_TIME_NS: u64 = 10_000_000_000;
/// How long a host may owe data that it was asked for, or the rest of a PDU, in ns.
const DATA_TIME_NS: u64 = 30_000_000_000;
/// How often a reactor looks after what has no event of its own.
const CHORES: Duration = Duration::from_millis(100);
/// How often it does so while it settles what it has, to end.
const DRAIN_CHORES: Duration = Duration::from_millis(2);
/// How long hosts wait at most before it is seen again whether they may be asked for data.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// A connection that has just been accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// The ToS or traffic class byte that the host connected with.
    pub tos: Option<u8>,
    /// Where its commands are counted.
    pub stats: Arc<IoStats>,
    /// Where the number of its commands in the target is written.
    pub in_flight: Arc<AtomicU32>,
}

/// One reactor's connections and their commands.
///
/// A turn of whoever drives it: [`set_time`](Self::set_time); [`begin`](Self::begin); what has
/// happened (`received`, `sent`, `job_ended`, …) in batches, each followed by
/// [`settle`](Self::settle); [`end`](Self::end). Then it may rest for as long as
/// [`rest`](Self::rest) says.
#[derive(Debug)]
pub struct Core<D: Driver> {
    pub(crate) io: Context<D>,
    pub(crate) places: Vec<Place<D>>,
    free: Vec<u32>,
    /// Connections whose receive has ended and is to begin again.
    rearm: Vec<Key>,
    next_chores: Nanos,
    /// When draining must be over.
    drain_until: Option<Nanos>,
    /// The next connection whose class is to be looked at, while some are.
    pub(crate) marking: Option<usize>,
}

/// What a reactor holds at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Connections.
    pub connections: usize,
    /// Commands that were not carried out on the spot, but for those that wait for an event.
    pub commands: usize,
    /// Of these, commands that wait in the arbiter.
    pub ordered: usize,
    /// Bytes of I/O buffers that are in use.
    pub buffer_bytes: usize,
    /// Bytes that hosts were asked for ahead of buffers.
    pub promised_bytes: usize,
    /// Bytes that were received and not looked at, for want of buffers.
    pub unread_bytes: usize,
}

/// A place in the table of connections.
#[derive(Debug)]
pub(crate) struct Place<D: Driver> {
    generation: u32,
    pub(crate) connection: Option<Box<Connection<D>>>,
}

impl<D: Driver> Core<D> {
    /// A reactor without connections. Memory: I/O buffers, and buffers for in-capsule data;
    /// `waiters` are what all reactors share of the arbiter.
    #[must_use]
    pub fn new(
        driver: D,
        settings: Settings,
        waiters: Arc<Waiters>,
        memory: (D::Memory, D::Memory),
        now: Nanos,
    ) -> Self {
        Self {
            io: Context::new(driver, settings, waiters, memory, now),
            places: Vec::new(),
            free: Vec::new(),
            rearm: Vec::new(),
            next_chores: now,
            drain_until: None,
            marking: None,
        }
    }

    /// The driver.
    pub fn driver(&mut self) -> &mut D {
        &mut self.io.driver
    }

    /// The time as the core knows it.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.io.now
    }

    /// A turn begins.
    #[inline]
    pub fn set_time(&mut self, now: Nanos) {
        self.io.now = now;
    }

    /// I/O buffers in use and in all, in bytes.
    #[must_use]
    pub fn buffers(&self) -> (usize, usize) {
        let ((used, total), (more_used, more)) = (self.io.pool.usage(), self.io.capsules.usage());
        (used + more_used, total + more)
    }

    /// What it holds at present.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let connections = || self.places.iter().filter_map(|place| place.connection.as_ref());
        Inventory {
            connections: connections().count(),
            commands: connections().map(|connection| connection.commands.at_work()).sum(),
            ordered: self.io.arbiter.waiting(),
            buffer_bytes: self.buffers().0,
            promised_bytes: self.io.credits.promised(),
            unread_bytes: connections().map(|connection| connection.held_bytes()).sum(),
        }
    }

    /// How many commands are in each state.
    #[must_use]
    pub fn states(&self) -> BTreeMap<&'static str, usize> {
        let mut states = BTreeMap::new();
        for connection in self.places.iter().filter_map(|place| place.connection.as_ref()) {
            for kind in connection.commands.kinds() {
                *states.entry(kind.name()).or_default() += 1;
            }
        }
        states
    }

    /// When it wants its next turn, if nothing happens before; `None` where there is something to
    /// do. While it rests, other reactors wake it when there is room for a command that waits.
    pub fn rest(&mut self) -> Option<Nanos> {
        if !self.io.sweeps.is_empty() || self.is_changing() || self.serve_memory() {
            return None;
        }
        let now = self.io.now;
        let timer = loop {
            match self.io.arbiter.pull_before_sleep(now) {
                Pull::Command(command) => {
                    self.serve_command(now, command);
                    return None;
                }
                Pull::Wake(reactors) => self.io.driver.wake(reactors),
                Pull::Later(at) => break Some(at),
                Pull::Nothing => break None,
            }
        };
        let ask = (!self.io.asking.is_empty()).then_some(self.io.next_ask);
        let others = [timer, self.io.timed.next_due(), ask].into_iter().flatten().min();
        Some(others.map_or(self.next_chores, |at| at.min(self.next_chores)))
    }

    /// Begins a turn: what is due by its time. Whether there was work.
    pub fn begin(&mut self) -> bool {
        let mut worked = self.end_timed();
        for (key, slot) in std::mem::take(&mut self.io.sweeps) {
            worked = true;
            if let Some(connection) = find(&mut self.places, key) {
                connection.go_on_sweeping(&mut self.io, slot);
            }
        }
        worked
    }

    /// Does what follows from a batch of events. Whether anything went on.
    pub fn settle(&mut self) -> bool {
        self.ask();
        let any = self.serve_ordered();
        self.serve_waiting();
        self.flush();
        any
    }

    /// Whether commands were carried out on the spot that [`Self::record`] is to record.
    #[inline]
    #[must_use]
    pub fn has_tallies(&self) -> bool {
        !self.io.tallied.is_empty()
    }

    /// Records what was carried out on the spot until `now`.
    pub fn record(&mut self, now: Nanos) {
        let mut tallied = std::mem::take(&mut self.io.tallied);
        for key in tallied.drain(..) {
            if let Some(connection) = find(&mut self.places, key) {
                connection.record_tally(&self.io, now);
            }
        }
        self.io.tallied = tallied;
    }

    /// Ends a turn, the received chunks being back with the driver. Whether the connections that
    /// are on their way out were looked after.
    pub fn end(&mut self) -> bool {
        for key in self.rearm.drain(..) {
            if let Some(connection) = find(&mut self.places, key) {
                connection.arm(&mut self.io);
            }
        }
        let chores = self.io.now >= self.next_chores;
        if chores {
            self.chores();
        }
        if !self.io.closing.is_empty() {
            self.bury();
            // Connections that end give buffers back, and no event follows that would tell.
            self.serve_waiting();
            self.flush();
        }
        chores
    }

    /// A new connection.
    pub fn accept(&mut self, accepted: Accepted) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, connection: None });
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let generation = self.places.get(index as usize).map_or(0, |place| place.generation);
        let key = Key { index, generation };
        let connection = Box::new(Connection::new(&self.io, key, accepted));
        if let Some(place) = self.places.get_mut(index as usize) {
            place.connection = Some(connection);
        }
        key
    }

    /// Begins to receive from a connection that was accepted.
    pub fn start(&mut self, key: Key) {
        if let Some(connection) = find(&mut self.places, key) {
            connection.arm(&mut self.io);
        }
    }

    /// A chunk of a connection's stream.
    #[inline]
    pub fn received(&mut self, key: Key, bytes: &[u8]) {
        if let Some(connection) = find(&mut self.places, key) {
            connection.receive(&mut self.io, bytes);
        }
    }

    /// The driver receives no more from a connection; it is asked to again, unless the connection
    /// is `lost`: the stream has ended, or an error says so.
    pub fn receive_ended(&mut self, key: Key, lost: Option<Cow<'static, str>>) {
        let Some(connection) = find(&mut self.places, key) else { return };
        if let Some(reason) = lost {
            connection.close(&mut self.io, false, reason);
        }
        connection.disarmed();
        self.rearm.push(key);
    }

    /// A batch has been sent; or, with the reason, only a part of it, and the connection is lost.
    pub fn sent(
        &mut self,
        key: Key,
        batch: Batch<TxData<Buffer<D>>>,
        lost: Option<Cow<'static, str>>,
    ) {
        if let Some(connection) = find(&mut self.places, key) {
            connection.sent(&mut self.io, batch, lost);
        }
    }

    /// A job that was in its device goes on, or is over.
    pub fn job_ended(&mut self, key: Key, started: Started<D>) {
        if let Some(connection) = find(&mut self.places, key) {
            connection.launched(&mut self.io, started);
        }
    }

    /// Does what the service wants done.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Complete { connection, cid, result, status } => {
                if let Some(connection) = find(&mut self.places, Key::of(connection).1) {
                    connection.complete_deferred(&mut self.io, cid, result, status);
                }
            }
            Action::Close { connection, reason } => {
                if let Some(connection) = find(&mut self.places, Key::of(connection).1) {
                    let is_admin = matches!(connection.stage, Stage::Admin);
                    if is_admin && reason == CloseReason::KeepAliveExpired {
                        self.io.driver.notice(connection.key, Notice::KeepAliveExpired);
                    }
                    connection.close(&mut self.io, true, reason.text());
                }
            }
            Action::Abort { ticket, connection, cid } => {
                let aborted = find(&mut self.places, Key::of(connection).1)
                    .is_some_and(|connection| connection.abort(&mut self.io, cid));
                self.io.driver.service(|service| service.abort_done(ticket, aborted));
            }
            Action::TableChanged { .. } => {}
        }
    }

    /// Takes no new commands, settles those that there are for so long, and closes the connections.
    pub fn drain(&mut self, time: Duration) {
        self.io.draining = true;
        let until = self.io.now + time;
        self.drain_until = Some(self.drain_until.map_or(until, |earlier| earlier.min(until)));
        self.next_chores = self.io.now;
    }

    /// Whether it was told to [`Self::drain`] and has no connection left.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drain_until.is_some() && self.places.iter().all(|place| place.connection.is_none())
    }

    /// Ends what a timed device has complete by now.
    fn end_timed(&mut self) -> bool {
        let mut any = false;
        while let Some(ended) = self.io.timed.due(self.io.now) {
            any = true;
            match find(&mut self.places, ended.job.origin.0) {
                Some(connection) => connection.launched(&mut self.io, Started::Ended(ended)),
                None => {
                    let mut job = ended.job;
                    job.give_back(&mut self.io);
                }
            }
        }
        any
    }

    /// Asks hosts for data that may be asked for by now.
    fn ask(&mut self) {
        if self.io.asking.is_empty() || self.io.now < self.io.next_ask {
            return;
        }
        // A limit may be lifted or changed at any time, and nobody says so.
        self.io.next_ask = self.io.now + ASK_AGAIN;
        let mut asking = std::mem::take(&mut self.io.asking);
        asking.retain(|&key| {
            let Some(connection) = find(&mut self.places, key) else { return false };
            let due = connection.ask(&mut self.io);
            self.io.next_ask = self.io.next_ask.min(due.unwrap_or(Nanos(u64::MAX)));
            due.is_some()
        });
        self.io.asking = asking;
    }

    /// Sets going what the stages let go on, and wakes other reactors that may go on too. Whether
    /// anything went on.
    fn serve_ordered(&mut self) -> bool {
        let now = self.io.now;
        let mut any = self.serve_memory();
        loop {
            match self.io.arbiter.pull(now) {
                Pull::Command(command) => {
                    any = true;
                    self.serve_command(now, command);
                }
                Pull::Wake(reactors) => self.io.driver.wake(reactors),
                Pull::Later(_) | Pull::Nothing => return any,
            }
        }
    }

    /// Has hosts asked for data for which there is memory. Whether there was any.
    fn serve_memory(&mut self) -> bool {
        let mut any = false;
        while let Some(((key, slot), grant)) = self.io.memory.pull() {
            any = true;
            match find(&mut self.places, key) {
                Some(connection) => connection.memory_granted(&mut self.io, slot, grant),
                None => self.io.memory.give_back(grant),
            }
        }
        any
    }

    /// Sets a command going whose turn it is.
    fn serve_command(&mut self, now: Nanos, command: Dispatched<(Key, SlotId)>) {
        match find(&mut self.places, command.item.0) {
            Some(connection) => connection.granted(&mut self.io, command),
            None => self.io.arbiter.complete(now, command.grant, false),
        }
    }

    /// Serves, in the order they came, those that wait for buffers.
    fn serve_waiting(&mut self) {
        while let Some(job) = self.io.stalled.pop_front() {
            let Some(connection) = find(&mut self.places, job.origin.0) else {
                let mut job = job;
                if let Some(grant) = job.grant.take() {
                    self.io.arbiter.complete(self.io.now, grant, false);
                }
                if let Some(memory) = job.memory.take() {
                    self.io.memory.give_back(memory);
                }
                continue;
            };
            let before = self.io.stalled.len();
            connection.launch(&mut self.io, job);
            if self.io.stalled.len() > before {
                // Still none: it goes back to the front.
                self.io.stalled.rotate_right(1);
                break;
            }
        }
        if !self.io.data_waiting.is_empty() {
            self.io.foretell();
        }
        self.serve_in_turn(|io| &mut io.data_waiting);
        self.serve_in_turn(|io| &mut io.waiting);
        if !self.io.paused.is_empty() {
            for key in std::mem::take(&mut self.io.paused) {
                if let Some(connection) = find(&mut self.places, key) {
                    connection.resume(&mut self.io);
                }
            }
            // Commands that came with what was held line up here, and there may be buffers for them.
            self.serve_in_turn(|io| &mut io.data_waiting);
        }
    }

    fn serve_in_turn(&mut self, queue: impl Fn(&mut Context<D>) -> &mut VecDeque<(Key, SlotId)>) {
        while let Some(&(key, slot)) = queue(&mut self.io).front() {
            if let Some(connection) = find(&mut self.places, key)
                && !connection.retry_waiting(&mut self.io, slot)
            {
                break;
            }
            queue(&mut self.io).pop_front();
        }
    }

    /// Sends what connections have queued.
    pub(crate) fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for key in dirty.drain(..) {
            if let Some(connection) = find(&mut self.places, key) {
                connection.dirty = false;
                connection.flush(&mut self.io);
            }
        }
        self.io.dirty = dirty;
    }

    /// What is looked after now and then: connections that end, or that never began.
    fn chores(&mut self) {
        let soon = if self.drain_until.is_some() { DRAIN_CHORES } else { CHORES };
        self.next_chores = self.io.now + soon;
        for connection in self.places.iter_mut().filter_map(|place| place.connection.as_mut()) {
            if connection.is_closing() {
                continue;
            }
            let late = matches!(connection.stage, Stage::New)
                && self.io.now.0.saturating_sub(connection.since.0) > CONNECT_TIME_NS;
            if late {
                self.io.driver.notice(connection.key, Notice::NoConnect);
                connection.close(&mut self.io, false, "no Connect within 10 s");
            } else if connection.owes_data(self.io.now, DATA_TIME_NS) {
                self.io.driver.notice(connection.key, Notice::OwesData);
                connection.close(&mut self.io, false, "it owes data for 30 s");
            }
        }
        if self.io.draining {
            self.close_settled();
        }
    }

    /// Closes what has settled. A controller's admin queue goes after its I/O queues, which
    /// otherwise would end with it.
    fn close_settled(&mut self) {
        let overdue = self.drain_until.is_some_and(|until| self.io.now >= until);
        let io_left = self.io.driver.has_io_queues();
        for connection in self.places.iter_mut().filter_map(|place| place.connection.as_mut()) {
            let last = matches!(connection.stage, Stage::Io(_)) || !io_left;
            if overdue || (last && connection.is_idle()) {
                connection.close(&mut self.io, !overdue, "the target is ending");
            }
        }
    }

    /// Drops the connections that have ended.
    fn bury(&mut self) {
        let closing = std::mem::take(&mut self.io.closing);
        for key in closing {
            let Some(connection) = find(&mut self.places, key) else { continue };
            if !connection.ended(&mut self.io) {
                self.io.closing.push(key);
                continue;
            }
            let Some(place) = self.places.get_mut(key.index as usize) else { continue };
            let Some(connection) = place.connection.take() else { continue };
            place.generation = (place.generation + 1) & 0xff_ffff;
            self.free.push(key.index);
            let end = End { id: connection.id, reason: connection.end_reason() };
            self.io.driver.ended(key, end);
        }
    }
}

/// The connection of that name, if it is still there.
#[inline]
pub(crate) fn find<D: Driver>(
    places: &mut [Place<D>],
    key: Key,
) -> Option<&mut Box<Connection<D>>> {
    let place = places.get_mut(key.index as usize)?;
    if place.generation == key.generation { place.connection.as_mut() } else { None }
}
