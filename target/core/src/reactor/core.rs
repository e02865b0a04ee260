//! One reactor's connections and commands: events go in, actions come out.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arbitration::arbiter::{Dispatched, Pull, Waiters};
use arbitration::memory::PAGE;
use fabric::Nanos;
use fabric::controller::{Action, BackendId, CloseReason, ConnectionId};
use fabric::queue::{Fetch, SlotId};

use super::agenda::RATE_AGAIN;
use super::changes::{Changes, Touched};
use super::connection_table::ConnectionTable;
use super::context::{Context, Settings};
use super::turns::Kind;
use crate::machine::driver::{Batch, Buffer, Chunk, DataPlace, Driver, End, Notice, Started};
use crate::machine::key::Key;
use crate::memory::buffers::Buffers;
use crate::queue::commands::StateCounts;
use crate::queue::connection::{Accepted, Connection};
use crate::trace::TraceFilter;
use crate::trace::tracing::Tracing;

/// Time that a connection may take to send Connect, in ns.
const CONNECT_TIME_NS: u64 = 10_000_000_000;
/// Interval at which a reactor handles work without an event of its own.
const CHORES: Duration = Duration::from_millis(100);
/// Interval of the same while the reactor drains.
const DRAIN_CHORES: Duration = Duration::from_millis(2);
/// Time for which a controller's connections stay open after its last command was answered, in a
/// target that drains: the answers are on their way, and a host that loses a connection reads no
/// more of them.
const ANSWERS_ARRIVE: Duration = Duration::from_millis(20);

/// Number of connections whose DSCP one turn looks at.
const DSCPS: usize = 16;
/// Queues and namespaces whose next slices a turn begins with: a slice may be 4 MiB of memory, and
/// take a quarter of a millisecond.
const SLICES: usize = 4;
/// Steps of work on the spot of commands whose turn at a device it is, after which a reactor's turn
/// leaves the others to the next one.
const ORDERED: u32 = 256;

/// One reactor's connections and their commands.
///
/// A turn of the driver: [`set_time`](Self::set_time); [`begin`](Self::begin); events (`received`, `sent`,
/// `job_ended`, …) in batches, each followed by [`settle`](Self::settle); [`end`](Self::end). Then the driver may
/// sleep until [`idle_until`](Self::idle_until).
#[derive(Debug)]
pub struct Core<D: Driver> {
    io: Context<D>,
    connections: ConnectionTable<D>,
    /// Connections whose receive starts again after this turn: first the ones without memory, then the served ones.
    starved: VecDeque<Key>,
    rearm: VecDeque<Key>,
    next_chores: Nanos,
    /// Time at which draining must be over.
    drain_until: Option<Nanos>,
    changes: Changes<D::Device>,
    /// The next connection whose DSCP is set, while a change of settings is carried out.
    next_dscp: Option<usize>,
}

/// The resources that a reactor holds at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Connections.
    pub connections: usize,
    /// Number of commands in the tables of the queues, except commands that wait for an event. A command that is executed
    /// as it arrives is in no table.
    pub commands: usize,
    /// Number of these commands that wait in the arbiter.
    pub ordered: usize,
    /// Bytes of I/O buffers that are in use.
    pub buffer_bytes: usize,
    /// Bytes that hosts were asked for ahead of buffers.
    pub promised_bytes: usize,
    /// Bytes that were received and are unread for want of buffers.
    pub unread_bytes: usize,
    /// Bytes of memory granted to commands, with or without a buffer.
    pub granted_bytes: usize,
    /// Queues in which commands wait for memory: one of each host on each of its sessions, while a
    /// connection of the host lives.
    pub queues: usize,
    /// Reactors that may go on and that this one has not woken yet.
    pub wake_ups: usize,
}

impl<D: Driver> Core<D> {
    /// Makes a reactor without connections from two memories: I/O buffers, and buffers for
    /// in-capsule data; `waiters` are what all reactors share of the arbiter.
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
            connections: ConnectionTable::default(),
            starved: VecDeque::new(),
            rearm: VecDeque::new(),
            next_chores: now,
            drain_until: None,
            changes: Changes::default(),
            next_dscp: None,
        }
    }

    /// Returns the driver.
    pub fn driver(&mut self) -> &mut D {
        &mut self.io.driver
    }

    /// Returns the time as the core knows it.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.io.now
    }

    /// Sets the time of the turn that begins.
    #[inline]
    pub fn set_time(&mut self, now: Nanos) {
        self.io.now = now;
    }

    /// Returns whether an Urgent command arrived within the last second.
    #[inline]
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        const A_WHILE: Duration = Duration::from_secs(1);
        self.io.urgent_at.is_some_and(|at| self.io.now.since(at) < A_WHILE)
    }

    /// Returns the I/O buffers in use and in all, in bytes.
    #[must_use]
    pub fn buffers(&self) -> (usize, usize) {
        self.io.buffers.usage()
    }

    /// Returns the resources that the reactor holds at present.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let (queues, pages) = self.io.stages.held();
        Inventory {
            connections: self.connections.iter().count(),
            commands: self.connections.iter().map(|connection| connection.at_work()).sum(),
            ordered: self.io.stages.arbiter.waiting(),
            buffer_bytes: self.buffers().0,
            promised_bytes: self.io.buffers.promised(),
            unread_bytes: self.connections.iter().map(|connection| connection.held_bytes()).sum(),
            granted_bytes: pages as usize * PAGE as usize,
            queues,
            wake_ups: self.io.stages.arbiter.wake_ups().count(),
        }
    }

    /// Returns how many commands are in each state.
    #[must_use]
    pub fn states(&self) -> StateCounts {
        let mut states = StateCounts::default();
        for connection in self.connections.iter() {
            states.add(connection.state_counts());
        }
        states
    }

    /// Returns the time until which the core is idle, if nothing happens before; `None` where there
    /// is something to do. While the core is idle, other reactors wake it when there is room for a
    /// command that waits.
    pub fn idle_until(&mut self) -> Option<Nanos> {
        if self.io.agenda.slices() != 0
            || self.is_changing()
            || self.serve_memory()
            || self.serve_reads()
            || self.io.turns.any_wait()
            || !(self.starved.is_empty() && self.rearm.is_empty())
            || !self.io.agenda.resumed.is_empty()
            || self.io.agenda.paused.is_due()
            || self.io.agenda.closing.is_due()
            || (!self.io.agenda.paused.is_empty() && self.io.stages.capsules.came_back())
        {
            return None;
        }
        let now = self.io.now;
        let timer = loop {
            match self.io.stages.arbiter.pull_before_sleep(now) {
                Pull::Command(command) => {
                    self.serve_command(now, command);
                    self.wake_others();
                    return None;
                }
                Pull::Wake(reactors) => self.io.driver.wake(reactors),
                Pull::Later(at) => break Some(at),
                Pull::Nothing => break None,
            }
        };
        let agenda = &self.io.agenda;
        let mut until = self.next_chores;
        for at in [timer, self.io.timed.next_time(), agenda.next_end] {
            until = at.map_or(until, |at| at.min(until));
        }
        if !agenda.r2t_waits.is_empty() {
            until = until.min(agenda.next_r2t);
        }
        if !agenda.paced.is_empty() {
            until = until.min(agenda.next_paced);
        }
        Some(until)
    }

    /// Begins a turn with the work that is due by the turn's time. Returns whether there was any.
    pub fn begin(&mut self) -> bool {
        self.io.turns.begin();
        let worked = self.end_timed();
        if self.io.agenda.slices() == 0 {
            return worked;
        }
        self.begin_slices();
        true
    }

    /// Begins some of the slices that are due.
    #[cold]
    fn begin_slices(&mut self) {
        for _ in 0..self.io.agenda.slices().min(SLICES) {
            let Some((key, nsid)) = self.io.agenda.take_slice() else { return };
            if let Some((io_queue, queue)) = self.connections.find_io(key) {
                io_queue.next_slices(queue, &mut self.io, nsid);
            }
        }
    }

    /// Completes a batch of events: serves waiting commands and sends answers. Returns whether any command
    /// proceeded.
    pub fn settle(&mut self) -> bool {
        self.send_r2ts();
        self.take_turns();
        let any = self.serve_ordered();
        self.serve_waiting();
        self.send_paced();
        self.flush();
        any
    }

    /// Returns whether [`Self::record`] has commands to record.
    #[inline]
    #[must_use]
    pub fn has_tallies(&self) -> bool {
        !self.io.agenda.to_record.is_empty()
    }

    /// Records the commands that were executed as they arrived, until `now`.
    pub fn record(&mut self, now: Nanos) {
        let mut to_record = std::mem::take(&mut self.io.agenda.to_record);
        for key in to_record.drain(..) {
            if let Some((io_queue, _)) = self.connections.find_io(key) {
                io_queue.record_tally(&self.io, now);
            }
        }
        self.io.agenda.to_record = to_record;
    }

    /// Ends a turn, once the received chunks are back with the driver. Returns whether the periodic checks were
    /// due.
    pub fn end(&mut self) -> bool {
        self.arm_receives();
        let chores = self.io.now >= self.next_chores;
        if chores {
            self.chores();
            if !self.io.agenda.to_send.is_empty() {
                // Commands that were sent back gave buffers back.
                self.serve_waiting();
                self.flush();
            }
        }
        if !self.io.agenda.closing.is_empty() {
            self.drop_ended();
            // Connections that end give buffers back, and no event follows that would tell of them.
            self.serve_waiting();
            self.flush();
        }
        self.wake_others();
        chores
    }

    /// Takes a new connection in.
    pub fn accept(&mut self, accepted: Accepted<D::Transport>) -> Key {
        self.connections.insert(|key| Connection::new(&mut self.io, key, accepted))
    }

    /// Begins to receive from a connection that was accepted, and to send to it.
    pub fn start(&mut self, key: Key) {
        if let Some(connection) = self.connections.find(key) {
            connection.start(&mut self.io);
        }
    }

    /// Takes a chunk of what arrives at a connection.
    #[inline]
    pub fn received(&mut self, key: Key, chunk: Chunk<'_, D>) {
        if let Some(connection) = self.connections.find(key) {
            connection.receive(&mut self.io, chunk);
        }
    }

    /// Takes note that the driver has received everything that has arrived at a connection, as far as is known.
    #[inline]
    pub fn caught_up(&mut self, key: Key) {
        let now = self.io.now;
        if let Some(connection) = self.connections.find(key) {
            connection.caught_up(now);
        }
    }

    /// Takes note that the driver has received once: `placed` bytes in the buffer that was lent to
    /// it, then `rest`. Returns whether it was asked to receive again at once.
    #[inline]
    pub fn received_once(
        &mut self,
        key: Key,
        place: Option<DataPlace<Buffer<D>>>,
        placed: usize,
        rest: Chunk<'_, D>,
    ) -> bool {
        if let Some(connection) = self.connections.find(key) {
            connection.received_once(&mut self.io, place, placed, rest);
            if connection.is_io() {
                // The next receive begins at once: there may be more data already.
                connection.arm(&mut self.io);
                return true;
            }
            self.rearm.push_back(key);
        }
        false
    }

    /// Takes note that the driver receives no more from a connection. The driver is asked to
    /// receive again, unless the connection is `lost`: the stream has ended, or an error says so.
    pub fn receive_ended(&mut self, key: Key, lost: Option<Cow<'static, str>>) {
        let Some(connection) = self.connections.find(key) else { return };
        if let Some(reason) = lost {
            connection.close(&mut self.io, false, reason);
        }
        connection.disarmed();
        self.rearm.push_back(key);
    }

    /// Takes note that the driver receives no more from a connection, for want of memory. The receive starts again
    /// before the receives of served connections.
    pub fn receive_starved(&mut self, key: Key) {
        let Some(connection) = self.connections.find(key) else { return };
        connection.disarmed();
        self.io.turns.are_short();
        self.starved.push_back(key);
    }

    /// Takes note that a batch has been sent; or, with the reason, only a part of it, and the
    /// connection is lost.
    pub fn sent(&mut self, key: Key, batch: Batch<D>, lost: Option<Cow<'static, str>>) {
        if let Some(connection) = self.connections.find(key) {
            connection.sent(&mut self.io, batch, lost);
        }
    }

    /// Takes note that a part of a command's data was moved from the host's memory: to `place`, or
    /// where there was none it is in `bytes`; or, with the reason, that the connection is lost.
    pub fn fetched(
        &mut self,
        key: Key,
        (fetch, bytes): (&Fetch, &[u8]),
        place: Option<DataPlace<Buffer<D>>>,
        lost: Option<Cow<'static, str>>,
    ) {
        if let Some(connection) = self.connections.find(key) {
            connection.fetched(&mut self.io, (fetch, bytes), place, lost);
        }
    }

    /// Continues a job that was in its device, or ends it.
    pub fn job_ended(&mut self, key: Key, started: Started<D>) {
        if let Some((io_queue, queue)) = self.connections.find_io(key) {
            io_queue.launched(queue, &mut self.io, started);
        }
    }

    /// Executes an action of the service.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Complete { connection, cid, result, status } => {
                if let Some(connection) = self.connections.find(Key::of(connection).1) {
                    connection.complete_deferred(&mut self.io, cid, result, status);
                }
            }
            Action::Close { connection, reason } => {
                if let Some(connection) = self.connections.find(Key::of(connection).1) {
                    if connection.is_admin() && reason == CloseReason::KeepAliveExpired {
                        self.io.driver.notice(connection.key(), Notice::KeepAliveExpired);
                    }
                    connection.close(&mut self.io, true, reason.text());
                }
            }
            Action::Abort { ticket, connection, cid } => {
                let aborted = match self.connections.find(Key::of(connection).1) {
                    Some(connection) => connection.abort(&mut self.io, cid, ticket),
                    None => Some(false),
                };
                if let Some(aborted) = aborted {
                    self.io.driver.service(|service| service.abort_done(ticket, aborted));
                }
            }
            // Work is for threads that may take long; tables are shared.
            Action::Authenticate { .. } | Action::TableChanged { .. } => {}
        }
    }

    /// Traces the commands that a filter selects, from now on; `None` ends this. Traced commands go to
    /// [`Driver::traced`].
    pub fn trace(&mut self, filter: Option<Arc<TraceFilter>>) {
        for connection in self.connections.iter_mut() {
            connection.end_trace(&mut self.io);
        }
        self.io.stages.arbiter.count_waits(filter.is_some());
        let now = self.io.now;
        self.io.tracing = filter.map(|filter| Box::new(Tracing::new(filter, now)));
    }

    /// Takes no new commands from now on, settles the present ones for up to `time`, and closes the
    /// connections.
    pub fn drain(&mut self, time: Duration) {
        self.io.draining = true;
        let until = self.io.now + time;
        self.drain_until = Some(self.drain_until.map_or(until, |earlier| earlier.min(until)));
        self.next_chores = self.io.now;
    }

    /// Returns whether [`Self::drain`] was called and no connection is left.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drain_until.is_some() && self.connections.iter().next().is_none()
    }

    /// Ends the commands that a timed device has complete by now.
    fn end_timed(&mut self) -> bool {
        let mut any = false;
        while let Some((_, ended)) = self.io.timed.pop_due(self.io.now) {
            any = true;
            match self.connections.find_io(ended.job.connection()) {
                Some((io_queue, queue)) => {
                    io_queue.launched(queue, &mut self.io, Started::<D>::Ended(ended));
                }
                None => {
                    let mut job = ended.job;
                    self.io.stages.give_back(&mut job, self.io.now, true);
                }
            }
        }
        any
    }

    /// Asks hosts for the data that may be asked for by now.
    fn send_r2ts(&mut self) {
        if self.io.agenda.r2t_waits.is_empty() || self.io.now < self.io.agenda.next_r2t {
            return;
        }
        self.io.agenda.next_r2t = self.io.now + RATE_AGAIN;
        let mut r2t_waits = std::mem::take(&mut self.io.agenda.r2t_waits);
        r2t_waits.retain(|&key| {
            let Some(connection) = self.connections.find(key) else { return false };
            let due = connection.send_r2ts(&mut self.io);
            self.io.agenda.next_r2t = self.io.agenda.next_r2t.min(due.unwrap_or(Nanos(u64::MAX)));
            due.is_some()
        });
        self.io.agenda.r2t_waits = r2t_waits;
    }

    /// Sends more answers of the connections whose rates allow more by now.
    fn send_paced(&mut self) {
        if self.io.agenda.paced.is_empty() || self.io.now < self.io.agenda.next_paced {
            return;
        }
        for key in std::mem::take(&mut self.io.agenda.paced) {
            if let Some(connection) = self.connections.find(key) {
                connection.send_paced(&mut self.io);
            }
        }
    }

    /// Receives from connections again, starved ones first. When memory is short, only as
    /// many start as leave some to hosts that send next; the others follow in later turns.
    fn arm_receives(&mut self) {
        let most = if self.io.turns.is_short() { self.io.settings.receives() } else { usize::MAX };
        let mut begun = 0;
        while begun < most
            && let Some(key) = self.starved.pop_front().or_else(|| self.rearm.pop_front())
        {
            if let Some(connection) = self.connections.find(key) {
                connection.arm(&mut self.io);
                begun += usize::from(connection.is_io());
            }
        }
    }

    /// Continues connections that wait in line, within this turn's quotas.
    fn take_turns(&mut self) {
        for kind in [Kind::Io, Kind::Admin] {
            while let Some((key, steps)) = self.io.turns.next(kind) {
                if let Some(connection) = self.connections.find(key) {
                    connection.take_turn(&mut self.io, kind, steps);
                }
            }
        }
    }

    /// Starts the commands that the stages let go on, as far as a turn's work on the spot goes, and
    /// wakes other reactors that may go on too. Returns whether anything went on.
    fn serve_ordered(&mut self) -> bool {
        let now = self.io.now;
        let mut any = self.serve_memory();
        // Discards earlier steps: they are counted already, or belong to other turns.
        self.io.turns.take_work();
        let mut steps = 0_u32;
        loop {
            match self.io.stages.arbiter.pull(now) {
                Pull::Command(command) => {
                    any = true;
                    self.serve_command(now, command);
                    steps = steps.saturating_add(self.io.turns.take_work());
                    if steps >= ORDERED {
                        // The next turn goes on here.
                        return any;
                    }
                }
                Pull::Wake(reactors) => self.io.driver.wake(reactors),
                Pull::Later(_) | Pull::Nothing => return any,
            }
        }
    }

    /// Wakes the reactors that may go on since something of this turn has ended.
    #[inline]
    fn wake_others(&mut self) {
        let others = self.io.stages.arbiter.take_wake_ups();
        if !others.is_empty() {
            self.io.driver.wake(others);
        }
    }

    /// Requests the data for which there is memory. Returns whether there was any.
    fn serve_memory(&mut self) -> bool {
        let mut any = false;
        while let Some(((key, slot), grant)) = self.io.next_memory() {
            any = true;
            match self.connections.find_io(key) {
                Some((io_queue, queue)) => {
                    io_queue.memory_granted(queue, &mut self.io, slot, grant);
                }
                None => self.io.stages.gate.give_back(grant),
            }
        }
        any
    }

    /// Starts a command whose turn it is.
    fn serve_command(&mut self, now: Nanos, command: Dispatched<(Key, SlotId)>) {
        match self.connections.find_io(command.item.0) {
            Some((io_queue, queue)) => io_queue.granted(queue, &mut self.io, command),
            None => self.io.stages.arbiter.complete(now, command.grant, false),
        }
    }

    /// Serves the commands that wait for buffers, in the order in which they came.
    fn serve_waiting(&mut self) {
        while let Some(job) = self.io.stalled.pop_front() {
            let Some((io_queue, queue)) = self.connections.find_io(job.connection()) else {
                let mut job = job;
                self.io.stages.give_back(&mut job, self.io.now, false);
                continue;
            };
            let before = self.io.stalled.len();
            io_queue.launch(queue, &mut self.io, job);
            if self.io.stalled.len() > before {
                // Without memory, the job goes back to the front.
                self.io.stalled.rotate_right(1);
                break;
            }
        }
        self.io.buffers.learn(self.io.now);
        self.serve_in_turn(|buffers| &mut buffers.data);
        self.serve_in_turn(|buffers| &mut buffers.reads);
        self.serve_reads();
        self.io.stages.capsules.came_back();
        let resumed = std::mem::take(&mut self.io.agenda.resumed);
        let looks = self.io.agenda.paused.begin();
        if looks > 0 || !resumed.is_empty() {
            for key in resumed {
                if let Some(connection) = self.connections.find(key) {
                    connection.resume(&mut self.io);
                }
            }
            for _ in 0..looks {
                let key = self.io.agenda.paused.next();
                if let Some(connection) = key.and_then(|key| self.connections.find(key)) {
                    connection.resume(&mut self.io);
                }
            }
            // Commands that came with held input line up here, and there may be buffers for them.
            self.serve_in_turn(|buffers| &mut buffers.data);
        }
    }

    fn serve_in_turn(
        &mut self,
        waiting: impl Fn(&mut Buffers<D::Memory>) -> &mut VecDeque<(Key, SlotId)>,
    ) {
        while let Some(&(key, slot)) = waiting(&mut self.io.buffers).front() {
            if let Some((io_queue, queue)) = self.connections.find_io(key)
                && !io_queue.take_buffer(queue, &mut self.io, slot)
            {
                break;
            }
            waiting(&mut self.io.buffers).pop_front();
        }
    }

    /// Starts the reads for which there is memory. Returns whether there were any.
    fn serve_reads(&mut self) -> bool {
        let mut any = false;
        while let Some(((key, slot), lease)) = self.io.next_lease() {
            any = true;
            if let Some((io_queue, queue)) = self.connections.find_io(key) {
                io_queue.read_granted(queue, &mut self.io, slot, lease);
            }
        }
        any
    }

    /// Sends the batches that connections have queued.
    fn flush(&mut self) {
        let mut to_send = std::mem::take(&mut self.io.agenda.to_send);
        for key in to_send.drain(..) {
            if let Some(connection) = self.connections.find(key) {
                connection.flush(&mut self.io);
            }
        }
        self.io.agenda.to_send = to_send;
    }

    /// Takes note of the objects that a change has touched, to look at them part by part.
    pub fn touch(&mut self, touched: Arc<Touched>) {
        self.changes.touch(touched);
    }

    /// Takes note of devices that are gone, to give them up part by part.
    pub fn lose(&mut self, devices: Arc<[BackendId]>) {
        self.changes.lose(devices);
    }

    fn is_changing(&self) -> bool {
        self.io.stages.arbiter.is_changing()
            || self.next_dscp.is_some()
            || self.changes.is_changing()
    }

    /// Returns whether [`Self::change`] has something to do.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.io.has_new_policies() || self.is_changing() || self.changes.has_leaving()
    }

    /// Takes this turn's part of the changes. Returns whether there was one.
    pub fn change(&mut self) -> bool {
        let all_dscps = self.io.refresh_policies();
        let mut any = all_dscps || self.is_changing();
        self.changes.go_on(self.io.now, &mut self.io.stages, &mut self.io.devices);
        if self.changes.has_leaving() {
            any |= self.leave_devices();
        }
        if all_dscps {
            // Connections that were set already are looked at again.
            self.next_dscp = Some(0);
        }
        if let Some(from) = self.next_dscp {
            self.set_dscps(from);
        }
        any
    }

    /// Sets the class of some connections, and the DSCP of their answers, by the present settings.
    fn set_dscps(&mut self, from: usize) {
        let until = from.saturating_add(DSCPS);
        for connection in self.connections.some_mut(from, DSCPS) {
            let key = connection.key();
            if let Some((io_queue, _)) = connection.io_queue() {
                io_queue.set_class(&mut self.io, key);
            }
        }
        self.next_dscp = (until < self.connections.len()).then_some(until);
    }

    /// Answers commands that wait for devices that are gone, and forgets the devices once nothing
    /// is in them. Returns whether anything was done.
    fn leave_devices(&mut self) -> bool {
        let mut waited = Vec::new();
        let any = self.changes.leave(self.io.now, &mut self.io.stages, &mut waited);
        for (key, slot) in waited {
            if let Some((io_queue, queue)) = self.connections.find_io(key) {
                io_queue.device_gone(queue, &mut self.io, slot);
            }
        }
        if any {
            self.flush();
        }
        any
    }

    /// Closes connections of hosts that are too slow, and sends overdue commands back; while draining, closes
    /// settled connections.
    fn chores(&mut self) {
        let soon = if self.drain_until.is_some() { DRAIN_CHORES } else { CHORES };
        self.next_chores = self.io.now + soon;
        for connection in self.connections.iter_mut() {
            if connection.is_closing() {
                continue;
            }
            if connection.is_late(self.io.now, CONNECT_TIME_NS) {
                self.io.driver.notice(connection.key(), Notice::NoConnect);
                connection.close(&mut self.io, false, "no Connect within 10 s");
            } else if let Some(why) = connection.owes_data(self.io.now) {
                self.io.driver.notice(connection.key(), Notice::TooSlow(why));
                connection.close(&mut self.io, false, why);
            } else if connection.keeps_answers(self.io.now) {
                let why = "it takes its answers at less than 64 KiB a second";
                self.io.driver.notice(connection.key(), Notice::TooSlow(why));
                connection.close(&mut self.io, false, why);
            } else {
                connection.send_back_overdue(&mut self.io);
            }
        }
        self.send_back_stalled();
        if self.io.draining {
            self.close_settled();
        }
    }

    /// Sends overdue commands back that wait for their devices' memory.
    fn send_back_stalled(&mut self) {
        for job in std::mem::take(&mut self.io.stalled) {
            let left = match self.connections.find(job.connection()) {
                Some(connection) if !connection.is_closing() => {
                    connection.send_back_stalled(&mut self.io, job)
                }
                _ => Some(job),
            };
            self.io.stalled.extend(left);
        }
    }

    /// Closes the connections that have settled: the I/O queues of a controller together, then its
    /// admin queue. Closes all connections once the time for draining is over.
    fn close_settled(&mut self) {
        let now = self.io.now;
        let overdue = self.drain_until.is_some_and(|until| now >= until);
        let mut settled: Vec<ConnectionId> = self
            .connections
            .iter_mut()
            .filter(|connection| !connection.is_closing() && (overdue || connection.is_idle()))
            .map(|connection| connection.id())
            .collect();
        if !overdue {
            self.io.driver.service(|service| {
                settled.retain(|id| {
                    let since = service.settle_queue(now, *id);
                    since.is_some_and(|since| now.since(since) >= ANSWERS_ARRIVE)
                });
            });
        }
        for id in settled {
            if let Some(connection) = self.connections.find(Key::of(id).1) {
                connection.close(&mut self.io, !overdue, "the target is ending");
            }
        }
    }

    /// Drops the connections that have ended.
    fn drop_ended(&mut self) {
        if !self.io.agenda.closing.is_begun() {
            self.io.agenda.next_end = None;
        }
        for _ in 0..self.io.agenda.closing.begin() {
            let Some(key) = self.io.agenda.closing.next() else { break };
            let Some(connection) = self.connections.find(key) else { continue };
            if !connection.ended(&mut self.io) {
                let ends = [self.io.agenda.next_end, connection.sends_until()];
                self.io.agenda.next_end = ends.into_iter().flatten().min();
                self.io.agenda.closing.put_back(key);
                continue;
            }
            let Some(connection) = self.connections.remove(key) else { continue };
            self.io.turns.leave(connection.host_turn());
            let end = End { id: connection.id(), reason: connection.end_reason() };
            self.io.driver.ended(key, end);
        }
    }
}
