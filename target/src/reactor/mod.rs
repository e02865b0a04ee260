//! Reactors: one thread for each configured core, each with its own ring, its own buffers and its
//! own connections. No lock is taken and nothing is allocated on the way of an I/O command.

mod accounts;
mod admin_queue;
mod asks;
mod changes;
mod connection;
mod credits;
mod io;
mod io_queue;
mod jobs;
pub mod key;
mod lanes;
pub mod mailbox;
mod marks;
mod net;
mod ordered;
pub(crate) mod overload;
mod payload;
pub mod pool;
pub mod ring;
pub mod ring_error;
mod send;
mod slots;
mod sweep;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arbitration::Reactors;
use arbitration::arbiter::{Dispatched, Pull};
use fabric::Nanos;
use fabric::controller::{Action, CloseReason, ListenerId};
use fabric::tcp::SlotId;
use thiserror::Error;

use connection::{Connection, Stage};
use io::Io;
use jobs::Started;
use key::{Key, Tag};
use mailbox::Message;
use ordered::stage_time;
use ring::{Completion, RecvBuffers};
use ring_error::RingError;

use crate::config::Poll;
use crate::engine::ConnectionState;
use crate::shared::{Registered, Shared, lock};
use crate::socket;

/// Completions taken at once.
const BATCH: usize = 256;
/// How long a connection may take to send Connect, in ns.
const CONNECT_TIME_NS: u64 = 10_000_000_000;
/// How long a host may owe data that it was asked for, or the rest of a PDU, in ns.
const DATA_TIME_NS: u64 = 30_000_000_000;
/// How often a reactor looks after what has no completion of its own.
const CHORES: Duration = Duration::from_millis(100);
/// How long hosts wait at most before it is seen anew whether they may be asked for data.
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// How long units wait whose device was busy.
const BUSY_WAIT: Duration = Duration::from_micros(100);

/// Why a reactor does not start.
#[derive(Debug, Error)]
pub enum ReactorError {
    /// No ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// No I/O buffers.
    #[error("cannot map the I/O buffers (io_memory): {0}")]
    Buffers(#[source] std::io::Error),
}

/// One reactor.
#[derive(Debug)]
pub struct Reactor {
    io: Io,
    buffers: RecvBuffers,
    places: Vec<Place>,
    free: Vec<u32>,
    listeners: HashMap<u32, Listening>,
    /// Listeners whose accept has failed, to be tried again after a while.
    deaf: Vec<u32>,
    /// Connections whose receive has ended and is to be armed again.
    rearm: Vec<Key>,
    completions: Vec<Completion>,
    next_chores: Nanos,
    next_retry: Nanos,
    /// When draining must be over.
    drain_until: Option<Nanos>,
    /// Connections may have other classes than before; and the next that is to be looked at, while
    /// some are.
    remark: bool,
    marking: Option<usize>,
}

/// A listening socket. It is kept until its accept has left the ring.
#[derive(Debug)]
struct Listening {
    socket: OwnedFd,
    ending: bool,
}

/// A place in the table of connections.
#[derive(Debug, Default)]
struct Place {
    generation: u32,
    connection: Option<Box<Connection>>,
}

impl Reactor {
    /// Makes reactor number `reactor`, on the thread that is to run it; the kernel's workers for
    /// its files may run on `worker_cpus`.
    ///
    /// # Errors
    /// No ring or no memory is to be had; the message says what to do.
    pub fn new(
        shared: Arc<Shared>,
        reactor: usize,
        worker_cpus: &[usize],
    ) -> Result<Self, ReactorError> {
        let (io, buffers) = Io::new(shared, reactor, worker_cpus)?;
        let now = io.now;
        Ok(Self {
            io,
            buffers,
            places: Vec::new(),
            free: Vec::new(),
            listeners: HashMap::new(),
            deaf: Vec::new(),
            rearm: Vec::new(),
            completions: Vec::with_capacity(BATCH),
            next_chores: now,
            next_retry: now,
            drain_until: None,
            remark: false,
            marking: None,
        })
    }

    /// Runs until it is told to stop and has settled what it had.
    ///
    /// # Errors
    /// The ring fails for good.
    pub fn run(mut self) -> std::io::Result<()> {
        let poll = self.io.shared.settings.poll;
        let poll_time = self.io.shared.settings.poll_time;
        let mut last_work = self.io.now;
        while !self.finished() {
            let idle = match poll {
                Poll::Always => false,
                Poll::Never => true,
                Poll::Adaptive => self.io.now.since(last_work) >= poll_time,
            };
            let sleep = if idle { self.sleep_time() } else { None };
            self.io.ring.turn(sleep)?;
            self.io.now = self.io.shared.clock.now();
            if self.turn() {
                last_work = self.io.now;
            }
        }
        if let Some(gauges) = self.io.shared.gauges.get(self.io.reactor) {
            // Nobody waits for a reactor that has ended.
            gauges.seen.store(u64::MAX, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How long this reactor may sleep; `None` where there is something to do. While it sleeps,
    /// others wake it when there is room for a command that waits.
    fn sleep_time(&mut self) -> Option<Duration> {
        if !self.io.sweeps.is_empty() || self.is_changing() {
            return None;
        }
        let now = stage_time(&self.io);
        let timer = loop {
            match self.io.arbiter.pull_before_sleep(now) {
                Pull::Command(command) => {
                    self.serve_command(now, command);
                    return None;
                }
                Pull::Wake(reactors) => self.wake(reactors),
                Pull::Later(at) => break Some(at),
                Pull::Nothing => break None,
            }
        };
        let longest = if self.io.jobs.any_busy() { BUSY_WAIT } else { CHORES };
        let ask = (!self.io.asking.is_empty()).then_some(self.io.next_ask);
        let next = [timer, self.io.jobs.next_due(), ask].into_iter().flatten().min();
        let now = self.io.shared.clock.now();
        Some(next.map_or(longest, |at| at.since(now).min(longest)))
    }

    /// One turn: takes what has completed, and sets going what follows. Whether there was work.
    fn turn(&mut self) -> bool {
        let mut worked = false;
        worked |= self.change();
        worked |= self.end_timed();
        for (key, slot) in std::mem::take(&mut self.io.sweeps) {
            worked = true;
            if let Some(connection) = find(&mut self.places, key) {
                connection.go_on_sweeping(&mut self.io, slot);
            }
        }
        loop {
            let mut completions = std::mem::take(&mut self.completions);
            self.io.ring.completions(&mut completions);
            let count = completions.len();
            for completion in completions.drain(..) {
                self.complete(completion);
            }
            self.completions = completions;
            self.ask();
            worked |= self.serve_ordered();
            self.serve_waiting();
            self.flush();
            worked |= count > 0;
            if count < BATCH {
                break;
            }
        }
        self.rearm();
        if self.io.jobs.any_busy() && self.io.now >= self.next_retry {
            self.next_retry = self.io.now + BUSY_WAIT;
            self.io.jobs.retry_busy(&mut self.io.ring);
        }
        if self.io.now >= self.next_chores {
            self.chores();
        }
        if !self.io.closing.is_empty() {
            self.bury();
        }
        if worked {
            self.account();
        }
        worked
    }

    fn complete(&mut self, completion: Completion) {
        match Tag::decode(completion.user_data) {
            Some(Tag::Receive(key)) => self.received(key, &completion),
            Some(Tag::Send(key)) => {
                self.io.ring.send_ended();
                if let Some(connection) = find(&mut self.places, key) {
                    connection.sent(&mut self.io, completion.result);
                }
            }
            Some(Tag::Unit(unit)) => self.unit_ended(unit, &completion),
            Some(Tag::Mail) => {
                if !completion.more()
                    && let Some(mailbox) = self.io.shared.mailboxes.get(self.io.reactor)
                {
                    self.io.ring.watch(mailbox.bell(), Tag::Mail.encode());
                }
                self.read_mail();
            }
            Some(Tag::Accept(listener)) => self.accepted(listener, &completion),
            Some(Tag::Cancel) | None => {}
        }
    }

    #[inline]
    fn received(&mut self, key: Key, completion: &Completion) {
        let connection = find(&mut self.places, key);
        if let Some(buffer) = completion.buffer() {
            if let (Some(connection), Ok(length)) = (connection, usize::try_from(completion.result))
            {
                connection.receive(&mut self.io, self.buffers.received(buffer, length));
            }
            self.buffers.recycle(buffer);
        } else if completion.result != -libc::ENOBUFS
            && completion.result != -libc::ECANCELED
            && let Some(connection) = connection
        {
            // The end of the stream (0), or an error of the socket.
            connection.close(&mut self.io, false, connection::lost(completion.result));
        }
        if !completion.more()
            && let Some(connection) = find(&mut self.places, key)
        {
            connection.disarmed();
            self.rearm.push(key);
        }
    }

    /// Arms the receives again that have ended, now that their buffers are back.
    fn rearm(&mut self) {
        self.buffers.publish();
        for key in self.rearm.drain(..) {
            if let Some(connection) = find(&mut self.places, key) {
                connection.arm(&mut self.io);
            }
        }
    }

    fn unit_ended(&mut self, unit: u32, completion: &Completion) {
        let Io { jobs, ring, scratch, .. } = &mut self.io;
        let finished = jobs.finish(unit, completion.result, completion.extra, ring, scratch);
        let Some((key, started)) = finished else { return };
        if let Some(connection) = find(&mut self.places, key) {
            connection.launched(&mut self.io, started);
        }
    }

    /// Ends what a timed backend has complete by now.
    fn end_timed(&mut self) -> bool {
        let mut any = false;
        while let Some(ended) = self.io.jobs.due(self.io.now) {
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
        let now = stage_time(&self.io);
        let mut any = false;
        loop {
            match self.io.arbiter.pull(now) {
                Pull::Command(command) => {
                    any = true;
                    self.serve_command(now, command);
                }
                Pull::Wake(reactors) => self.wake(reactors),
                Pull::Later(_) | Pull::Nothing => return any,
            }
        }
    }

    /// Sets a command going whose turn it is.
    fn serve_command(&mut self, now: arbitration::Nanos, command: Dispatched<(Key, SlotId)>) {
        match find(&mut self.places, command.item.0) {
            Some(connection) => connection.granted(&mut self.io, command),
            None => self.io.arbiter.complete(now, command.grant, false),
        }
    }

    /// Wakes other reactors.
    fn wake(&self, reactors: Reactors) {
        for reactor in reactors {
            if let Some(mailbox) = self.io.shared.mailboxes.get(reactor as usize) {
                mailbox.ring();
            }
        }
    }

    /// Serves, in the order they came, those that wait for buffers.
    fn serve_waiting(&mut self) {
        while let Some(job) = self.io.stalled.pop_front() {
            let Some(connection) = find(&mut self.places, job.origin.0) else {
                let mut job = job;
                for grant in [job.grant.take(), job.memory.take()].into_iter().flatten() {
                    self.io.arbiter.complete(stage_time(&self.io), grant, false);
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
        }
    }

    fn serve_in_turn(&mut self, queue: impl Fn(&mut Io) -> &mut VecDeque<(Key, SlotId)>) {
        while let Some(&(key, slot)) = queue(&mut self.io).front() {
            if let Some(connection) = find(&mut self.places, key)
                && !connection.retry_waiting(&mut self.io, slot)
            {
                break;
            }
            queue(&mut self.io).pop_front();
        }
    }

    /// Submits what connections have queued for sending.
    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for key in dirty.drain(..) {
            if let Some(connection) = find(&mut self.places, key) {
                connection.dirty = false;
                connection.flush(&mut self.io);
            }
        }
        self.io.dirty = dirty;
    }

    fn accepted(&mut self, listener: u32, completion: &Completion) {
        if let Ok(fd) = u32::try_from(completion.result) {
            // SAFETY: a successful accept made this descriptor, and it is nobody else's.
            let socket = unsafe { OwnedFd::from_raw_fd(fd.cast_signed()) };
            self.distribute(ListenerId(listener), socket);
        }
        if completion.more() {
            return;
        }
        match self.listeners.get(&listener) {
            Some(listening) if listening.ending => {
                self.listeners.remove(&listener);
            }
            // Most likely no descriptor is left: trying at once would be trying for ever.
            Some(_) if completion.result < 0 => self.deaf.push(listener),
            Some(_) => self.listen(listener),
            None => {}
        }
    }

    /// Accepts connections from a listener.
    fn listen(&mut self, listener: u32) {
        if let Some(Listening { socket, ending: false }) = self.listeners.get(&listener) {
            self.io.ring.accept(socket.as_raw_fd(), Tag::Accept(listener).encode());
        }
    }

    /// Accepts no more connections from a listener; it goes when its accept has.
    fn unlisten(&mut self, listener: u32) {
        if let Some(listening) = self.listeners.get_mut(&listener) {
            listening.ending = true;
            self.io.ring.cancel(Tag::Accept(listener).encode(), Tag::Cancel.encode());
        }
        if self.deaf.contains(&listener) {
            self.listeners.remove(&listener);
        }
    }

    /// Gives a new connection to the reactor that has the fewest.
    fn distribute(&mut self, listener: ListenerId, socket: OwnedFd) {
        let shared = Arc::clone(&self.io.shared);
        shared.events.accepted.fetch_add(1, Ordering::Relaxed);
        let load = |index: &usize| {
            shared.gauges.get(*index).map_or(u64::MAX, |g| g.connections.load(Ordering::Relaxed))
        };
        let total: u64 = (0..shared.gauges.len()).map(|i| load(&i)).sum();
        if total >= u64::from(shared.settings.max_connections) {
            tracing::warn!(total, "max_connections is reached: a connection was refused");
            return;
        }
        let peer = match socket::prepare(&socket) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::debug!(%error, "a connection was gone before it was served");
                return;
            }
        };
        let reactor = (0..shared.gauges.len()).min_by_key(load).unwrap_or(self.io.reactor);
        if let Some(gauges) = shared.gauges.get(reactor) {
            gauges.connections.fetch_add(1, Ordering::Relaxed);
        }
        if reactor == self.io.reactor {
            self.serve(socket, listener, peer);
        } else if let Some(mailbox) = shared.mailboxes.get(reactor) {
            mailbox.post(Message::Serve { socket, listener, peer });
        }
    }

    fn serve(&mut self, socket: OwnedFd, listener: ListenerId, peer: SocketAddr) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let Some(place) = self.places.get_mut(index as usize) else { return };
        let key = Key { index, generation: place.generation };
        let local = socket::local_address(&socket);
        let mut connection = Box::new(Connection::new(&self.io, key, socket, listener, peer));
        let state = ConnectionState {
            id: connection.id.0,
            peer: peer.to_string(),
            listener: local.map_or_else(String::new, |address| address.to_string()),
            reactor: self.io.reactor,
            host: None,
            subsystem: None,
            controller: None,
            queue: None,
            in_flight: 0,
            digests: (false, false),
            network: None,
        };
        let registered = Registered {
            state,
            stats: Arc::clone(&connection.stats),
            in_flight: Arc::clone(&connection.in_flight),
        };
        lock(&self.io.shared.connections).insert(connection.id, registered);
        connection.arm(&mut self.io);
        place.connection = Some(connection);
    }

    fn read_mail(&mut self) {
        let shared = Arc::clone(&self.io.shared);
        let Some(mailbox) = shared.mailboxes.get(self.io.reactor) else { return };
        for message in mailbox.take() {
            self.deliver(message);
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Serve { socket, listener, peer } => self.serve(socket, listener, peer),
            Message::Listen { listener, socket } => {
                self.listeners.insert(listener.0, Listening { socket, ending: false });
                self.listen(listener.0);
            }
            Message::Unlisten(listener) => self.unlisten(listener.0),
            Message::Refresh(touched) => self.io.touched.push_back((touched, 0)),
            Message::Gone(devices) => self.io.gone.push_back((devices, 0)),
            Message::Act(action) => self.act(action),
            Message::Stop { now } => self.stop(now),
        }
    }

    /// Does what the service wants done.
    fn act(&mut self, action: Action) {
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
                        let events = &self.io.shared.events;
                        events.keep_alive_expired.fetch_add(1, Ordering::Relaxed);
                    }
                    connection.close(&mut self.io, true, reason.text());
                }
            }
            Action::Abort { ticket, connection, cid } => {
                let aborted = find(&mut self.places, Key::of(connection).1)
                    .is_some_and(|connection| connection.abort(&mut self.io, cid));
                self.io.shared.with_service(|service| service.abort_done(ticket, aborted));
            }
            Action::TableChanged { .. } => {}
        }
    }

    fn stop(&mut self, now: bool) {
        self.io.draining = true;
        for listener in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.unlisten(listener);
        }
        let time = if now { Duration::ZERO } else { self.io.shared.settings.drain_time };
        let until = self.io.now + time;
        self.drain_until = Some(self.drain_until.map_or(until, |earlier| earlier.min(until)));
        self.next_chores = self.io.now;
    }

    /// Whether the reactor was told to stop and has nothing left.
    fn finished(&self) -> bool {
        self.drain_until.is_some()
            && self.io.jobs.len() == 0
            && self.places.iter().all(|place| place.connection.is_none())
    }

    /// What is looked after now and then: connections that end, or that never began.
    fn chores(&mut self) {
        let soon = Duration::from_millis(if self.drain_until.is_some() { 2 } else { 100 });
        self.next_chores = self.io.now + soon;
        if let Some(gauges) = self.io.shared.gauges.get(self.io.reactor) {
            gauges.seen.store(self.io.now.0, Ordering::Relaxed);
        }
        for listener in std::mem::take(&mut self.deaf) {
            self.listen(listener);
        }
        for connection in self.places.iter_mut().filter_map(|place| place.connection.as_mut()) {
            if connection.is_closing() {
                continue;
            }
            let late = matches!(connection.stage, Stage::New)
                && self.io.now.0.saturating_sub(connection.since.0) > CONNECT_TIME_NS;
            if late {
                tracing::info!(peer = %connection.peer, "no Connect within 10 s");
                connection.close(&mut self.io, false, "no Connect within 10 s");
            } else if connection.owes_data(self.io.now, DATA_TIME_NS) {
                tracing::warn!(peer = %connection.peer, "the host owes data for 30 s: closing");
                connection.close(&mut self.io, false, "it owes data for 30 s");
            }
        }
        if self.io.draining {
            self.drain();
        }
    }

    /// Closes what has settled. A controller's admin queue goes after its I/O queues, which
    /// otherwise would end with it.
    fn drain(&mut self) {
        let overdue = self.drain_until.is_some_and(|until| self.io.now >= until);
        let is_io = |state: &ConnectionState| state.queue.is_some_and(|queue| queue > 0);
        let io_left = lock(&self.io.shared.connections).values().any(|other| is_io(&other.state));
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
            self.forget(&connection);
        }
    }

    /// Takes a connection out of everything that is shared.
    fn forget(&mut self, connection: &Connection) {
        let (shared, now) = (&self.io.shared, self.io.now);
        let shut_down = shared.with_service(|service| {
            let shut_down = service.is_shut_down(connection.id);
            service.disconnected(now, connection.id);
            shut_down
        });
        shared.network.went(connection.id);
        let mut connections = lock(&shared.connections);
        let registered = connections.remove(&connection.id);
        if let Some(Registered { state, stats, .. }) = &registered
            && let Some(host) = state.host_key()
        {
            lock(&shared.ended).add(now, host, &stats.snapshot());
        }
        drop(connections);
        let queue = registered.and_then(|r| r.state.queue.zip(r.state.controller));
        if let Some((0, controller)) = queue {
            let reason =
                if shut_down { "it shut the controller down" } else { connection.end_reason() };
            shared.tell_of_hosts(|hosts, now| hosts.left(now, controller, reason.to_owned()));
        }
        if let Some(gauges) = shared.gauges.get(self.io.reactor) {
            gauges.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn account(&self) {
        let Some(gauges) = self.io.shared.gauges.get(self.io.reactor) else { return };
        let busy = self.io.shared.clock.now().0.saturating_sub(self.io.now.0);
        gauges.busy_ns.store(gauges.busy_ns.load(Ordering::Relaxed) + busy, Ordering::Relaxed);
        gauges.turns.store(gauges.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let ((used, total), (more_used, more)) = (self.io.pool.usage(), self.io.capsules.usage());
        gauges.buffer_used.store((used + more_used) as u64, Ordering::Relaxed);
        gauges.buffer_total.store((total + more) as u64, Ordering::Relaxed);
    }
}

/// The connection of that name, if it is still there.
#[inline]
fn find(places: &mut [Place], key: Key) -> Option<&mut Box<Connection>> {
    let place = places.get_mut(key.index as usize)?;
    if place.generation == key.generation { place.connection.as_mut() } else { None }
}
