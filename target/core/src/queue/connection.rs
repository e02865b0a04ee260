//! One connection: its stream, and the queue that it carries.
//!
//! A connection is dropped only when the driver holds nothing of it: no receive, send or fetch in progress, and no
//! command in a device.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arbitration::overload::{HOST_WAIT_MAX, WAIT_MAX};
use fabric::Nanos;
use fabric::controller::{
    AbortTicket, Connected, ConnectionId, ControllerShared, ListenerId, QueueKind,
};
use fabric::nvme::Status;
use fabric::queue::{Fetch, Inbox as _, Received, SlotId, Transport as _};

use super::admin_queue::AdminQueue;
use super::admission::wait_max;
use super::commands::StateCounts;
use super::completion::Completion;
use super::io_queue::IoQueue;
use super::receiver::Receiver;
use super::sender::Sender;
use super::state::{InputTimes, Queue};
use crate::machine::driver::{Arrivals, Batch, Buffer, Chunk, DataPlace, Driver, Job, Notice};
use crate::machine::key::Key;
use crate::machine::origin::Origin;
use crate::machine::policies::Policies as _;
use crate::reactor::context::Context;
use crate::reactor::turns::{HostTurn, Kind, Name, STEP_BYTES};
use crate::stats::counters::QueueStats;
use crate::trace::TracedCommand;

/// A connection that has just been accepted.
#[derive(Debug)]
pub struct Accepted<T> {
    /// Transport of its queue.
    pub transport: T,
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// The address of its peer.
    pub peer: IpAddr,
    /// The ToS or traffic class byte that the host connected with.
    pub tos: Option<u8>,
    /// Statistics of its commands, once it is an I/O queue.
    pub stats: Arc<QueueStats>,
    /// Number of its commands in the target, for readers in other threads.
    pub in_flight: Arc<AtomicU32>,
}

/// The kind of a connection's queue, as far as it is known.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "each command reaches its I/O queue: a pointer would cost more than the bytes"
)]
enum Stage<D: Driver> {
    /// An admin queue, or one before a successful Connect.
    Admin(AdminQueue),
    /// An I/O queue of a controller.
    Io(IoQueue<D>),
}

#[derive(Debug)]
pub(crate) struct Connection<D: Driver> {
    queue: Queue<D>,
    stage: Stage<D>,
    stats: Arc<QueueStats>,
    in_flight: Arc<AtomicU32>,
    /// Origin of the connection, from which its class follows.
    origin: Origin,
    /// Time at which the connection was accepted.
    since: Nanos,
    /// Input that has arrived while no command could be taken.
    held: Arrivals<D>,
    /// The times of the oldest of the held input; `None`: none is held.
    held_input: Option<InputTimes>,
    /// The earliest time at which input can have arrived that is not received. `None`: input is received as it comes.
    unread_since: Option<Nanos>,
    /// The last time at which input was left unread.
    stopped: Nanos,
    /// Why no command is taken.
    paused: Option<Pause>,
    /// The host whose share of each turn the connection uses.
    host: HostTurn,
    receiver: Receiver,
    sender: Sender,
    /// Number of parts of commands' data that the driver moves from the host's memory.
    fetching: u32,
    closing: Option<Closing>,
}

/// Why no command is taken from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Its host does not read its answers.
    Unsent,
    /// The next command would find no room.
    Room,
    /// As much was done for it in this turn as is done at once: it is in line.
    Turn,
}

/// The end of a connection.
#[derive(Debug)]
struct Closing {
    /// Time after which nothing more is sent.
    deadline: Nanos,
    /// Whether queued output (a termination request) is sent first.
    flush: bool,
    /// Reason of the end, in words.
    reason: Cow<'static, str>,
}

/// Time in ns after a stop in which everything is received that arrived meanwhile.
const CAUGHT_UP: u64 = 300_000_000;

/// Number of bytes to send, beside those in flight, above which an I/O queue takes no commands until
/// its host has read. Nearly all of them are data in buffers that are bounded anyway.
const UNSENT_MAX: usize = 4 << 20;
/// The same number for a queue that is not an I/O queue, whose answers are on the heap.
const ADMIN_UNSENT_MAX: usize = 16 << 10;

/// Time that a peer has to receive the remaining output when a connection ends.
const LINGER: Duration = Duration::from_secs(1);

impl<D: Driver> Connection<D> {
    /// Makes a connection that has just been accepted.
    pub(crate) fn new(
        io: &mut Context<D>,
        key: Key,
        Accepted { transport, listener, peer, tos, stats, in_flight }: Accepted<D::Transport>,
    ) -> Self {
        let id = key.id(io.settings.reactor);
        let host = io.turns.join(Name::Address(peer.to_canonical()));
        Self {
            queue: Queue::new(key, id, transport, io.now),
            stage: Stage::Admin(AdminQueue::new(listener, io.admin_data.of(peer))),
            stats,
            in_flight,
            origin: Origin { listener, priority: 0, weighted: false, tos, address: Some(peer) },
            since: io.now,
            held: Arrivals::<D>::default(),
            held_input: None,
            unread_since: None,
            stopped: io.now,
            paused: None,
            host,
            receiver: Receiver::new(),
            sender: Sender::default(),
            fetching: 0,
            closing: None,
        }
    }

    /// Returns its name in its reactor.
    pub(crate) fn key(&self) -> Key {
        self.queue.key
    }

    /// Returns its name in the whole target.
    pub(crate) fn id(&self) -> ConnectionId {
        self.queue.id
    }

    // The stream.

    /// Starts to receive, and sends the transport's initial output.
    pub(crate) fn start(&mut self, io: &mut Context<D>) {
        self.queue.send_soon(&mut io.agenda);
        self.arm(io);
    }

    /// Receives, unless the connection does so already or may not.
    pub(crate) fn arm(&mut self, io: &mut Context<D>) {
        if !self.receiver.is_idle() || self.paused.is_some() || self.closing.is_some() {
            return;
        }
        // An admin queue receives into its own memory: other hosts cannot exhaust it, and one receive reads only a
        // little from a host's socket.
        let own = matches!(self.stage, Stage::Admin(_));
        self.receiver.begin(io, &mut self.queue, own);
    }

    /// Notes that the driver receives no more.
    pub(crate) fn disarmed(&mut self) {
        self.receiver.ended();
    }

    /// Takes note that the driver has received once: `placed` bytes where they belong, and others
    /// after them.
    pub(crate) fn received_once(
        &mut self,
        io: &mut Context<D>,
        place: Option<DataPlace<Buffer<D>>>,
        placed: usize,
        rest: Chunk<'_, D>,
    ) {
        self.disarmed();
        if let Some(place) = place
            && self.closing.is_none()
        {
            self.placed(io.now, place, placed);
        }
        self.receive(io, rest);
    }

    /// Takes a lent buffer back, with `length` bytes more of the command's data in it.
    fn placed(
        &mut self,
        now: Nanos,
        DataPlace { slot, buffer, range }: DataPlace<Buffer<D>>,
        length: usize,
    ) {
        let bytes = buffer.get(range).unwrap_or_default();
        let bytes = bytes.get(..length).unwrap_or(bytes);
        if !bytes.is_empty()
            && self.queue.transport.arrived(bytes)
            && let Stage::Io(io_queue) = &mut self.stage
        {
            io_queue.count_data(&mut self.queue, slot, bytes.len());
        }
        self.queue.commands.end_loan(now, slot, buffer);
    }

    /// Processes input that has arrived.
    #[inline]
    pub(crate) fn receive(&mut self, io: &mut Context<D>, chunk: Chunk<'_, D>) {
        if self.closing.is_some() {
            return;
        }
        self.queue.progress.hear(io.now);
        if self.paused.is_some() {
            if self.held.bytes() == 0 {
                self.held_input = Some(self.times_of_input(io.now));
            }
            self.held.keep(chunk);
            return;
        }
        self.begin_input(io.now);
        let kind = self.kind();
        let credit = io.turns.credit(kind, self.host);
        let steps = self.consume(io, chunk, credit);
        io.turns.spend(kind, self.host, steps);
        self.receiver.stop_for_large(io, &self.queue);
    }

    /// Processes input until `credit` steps of work are done. Returns the steps done.
    fn consume(&mut self, io: &mut Context<D>, mut chunk: Chunk<'_, D>, credit: u32) -> u32 {
        if let Stage::Io(queue) = &mut self.stage {
            queue.refresh(io, self.queue.key);
            queue.look_again();
        }
        io.stages.capsules.take_back();
        // Discards earlier steps: they belong to turns at a device.
        io.turns.take_work();
        let (mut steps, mut answers) = (0_u32, self.unsent());
        while self.closing.is_none() {
            let unsent = self.unsent();
            steps += u32::try_from(unsent.saturating_sub(answers) / STEP_BYTES).unwrap_or(0);
            steps = steps.saturating_add(io.turns.take_work());
            answers = unsent;
            let why = Self::must_wait(&self.queue, &mut self.stage, io, &chunk, unsent);
            if let Some(why) = why.or((steps >= credit).then_some(Pause::Turn)) {
                self.pause(io, chunk, why);
                return steps;
            }
            steps += 1;
            match self.queue.transport.next(&mut chunk) {
                Ok(None) => break,
                Ok(Some(event)) => self.event(io, event),
                Err(violation) => {
                    io.driver.notice(self.queue.key, Notice::BrokeProtocol(&violation));
                    self.close(io, true, format!("it broke the protocol: {violation}"));
                }
            }
        }
        self.queue.send_soon(&mut io.agenda);
        steps
    }

    /// Returns the kind of turns that its work is charged to.
    fn kind(&self) -> Kind {
        match self.stage {
            Stage::Admin(_) => Kind::Admin,
            Stage::Io(_) => Kind::Io,
        }
    }

    /// Returns whether it is an I/O queue.
    #[inline]
    pub(crate) fn is_io(&self) -> bool {
        matches!(self.stage, Stage::Io(_))
    }

    /// Returns the bytes of answers that wait, without those in flight.
    #[inline]
    fn unsent(&self) -> usize {
        let held = match &self.stage {
            Stage::Io(io_queue) => io_queue.network.held_replies(),
            Stage::Admin(_) => 0,
        };
        self.queue.transport.unsent() + held
    }

    /// Returns how many bytes of answers may wait.
    #[inline]
    fn unsent_max(&self) -> usize {
        if self.is_io() { UNSENT_MAX } else { ADMIN_UNSENT_MAX }
    }

    #[inline(always)]
    fn event(&mut self, io: &mut Context<D>, event: Received<'_>) {
        let queue = &mut self.queue;
        let accepted = match (event, &mut self.stage) {
            (Received::Command { slot, data }, Stage::Io(io_queue)) => {
                let sqe = *queue.transport.sqe_of(slot);
                io_queue.command(queue, io, slot, &sqe, data);
                None
            }
            (Received::Command { slot, data }, Stage::Admin(admin)) => {
                let sqe = *queue.transport.sqe_of(slot);
                admin.command(queue, io, slot, &sqe, data)
            }
            (Received::Data { slot, offset, bytes }, Stage::Io(io_queue)) => {
                io_queue.data(queue, io, slot, offset, bytes);
                None
            }
            (Received::Data { slot, offset, bytes }, Stage::Admin(_)) => {
                queue.progress.data_came(bytes.len());
                queue.commands.fill(slot, offset, bytes);
                None
            }
            (Received::DataEnd { slot, digest_ok }, Stage::Io(io_queue)) => {
                io_queue.data_end(queue, io, slot, digest_ok);
                None
            }
            (Received::DataEnd { slot, digest_ok }, Stage::Admin(admin)) => {
                admin.data_end(queue, io, slot, digest_ok)
            }
            (Received::GrantEnd { slot }, Stage::Io(io_queue)) => {
                io_queue.r2t_ended(queue, io, slot);
                None
            }
            (Received::GrantEnd { .. }, Stage::Admin(_)) | (Received::Initialized, _) => None,
            (Received::Terminated(termination), _) => {
                io.driver.notice(queue.key, Notice::Terminated(termination));
                self.close(io, false, "it ended the connection with a termination request");
                None
            }
        };
        if let Some((slot, connected)) = accepted {
            self.connected(io, slot, connected);
        }
    }

    /// Becomes the queue that a Connect has made it.
    #[cold]
    fn connected(&mut self, io: &mut Context<D>, slot: SlotId, connected: Connected) {
        let is_io = matches!(connected.kind, QueueKind::Io);
        bound_queues(io, &self.origin, &connected);
        let (queue, shared) = (&mut self.queue, connected.shared);
        // Unauthenticated connections are scheduled by peer address, not by the NQN they claim. (The admin queue
        // has authenticated the host of an I/O queue.)
        let known = match connected.kind {
            QueueKind::Io => true,
            QueueKind::Admin => !connected.authentication,
            QueueKind::Discovery => false,
        };
        if known {
            let kind = if is_io { Kind::Io } else { Kind::Admin };
            let before = self.host;
            self.host = io.turns.join(Name::Host(shared.host_nqn.clone()));
            // The data of a Connect that is fetched may arrive while the connection is in line.
            if self.paused == Some(Pause::Turn) {
                io.turns.leave_line(Kind::Admin, before, queue.key);
                io.turns.wait(kind, self.host, queue.key);
            }
            io.turns.leave(before);
        }
        queue.transport.set_queue(connected.entries, connected.sq_flow_control);
        if is_io {
            queue.transport.set_in_capsule_data(io.settings.in_capsule_data);
        }
        let (kind, qid, transport) = (connected.kind, connected.qid, &queue.transport);
        io.driver.notice(queue.key, Notice::Connected { kind, qid, shared: &shared, transport });
        self.origin.priority = connected.priority_class;
        self.origin.weighted = shared.wrr.load(Ordering::Relaxed);
        shared.note_traffic();
        match &mut self.stage {
            Stage::Admin(admin) if is_io => {
                let stats = Arc::clone(self.stats.get_or_init(Arc::default));
                let controller = Arc::clone(&shared);
                let completion = Completion::new(controller, qid, queue.id, stats, io.now);
                let table = connected.namespaces;
                let resent = if connected.resends { connected.entries } else { 0 };
                let of = (self.origin, qid, resent);
                let fabrics = (admin.for_io_queue(), connected.authentication);
                let mut io_queue = IoQueue::new(io, &shared, table, completion, of, fabrics);
                io_queue.join_network(io, queue.key);
                self.stage = Stage::Io(io_queue);
            }
            Stage::Admin(admin) => admin.connect(),
            Stage::Io(_) => debug_assert!(false, "an I/O queue connects no second time"),
        }
        queue.transport.complete(slot, connected.result, Status::SUCCESS);
    }

    /// Returns why no command may be taken now, if none may: the host does not read its answers, or
    /// the next command would find no room. The input then stays where it is, which holds the host
    /// back.
    #[inline]
    fn must_wait(
        queue: &Queue<D>,
        stage: &mut Stage<D>,
        io: &Context<D>,
        input: &Chunk<'_, D>,
        unsent: usize,
    ) -> Option<Pause> {
        match stage {
            Stage::Io(_) if unsent > UNSENT_MAX => Some(Pause::Unsent),
            Stage::Io(io_queue) => io_queue.must_wait(queue, io, input).then_some(Pause::Room),
            Stage::Admin(_) => (unsent > ADMIN_UNSENT_MAX).then_some(Pause::Unsent),
        }
    }

    #[cold]
    fn pause(&mut self, io: &mut Context<D>, rest: Chunk<'_, D>, why: Pause) {
        self.paused = Some(why);
        self.held.keep(rest);
        self.held_input = Some(self.queue.input);
        self.stopped = io.now;
        self.unread_since.get_or_insert(self.queue.input.received);
        let key = self.queue.key;
        match why {
            // The next send that ends resumes the connection.
            Pause::Unsent => {}
            Pause::Room => io.agenda.paused.add(key),
            Pause::Turn if io.turns.wait(self.kind(), self.host, key) => {
                // Alone in line, it goes on in this turn.
                self.queue.send_soon(&mut io.agenda);
                return;
            }
            Pause::Turn => {}
        }
        self.receiver.stop(io, self.queue.key);
        self.queue.send_soon(&mut io.agenda);
    }

    /// Continues a connection that [`Self::pause`] stopped for want of room or because of unread answers, if
    /// possible.
    pub(crate) fn resume(&mut self, io: &mut Context<D>) {
        if self.closing.is_some() || !matches!(self.paused, Some(Pause::Unsent | Pause::Room)) {
            return;
        }
        let unsent = self.unsent();
        let (queue, stage) = (&self.queue, &mut self.stage);
        if let Stage::Io(io_queue) = stage {
            io_queue.look_again();
        }
        let why = Self::must_wait(queue, stage, io, &self.held.kept(), unsent);
        match why {
            Some(Pause::Room) => {
                self.paused = Some(Pause::Room);
                io.agenda.paused.put_back(self.queue.key);
            }
            Some(why) => self.paused = Some(why),
            None => {
                self.paused = None;
                self.stopped = io.now;
                let held = std::mem::take(&mut self.held);
                self.receive(io, held.kept());
                self.arm(io);
            }
        }
    }

    /// Continues a connection that [`Self::pause`] put in line, and whose turn it is, with `credit` steps of work.
    pub(crate) fn take_turn(&mut self, io: &mut Context<D>, kind: Kind, credit: u32) {
        if self.closing.is_some() || self.paused != Some(Pause::Turn) {
            return;
        }
        self.paused = None;
        self.stopped = io.now;
        let held = std::mem::take(&mut self.held);
        self.begin_input(io.now);
        let steps = self.consume(io, held.kept(), credit);
        io.turns.went_on(kind, steps);
        if self.paused.is_some() {
            self.receiver.stop(io, self.queue.key);
        }
        self.arm(io);
    }

    /// Submits queued output, unless a send is in flight.
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut Context<D>) {
        let queue = &mut self.queue;
        queue.leave_agenda();
        let in_flight = u32::try_from(queue.transport.in_flight()).unwrap_or(u32::MAX);
        self.in_flight.store(in_flight, Ordering::Relaxed);
        if self.closing.as_ref().is_some_and(|closing| !closing.flush) {
            return;
        }
        // Nothing is sent after the message that ends a connection.
        if let Stage::Io(io_queue) = &mut self.stage
            && self.closing.is_none()
        {
            let order = io.policies.order();
            let (transport, mut answers) = queue.parts_to_send();
            let moved = |slot, unsent| {
                if let Some(answers) = &mut answers {
                    answers.release(slot, unsent);
                }
            };
            if let Some(due) = io_queue.network.move_replies(transport, order, io.now, moved) {
                io.agenda.add_paced(queue.key, due, io.now);
            }
            io_queue.network.bound_fetches(&mut queue.transport);
        }
        let (key, (transport, answers)) = (queue.key, queue.parts_to_send());
        self.sender.send((&mut io.driver, io.now), key, transport, answers);
        let mut fetches = false;
        while let Some(fetch) = queue.transport.take_fetch() {
            let place = queue.commands.lend(io.now, fetch.slot, fetch.offset, fetch.length);
            self.fetching += 1;
            io.driver.fetch(queue.key, fetch, place);
            fetches = true;
        }
        if fetches {
            io.driver.begin_fetches(queue.key);
        }
        if let Stage::Io(io_queue) = &mut self.stage {
            io_queue.network.publish(!self.sender.is_idle(), queue.commands.active());
        }
        if self.paused == Some(Pause::Unsent) && self.unsent() <= self.unsent_max() {
            io.agenda.resumed.push(self.queue.key);
        }
    }

    /// Takes back a batch that was sent; or, with the reason, a lost one.
    pub(crate) fn sent(
        &mut self,
        io: &mut Context<D>,
        batch: Batch<D>,
        lost: Option<Cow<'static, str>>,
    ) {
        let out = self.sender.batches();
        if let (_, Some(answers)) = self.queue.parts_to_send()
            && let Some(tracing) = &mut io.tracing
            && lost.is_none()
        {
            answers.batch_sent(io.now, out, |command| {
                if command.times.total() >= tracing.filter.slower_than {
                    let skipped = tracing.take_skipped();
                    io.driver.traced(TracedCommand { skipped, ..command });
                }
            });
        }
        self.sender.came_back::<D>(io.now, &mut self.queue.transport, batch);
        match lost {
            None => self.queue.send_soon(&mut io.agenda),
            Some(reason) => self.close(io, false, reason),
        }
    }

    /// Takes note that the driver has moved a part of a command's data from the host's memory, to the lent buffer
    /// or to `bytes`; or, with the reason, that the data is lost.
    pub(crate) fn fetched(
        &mut self,
        io: &mut Context<D>,
        (fetch, bytes): (&Fetch, &[u8]),
        place: Option<DataPlace<Buffer<D>>>,
        lost: Option<Cow<'static, str>>,
    ) {
        self.fetching = self.fetching.saturating_sub(1);
        let slot = fetch.slot;
        if let Some(DataPlace { slot, buffer, .. }) = place {
            self.queue.commands.end_loan(io.now, slot, buffer);
        }
        if let Some(reason) = lost {
            self.close(io, false, reason);
        }
        if self.closing.is_some() {
            return;
        }
        self.queue.progress.hear(io.now);
        io.turns.take_work();
        match &mut self.stage {
            Stage::Io(io_queue) => {
                io_queue.count_data(&mut self.queue, slot, fetch.length as usize);
            }
            Stage::Admin(_) => self.queue.progress.data_came(bytes.len()),
        }
        self.queue.commands.fill(slot, fetch.offset, bytes);
        if let Some(event) = self.queue.transport.fetched(fetch) {
            self.event(io, event);
        }
        self.queue.send_soon(&mut io.agenda);
        let steps = io.turns.take_work().saturating_add(1);
        io.turns.spend(self.kind(), self.host, steps);
    }

    // The queue.

    /// Returns its I/O queue with what carries it, where it is one.
    #[inline]
    pub(crate) fn io_queue(&mut self) -> Option<(&mut IoQueue<D>, &mut Queue<D>)> {
        match &mut self.stage {
            Stage::Io(io_queue) => Some((io_queue, &mut self.queue)),
            Stage::Admin(_) => None,
        }
    }

    /// Returns whether it is the admin queue of a controller.
    pub(crate) fn is_admin(&self) -> bool {
        matches!(&self.stage, Stage::Admin(admin) if admin.is_connected())
    }

    /// Completes a command that the service had deferred.
    pub(crate) fn complete_deferred(
        &mut self,
        io: &mut Context<D>,
        cid: u16,
        result: u64,
        status: Status,
    ) {
        match &mut self.stage {
            Stage::Admin(admin) => {
                admin.complete_deferred(&mut self.queue, io, cid, result, status);
            }
            Stage::Io(queue) => {
                queue.complete_deferred(&mut self.queue, io, cid, result, status);
            }
        }
    }

    /// Aborts a command unless it is in its device. Returns whether it was aborted; `None` if the service gets the
    /// result later.
    pub(crate) fn abort(
        &mut self,
        io: &mut Context<D>,
        cid: u16,
        ticket: AbortTicket,
    ) -> Option<bool> {
        let found = self.queue.transport.find_cid(cid).zip(self.io_queue());
        let Some((slot, (io_queue, queue))) = found else { return Some(false) };
        io_queue.abort(queue, io, slot, ticket)
    }

    /// Sends answers soon whose time has come.
    pub(crate) fn send_paced(&mut self, io: &mut Context<D>) {
        if let Some((io_queue, queue)) = self.io_queue() {
            if let Some(traffic) = io_queue.network.traffic() {
                traffic.leave_agenda();
            }
            queue.send_soon(&mut io.agenda);
        }
    }

    /// Asks the host for data that it may be asked for now. Returns the time at which it may be
    /// asked for more, if there is more.
    pub(crate) fn send_r2ts(&mut self, io: &mut Context<D>) -> Option<Nanos> {
        if self.is_closing() {
            return None;
        }
        let (io_queue, queue) = self.io_queue()?;
        io_queue.send_r2ts(queue, io)
    }

    /// Returns how many of its commands are in each state.
    pub(crate) fn state_counts(&self) -> &StateCounts {
        self.queue.commands.counts()
    }

    /// Counts its commands that do not wait for something to happen.
    pub(crate) fn at_work(&self) -> usize {
        self.queue.commands.at_work()
    }

    /// Returns how many bytes were received and not looked at.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Forgets all traced commands.
    pub(crate) fn end_trace(&mut self, io: &mut Context<D>) {
        self.queue.end_trace(io);
    }

    // The end.

    /// Returns its host's place in the turns.
    pub(crate) fn host_turn(&self) -> HostTurn {
        self.host
    }

    /// Starts to close the connection: receiving stops; with `flush`, queued output is sent first. Only the first
    /// `reason` is logged.
    pub(crate) fn close(
        &mut self,
        io: &mut Context<D>,
        flush: bool,
        reason: impl Into<Cow<'static, str>>,
    ) {
        if self.closing.is_none() {
            let deadline = io.now + LINGER;
            let reason = reason.into();
            io.driver.notice(self.queue.key, Notice::Ending(&reason));
            self.closing = Some(Closing { deadline, flush, reason });
            if let Stage::Io(io_queue) = &mut self.stage {
                io_queue.withdraw(&mut self.queue, io);
            }
            self.end_trace(io);
            io.agenda.closing.add(self.queue.key);
        }
    }

    /// Returns the reason of the connection's end.
    pub(crate) fn end_reason(&self) -> &str {
        self.closing.as_ref().map_or("it was dropped", |closing| &closing.reason)
    }

    /// Returns the time until which a closing connection may send its output; `None` if it sends no more.
    pub(crate) fn sends_until(&self) -> Option<Nanos> {
        self.closing.as_ref().filter(|closing| closing.flush).map(|closing| closing.deadline)
    }

    /// Drives the connection's end. Returns whether the connection may be dropped: the driver has
    /// nothing of it.
    pub(crate) fn ended(&mut self, io: &mut Context<D>) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        let all_sent = !self.queue.transport.is_sending();
        if closing.flush && !all_sent && io.now < closing.deadline {
            return false;
        }
        closing.flush = false;
        // Commands in a device are settled first: a write must not reach the device after the host has learned,
        // from the end of the stream too, that its queue is gone.
        if let Stage::Io(io_queue) = &self.stage
            && !io_queue.is_settled()
        {
            self.receiver.stop(io, self.queue.key);
            return false;
        }
        io.driver.shut_down(self.queue.key);
        self.receiver.is_idle() && self.sender.is_idle() && self.fetching == 0
    }

    /// Returns whether the connection has sent no Connect for `nanos` ns since it was accepted.
    pub(crate) fn is_late(&self, now: Nanos, nanos: u64) -> bool {
        let waits = matches!(&self.stage, Stage::Admin(admin) if !admin.is_connected());
        waits && now.ns_since(self.since) > nanos
    }

    /// Sends commands back to the host that have waited as long as the target lets them.
    pub(crate) fn send_back_overdue(&mut self, io: &mut Context<D>) {
        if self.paused.is_none() && io.now.ns_since(self.stopped) >= CAUGHT_UP {
            self.unread_since = None;
        }
        let wait_max = self.wait_max(io.now);
        if let Stage::Io(io_queue) = &mut self.stage {
            io_queue.send_back_overdue(&mut self.queue, io, wait_max);
        }
    }

    /// Does the same for a command whose device has found no memory for it. Returns the command where it waits on.
    pub(crate) fn send_back_stalled(&mut self, io: &mut Context<D>, job: Job<D>) -> Option<Job<D>> {
        let wait_max = self.wait_max(io.now);
        match &mut self.stage {
            Stage::Io(io_queue) => io_queue.send_back_stalled(&mut self.queue, io, job, wait_max),
            Stage::Admin(_) => Some(job),
        }
    }

    /// Returns for how many ns a command may wait. Held input contains commands too: the limit is lower by its age.
    fn wait_max(&self, now: Nanos) -> u64 {
        match &self.held_input {
            Some(input) if self.paused == Some(Pause::Room) && self.held.bytes() > 0 => {
                wait_max(now.ns_since(input.arrived))
            }
            _ => WAIT_MAX,
        }
    }

    /// Returns the times of input that is received now.
    fn times_of_input(&self, now: Nanos) -> InputTimes {
        InputTimes { received: now, arrived: self.unread_since.unwrap_or(now) }
    }

    /// Begins to process held input, or input that is received now.
    #[inline]
    fn begin_input(&mut self, now: Nanos) {
        self.queue.input = self.held_input.take().unwrap_or_else(|| self.times_of_input(now));
    }

    /// Takes note that all input that has arrived is received.
    #[inline]
    pub(crate) fn caught_up(&mut self, now: Nanos) {
        self.unread_since = self.paused.is_some().then_some(now);
    }

    /// Returns the reason if the host is too slow with data that it owes (the rest of a PDU, or the data of an
    /// R2T): such a host holds buffers that others wait for.
    pub(crate) fn owes_data(&mut self, now: Nanos) -> Option<&'static str> {
        let queue = &mut self.queue;
        let owes = queue.transport.in_data()
            || match &self.stage {
                Stage::Io(io_queue) => io_queue.owes_data(queue),
                Stage::Admin(_) => queue.commands.awaiting_data() > 0,
            };
        if !owes || matches!(self.paused, Some(Pause::Unsent | Pause::Room)) {
            queue.progress.excuse(now);
            return None;
        }
        queue.progress.fault(now, || queue.commands.owed())
    }

    /// Returns whether the host receives its answers too slowly.
    pub(crate) fn keeps_answers(&self, now: Nanos) -> bool {
        self.sender.is_kept(now)
    }

    /// Returns whether the connection is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Returns whether the target holds none of its I/O commands and nothing to send.
    pub(crate) fn is_idle(&self) -> bool {
        let quiet = match &self.stage {
            Stage::Io(io_queue) => io_queue.is_idle(&self.queue),
            Stage::Admin(_) => true,
        };
        quiet && self.sender.is_idle() && self.queue.transport.unsent() == 0
    }
}

/// Bounds the I/O queues of a controller whose admin queue has just been connected, where its host did
/// not honour Command Retry Delays (Host Behavior Support, ACRE) before: the limits of its sessions must
/// let all pass that the queues hold before the host's timeout.
#[cold]
fn bound_queues<D: Driver>(io: &mut Context<D>, origin: &Origin, connected: &Connected) {
    let Some(queues) = connected.without_acre else { return };
    if !io.policies.enabled() {
        return;
    }
    let ControllerShared { host_nqn, subsystem_nqn, .. } = &*connected.shared;
    let largest = u64::from(io.settings.max_transfer);
    let within = connected.namespaces.iter().filter_map(|namespace| {
        let nsid = Some(namespace.nsid);
        let tenancy = io.driver.resolve(&io.policies, origin, host_nqn, subsystem_nqn, nsid);
        tenancy.tenant.session.commands_within(HOST_WAIT_MAX, largest)
    });
    let Some(commands) = within.min() else { return };
    let entries = u16::try_from(commands / u64::from(queues.max(1))).unwrap_or(u16::MAX);
    io.driver.service(|service| service.bound_queues(connected.controller, entries));
}
