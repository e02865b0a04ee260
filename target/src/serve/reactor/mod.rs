//! Reactors: one thread for each configured core, each with its own ring, its own buffers and its
//! own connections. The usual path of an I/O command takes no lock and allocates nothing.

mod busy;
mod jobs;
pub mod mailbox;
mod moderation;
pub mod pool;
mod queue_pairs;
mod rdma;
mod receive;
mod registered;
pub mod ring;
mod send;
mod tag;
mod uring;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{ConnectionId, ListenerId, SecureChannel};
use fabric::queue::Either;
use fabric::tcp::{TargetConnection, TargetParams};
use sluice_config::{Endpoint, Poll, Transport};
use sluice_core::stats::QueueStats;
use sluice_core::{Accepted, Core, Entrance, Key, Settings, TraceFilter};
use sluice_machine::ring_error::RingError;
use thiserror::Error;

use mailbox::Message;
use moderation::{Moderation, Moved};
use pool::Pool;
use receive::Received;
use ring::{Completion, RecvBuffers, Ring, RingSize};
use tag::Tag;
use uring::Uring;

use super::connections::Registered;
use super::engine::ConnectionState;
use super::gauges::ReactorGauges;
use super::shared::Shared;
use super::tls::{self, Channel, Incoming};
use crate::disks::backend;
use crate::sys::{socket, threads};

/// Number of submission queue entries of a ring.
const RING_ENTRIES: u32 = 1024;
/// Number of completions that are taken at once.
const BATCH: usize = 256;
/// How often in a turn, and until how many bytes have come, sockets that have more are received
/// from again before anything is sent.
const RECEIVES: usize = 8;
const RECEIVED_MAX: usize = 1 << 20;
/// Accepts of one listener that are in the ring, and those of all that go there in a turn.
const ACCEPTS: usize = 16;
const TURNS_ACCEPTS: usize = 4;
/// The time for which a connection over TLS waits for room, as long as its handshake may take.
const TLS_WAIT: Duration = Duration::from_secs(10);
/// Time after which a reactor with connections at its entrance looks again for room.
const ROOM_WAIT: Duration = Duration::from_millis(1);
/// Turns without work, one after the other, after which a reactor that polls lets other threads of its CPU run.
const YIELD_TURNS: u32 = 16;

/// The reason why a reactor does not start.
#[derive(Debug, Error)]
pub enum ReactorError {
    /// The ring could not be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The I/O buffers could not be allocated.
    #[error("cannot map the I/O buffers (io_memory): {0}")]
    Buffers(#[source] std::io::Error),
}

/// One reactor.
#[derive(Debug)]
pub struct Reactor {
    core: Core<Uring>,
    shared: Arc<Shared>,
    /// Index of this reactor.
    reactor: usize,
    buffers: RecvBuffers,
    listeners: HashMap<u32, Listening>,
    /// Listeners with an accept that goes to the ring again, as soon as a turn has room for it.
    accepts: VecDeque<u32>,
    /// Listeners in accept back-off: their accept failed, and is tried again after a while.
    accept_backoff: Vec<u32>,
    /// Accepted connections, until they are served.
    entrance: Entrance<Arrived>,
    completions: Vec<Completion>,
    /// Bytes of this turn from sockets that have more, and are received from again.
    ahead: usize,
    moderation: Moderation,
    /// Whether commands are traced.
    traces: bool,
}

/// A listening socket. It is kept until its accepts have left the ring.
#[derive(Debug)]
struct Listening {
    socket: OwnedFd,
    /// Its accepts in the ring.
    accepting: usize,
    ending: bool,
}

/// A connection that was accepted and is not served yet.
#[derive(Debug)]
struct Arrived {
    incoming: Incoming,
    channel: Channel,
    /// When it is closed if it is not served before; `None`: it waits for as long as it likes.
    until: Option<Nanos>,
}

impl Reactor {
    /// Makes reactor number `reactor`, on the thread that is to run it; the kernel's workers for
    /// its files may run on `worker_cpus`.
    ///
    /// # Errors
    /// No ring or no memory is available; the message names the remedy.
    pub fn new(
        shared: Arc<Shared>,
        reactor: usize,
        worker_cpus: &[usize],
    ) -> Result<Self, ReactorError> {
        let buffers = Settings::RECEIVE_BUFFERS;
        let size = RingSize { entries: RING_ENTRIES, buffers, buffer_bytes: 64 << 10 };
        let (mut ring, buffers) = Ring::new(size)?;
        if let Err(error) = ring.let_workers_run_on(worker_cpus) {
            tracing::warn!(%error, "the kernel's I/O workers share the reactor's CPU");
        }
        shared.passthrough.store(ring.has_passthrough(), Ordering::Relaxed);
        let target = &shared.settings;
        let settings = Settings {
            reactor,
            reactors: shared.mailboxes.len(),
            max_transfer: target.max_transfer,
            in_capsule_data: target.in_capsule_data,
            direct_min: Settings::DIRECT_MIN,
            slice: Settings::SLICE,
            receive_buffers: usize::from(Settings::RECEIVE_BUFFERS),
            retry_delays: target.retry_delays,
        };
        let map = |bytes, largest| Pool::new(bytes, largest).map_err(ReactorError::Buffers);
        let bytes = usize::try_from(target.io_memory).unwrap_or(usize::MAX);
        let (max_transfer, in_capsule) =
            (target.max_transfer as usize, target.in_capsule_data as usize);
        let pool = map(bytes, max_transfer)?;
        let capsules = map(Settings::capsule_memory(bytes, in_capsule), in_capsule)?;
        let largest = max_transfer.max(backend::SCRATCH_MAX);
        let scratch = map(2 * largest, largest)?;
        for memory in [&pool, &capsules] {
            shared.rdma.add_memory(reactor, memory.memory());
        }
        let arenas = [&pool, &capsules, &scratch];
        let places = arenas
            .iter()
            .fold(0_u16, |first, arena| first.saturating_add(arena.allow_registration(first)));
        if let Err(error) = ring.make_room_for_buffers(places) {
            tracing::debug!(%error, "the ring has no registered buffers");
        }
        if let Some(mailbox) = shared.mailbox(reactor) {
            ring.watch(mailbox.wake_up_fd(), Tag::Mail.encode());
        }
        let now = shared.clock.now();
        let waiters = Arc::clone(&shared.qos.waiters);
        let driver = Uring::new(ring, scratch, Arc::clone(&shared), reactor);
        Ok(Self {
            core: Core::new(driver, settings, waiters, (pool, capsules), now),
            shared,
            reactor,
            buffers,
            listeners: HashMap::new(),
            accepts: VecDeque::new(),
            accept_backoff: Vec::new(),
            entrance: Entrance::default(),
            completions: Vec::with_capacity(BATCH),
            ahead: 0,
            moderation: Moderation::default(),
            traces: false,
        })
    }

    /// Runs until it is told to stop and has settled what it had.
    ///
    /// # Errors
    /// The ring fails for good.
    pub fn run(mut self) -> std::io::Result<()> {
        let (poll, poll_time) = (self.shared.settings.poll, self.shared.settings.poll_time);
        let mut last_work = self.core.now();
        let mut empty_turns = 0_u32;
        while !self.finished() {
            let idle = match poll {
                Poll::Always => false,
                Poll::Never => true,
                Poll::Adaptive => self.core.now().since(last_work) >= poll_time,
            };
            let sleep = if idle { self.sleep_time() } else { None };
            let sleep = sleep.filter(|_| self.arm_queue_pairs());
            self.core.driver().ring.turn(sleep)?;
            self.core.set_time(self.shared.clock.now());
            if self.turn()? {
                (last_work, empty_turns) = (self.core.now(), 0);
                if poll != Poll::Never {
                    self.wait_for_next(last_work)?;
                }
            } else if sleep.is_none() {
                empty_turns = empty_turns.wrapping_add(1);
                if empty_turns.is_multiple_of(YIELD_TURNS) {
                    // Threads of the kernel may have been woken on this CPU to bring what is waited for, and
                    // Linux lets a thread that runs end its slice of milliseconds first.
                    std::thread::yield_now();
                }
            }
        }
        if let Some(gauges) = self.shared.gauges(self.reactor) {
            // No watchdog waits for a reactor that has ended.
            gauges.seen.store(u64::MAX, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the next turn may begin, after a turn with work that began at `begun`. Turns are spaced if hosts gain by
    /// it.
    #[inline]
    fn wait_for_next(&mut self, begun: Nanos) -> std::io::Result<()> {
        let Some(gauges) = self.shared.gauges(self.reactor) else { return Ok(()) };
        let spacing = self.moderation.spacing(begun, || {
            let (receives, received) = gauges.receives.counts();
            Moved { bytes: received + gauges.sends.counts().1, receives }
        });
        if spacing.is_zero() {
            return Ok(());
        }
        if self.core.has_urgent() {
            return Ok(());
        }
        let Uring { ring, pairs, .. } = self.core.driver();
        if !pairs.is_empty() {
            // Over RDMA nothing costs the host a system call.
            return Ok(());
        }
        ring.submit()?;
        while self.shared.clock.now() < begun + spacing {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Returns the time that this reactor may sleep; `None` where there is something to do.
    fn sleep_time(&mut self) -> Option<Duration> {
        let waits = !self.entrance.is_empty();
        if !self.accepts.is_empty() || (waits && self.shared.has_room()) {
            return None;
        }
        let now = self.shared.clock.now();
        let look = waits.then(|| now + ROOM_WAIT);
        let until = self.core.idle_until()?;
        let next_try = self.core.driver().jobs.next_try();
        let until = [look, next_try].into_iter().flatten().fold(until, Nanos::min);
        Some(until.since(now))
    }

    /// Takes one turn: takes what has completed, and starts what follows. Returns whether there was
    /// work.
    fn turn(&mut self) -> std::io::Result<bool> {
        let mut worked = self.core.has_changes() && self.change();
        worked |= self.core.begin();
        let (mut receives, mut received) = (0, 0);
        loop {
            let mut completions = std::mem::take(&mut self.completions);
            self.core.driver().ring.completions(&mut completions);
            let count = completions.len();
            for completion in completions.drain(..) {
                self.complete(completion);
            }
            self.completions = completions;
            worked |= count > 0;
            worked |= self.serve_queue_pairs();
            let bytes = std::mem::take(&mut self.ahead);
            (receives, received) = (receives + 1, received + bytes);
            if bytes > 0 && receives < RECEIVES && received < RECEIVED_MAX {
                // All that is there is received first, so that one send answers all of it.
                self.core.driver().ring.turn(None)?;
                continue;
            }
            worked |= self.core.settle();
            if self.core.has_tallies() {
                self.core.record(self.shared.clock.now());
            }
            if count < BATCH {
                break;
            }
        }
        self.buffers.publish();
        worked |= self.accept_and_serve();
        let now = self.core.now();
        if self.core.end() {
            self.chores();
        }
        self.core.driver().pairs.repost();
        let Uring { jobs, ring, .. } = self.core.driver();
        jobs.retry_busy(now, ring);
        if worked {
            self.account();
        }
        Ok(worked)
    }

    /// Takes a part of the changes, and notes the CPU time of that part. Returns whether there was
    /// one.
    fn change(&mut self) -> bool {
        let start = threads::cpu_time();
        let any = self.core.change();
        if let Some(gauges) = self.shared.gauges(self.reactor) {
            gauges.changes.record(threads::cpu_time().saturating_sub(start), 1);
        }
        any
    }

    fn complete(&mut self, completion: Completion) {
        match Tag::decode(completion.user_data) {
            Some(Tag::Receive(key)) => self.received(key, &completion),
            Some(Tag::ReceiveOnce(key)) => self.received_once(key, &completion),
            Some(Tag::Send(key)) => {
                if let Some(gauges) = self.shared.gauges(self.reactor) {
                    gauges.sends.add(completion.result);
                }
                let ended = self.core.driver().send_ended(key, completion.result);
                if let Some((batch, lost)) = ended {
                    self.core.sent(key, Either::Left(batch), lost);
                }
            }
            Some(Tag::Unit(unit)) => self.unit_ended(unit, &completion),
            Some(Tag::Mail) => {
                if !completion.more()
                    && let Some(mailbox) = self.shared.mailbox(self.reactor)
                {
                    self.core.driver().ring.watch(mailbox.wake_up_fd(), Tag::Mail.encode());
                }
                self.read_mail();
            }
            Some(Tag::Accept(listener)) => self.accepted(listener, &completion),
            Some(Tag::Completions(number)) => self.completions_came(number, completion.more()),
            Some(Tag::Close) => self.core.driver().ring.closed(),
            Some(Tag::Cancel) | None => {}
        }
    }

    #[inline]
    fn received(&mut self, key: Key, completion: &Completion) {
        if let Some(gauges) = self.shared.gauges(self.reactor) {
            gauges.receives.add(completion.result);
        }
        let mut gone = None;
        if let Some(buffer) = completion.buffer() {
            if let Ok(length) = usize::try_from(completion.result) {
                self.core.received(key, Either::Left(self.buffers.received(buffer, length)));
                if !completion.left_more() {
                    self.core.caught_up(key);
                }
            }
            self.buffers.recycle(buffer);
        } else if completion.result == -libc::ENOBUFS {
            self.core.receive_starved(key);
            return;
        } else if completion.result != -libc::ECANCELED {
            // The end of the stream (0), an error of the socket, or what TLS has beside data.
            gone = self.core.driver().why_over(key, completion.result);
        }
        if !completion.more() {
            self.core.receive_ended(key, gone);
        }
    }

    fn received_once(&mut self, key: Key, completion: &Completion) {
        let result = completion.result;
        if let Some(gauges) = self.shared.gauges(self.reactor) {
            gauges.receives.add(result);
        }
        let Some(received) = self.core.driver().receive_ended(key, completion) else { return };
        let passes = result > 0 || matches!(-result, libc::EINTR | libc::EAGAIN | libc::ECANCELED);
        // The end of the stream, an error of the socket, or what TLS has beside data.
        if !passes && let Some(over) = self.core.driver().why_over(key, result) {
            return self.core.receive_ended(key, Some(over));
        }
        let Received { place, placed, rest } = received;
        let again = self.core.received_once(key, place, placed, Either::Left(rest.bytes()));
        self.core.driver().keep(key, rest);
        if !completion.left_more() {
            self.core.caught_up(key);
        } else if again {
            self.ahead += usize::try_from(result).unwrap_or(0);
        }
    }

    fn unit_ended(&mut self, unit: u32, completion: &Completion) {
        let now = self.core.now();
        let Uring { jobs, ring, scratch, .. } = self.core.driver();
        let answer = (completion.result, completion.extra);
        let finished = jobs.finish(now, unit, answer, ring, scratch);
        if let Some((key, started)) = finished {
            self.core.job_ended(key, started);
        }
    }

    fn accepted(&mut self, listener: u32, completion: &Completion) {
        if let Ok(fd) = u32::try_from(completion.result) {
            // SAFETY: a successful accept made this descriptor, and it is nobody else's.
            let socket = unsafe { OwnedFd::from_raw_fd(fd.cast_signed()) };
            self.accepted_socket(ListenerId(listener), socket);
        }
        let Some(listening) = self.listeners.get_mut(&listener) else { return };
        listening.accepting = listening.accepting.saturating_sub(1);
        if listening.ending {
            if listening.accepting == 0 {
                self.listeners.remove(&listener);
            }
        } else if completion.result < 0 {
            // No descriptor is left, most likely: another accept at once would fail again.
            self.accept_backoff.push(listener);
        } else {
            self.accepts.push_back(listener);
        }
    }

    /// Accepts one connection from a listener.
    fn accept(&mut self, listener: u32) {
        if let Some(listening) = self.listeners.get_mut(&listener)
            && !listening.ending
        {
            listening.accepting += 1;
            let (fd, tag) = (listening.socket.as_raw_fd(), Tag::Accept(listener).encode());
            self.core.driver().ring.accept(fd, tag);
        }
    }

    /// Accepts no more connections from a listener; the listener goes when its accepts have ended.
    fn unlisten(&mut self, listener: u32) {
        self.accepts.retain(|other| *other != listener);
        self.accept_backoff.retain(|other| *other != listener);
        let Some(listening) = self.listeners.get_mut(&listener) else { return };
        listening.ending = true;
        if listening.accepting == 0 {
            self.listeners.remove(&listener);
            return;
        }
        self.core.driver().ring.cancel(Tag::Accept(listener).encode(), Tag::Cancel.encode());
    }

    /// Takes the socket of a connection that was accepted.
    fn accepted_socket(&mut self, listener: ListenerId, socket: OwnedFd) {
        self.shared.events.accepted.fetch_add(1, Ordering::Relaxed);
        match socket::peer(&socket) {
            Ok(peer) => self.arrived(Incoming { socket, listener, peer }, Channel::Unknown),
            Err(error) => tracing::debug!(%error, "a connection was gone before it was served"),
        }
    }

    /// Lets a connection wait until it is served; one over TLS for a bounded time, since its key may be
    /// taken away meanwhile.
    fn arrived(&mut self, incoming: Incoming, channel: Channel) {
        let address = incoming.peer.ip();
        let over_tls = matches!(channel, Channel::Tls { .. });
        let until = over_tls.then(|| self.core.now() + TLS_WAIT);
        let arrived = Arrived { incoming, channel, until };
        if let Some((peer, refused)) = self.entrance.come(address, arrived) {
            self.crowded_out(refused.incoming.socket, peer);
        }
    }

    /// Closes the connections for which there was no room in time.
    fn close_late(&mut self) {
        let now = self.core.now();
        let late = |arrived: &Arrived| arrived.until.is_some_and(|until| until <= now);
        for Arrived { incoming: Incoming { socket, peer, .. }, .. } in
            self.entrance.take_those(late)
        {
            self.core.driver().ring.close(socket, Tag::Close.encode());
            tls::refuse(&self.shared, peer, &"there was no room for it within 10 s");
        }
    }

    /// Closes a connection that is not served, because too many come.
    fn crowded_out(&mut self, socket: OwnedFd, peer: IpAddr) {
        self.core.driver().ring.close(socket, Tag::Close.encode());
        self.shared.events.waiting_closed.fetch_add(1, Ordering::Relaxed);
        if self.shared.may_log(peer) {
            tracing::warn!(%peer, "too many connections come at once: one was refused");
        }
    }

    /// Accepts further connections, and serves some of those that have arrived. Returns whether
    /// there were any.
    fn accept_and_serve(&mut self) -> bool {
        for _ in 0..TURNS_ACCEPTS {
            let Some(listener) = self.accepts.pop_front() else { break };
            self.accept(listener);
        }
        if self.entrance.is_empty() {
            return false;
        }
        self.entrance.begin();
        let mut any = false;
        while self.shared.has_room()
            && let Some(arrived) = self.entrance.serve_next()
        {
            if !self.distribute(arrived) {
                break;
            }
            any = true;
        }
        any
    }

    /// Gives a new connection to the reactor that has the least to do; first to the thread of
    /// handshakes, where it may be over TLS. Returns false where that has too much to do: then the
    /// connection waits again.
    fn distribute(&mut self, Arrived { incoming, channel, .. }: Arrived) -> bool {
        if let Err(error) = socket::prepare(&incoming.socket) {
            tracing::debug!(%error, "a connection was gone before it was served");
            return true;
        }
        let shared = &self.shared;
        if matches!(channel, Channel::Unknown) {
            match shared.tls.channel(incoming.listener) {
                Some(SecureChannel::Off) => {}
                Some(_) => {
                    let Some(incoming) = shared.tls.begin(incoming) else { return true };
                    // The entrance decides whose connections wait, and whose go.
                    self.arrived(incoming, Channel::Unknown);
                    return false;
                }
                None => {
                    tracing::debug!(peer = %incoming.peer, "its listener was removed");
                    return true;
                }
            }
        }
        let Incoming { socket, listener, peer } = incoming;
        let loads = shared.gauges.iter().map(ReactorGauges::load);
        let near = socket::incoming_cpu(&socket)
            .and_then(|cpu| shared.settings.cores.iter().position(|core| *core == cpu));
        let reactor = sluice_core::place(loads, near).unwrap_or(self.reactor);
        if let Some(gauges) = shared.gauges(reactor) {
            gauges.connections.fetch_add(1, Ordering::Relaxed);
            gauges.waiting.fetch_add(1, Ordering::Relaxed);
        }
        if reactor == self.reactor {
            self.serve(socket, listener, peer, channel);
        } else if let Some(mailbox) = shared.mailbox(reactor) {
            mailbox.post(Message::Serve { socket, listener, peer, channel });
        }
        true
    }

    fn serve(&mut self, socket: OwnedFd, listener: ListenerId, peer: SocketAddr, channel: Channel) {
        let (stats, in_flight) = (Arc::default(), Arc::default());
        let tos = socket::received_tos(&socket);
        let local = socket::local_address(&socket);
        let params = TargetParams::for_transfers(self.shared.settings.max_transfer);
        let key = self.core.accept(Accepted {
            transport: Either::Left(TargetConnection::new(params)),
            listener,
            peer: peer.ip(),
            tos,
            stats: Arc::clone(&stats),
            in_flight: Arc::clone(&in_flight),
        });
        self.core.driver().add(key, Some(socket), (peer, local), listener);
        self.register(key, (peer, local, Transport::Tcp), stats, in_flight);
        if let Channel::Tls { names, cipher, session } = channel {
            self.core.driver().is_over_tls(key, session);
            let id = key.id(self.reactor);
            self.shared.connections.update(id, |state| state.tls = Some(cipher.to_owned()));
            self.shared.with_service(|service| service.secured(id, names));
        }
        self.core.start(key);
    }

    /// Makes a connection known that has just been accepted.
    fn register(
        &self,
        key: Key,
        (peer, local, transport): (SocketAddr, Option<SocketAddr>, Transport),
        stats: Arc<QueueStats>,
        in_flight: Arc<AtomicU32>,
    ) {
        let id = key.id(self.reactor);
        self.let_wait(id, peer);
        let local = local.map(|local| Endpoint { transport, address: socket::named(local) });
        let state = ConnectionState {
            id: id.0,
            peer: peer.to_string(),
            listener: local.map_or_else(String::new, |endpoint| endpoint.to_string()),
            reactor: self.reactor,
            host: None,
            subsystem: None,
            controller: None,
            queue: None,
            in_flight: 0,
            digests: (false, false),
            tls: None,
            authenticated: false,
            network: None,
        };
        self.shared.connections.add(id, Registered { state, stats, in_flight });
    }

    /// Counts a connection among those without a Connect, of which one goes where they are too many.
    fn let_wait(&self, id: ConnectionId, peer: SocketAddr) {
        let gone = self.shared.with_service(|service| service.accepted(id, peer.ip()));
        if gone.is_none() {
            return;
        }
        self.shared.events.waiting_closed.fetch_add(1, Ordering::Relaxed);
        if self.shared.may_log(peer.ip()) {
            tracing::warn!(
                %peer,
                "max_waiting connections have sent no Connect: the oldest of the address with the \
                 most was closed for another one"
            );
        }
    }

    fn read_mail(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(mailbox) = shared.mailbox(self.reactor) else { return };
        for message in mailbox.take() {
            self.deliver(message);
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Serve { socket, listener, peer, channel } => {
                self.serve(socket, listener, peer, channel);
            }
            Message::Arrived { incoming, channel } => self.arrived(incoming, channel),
            Message::QueuePair(new) => self.serve_queue_pair(*new),
            Message::QueuePairLost { token, reason } => {
                self.core.driver().pairs.lost(token, reason);
            }
            Message::RdmaDeviceGone(token) => {
                self.core.driver().pairs.device_gone(token);
            }
            Message::CompletionsUnused(number) => self.drop_completions(number),
            Message::Listen { listener, socket } => {
                let listening = Listening { socket, accepting: 0, ending: false };
                self.listeners.insert(listener.0, listening);
                for _ in 0..ACCEPTS {
                    self.accept(listener.0);
                }
            }
            Message::Unlisten(listener) => self.unlisten(listener.0),
            Message::Refresh(touched) => self.core.touch(touched),
            Message::Gone(devices) => self.core.lose(devices),
            Message::Trace(filter) => self.trace(filter),
            Message::Act(action) => self.core.act(action),
            Message::Stop { now } => self.stop(now),
        }
    }

    /// Traces the commands that a filter selects, or none.
    fn trace(&mut self, filter: Option<Arc<TraceFilter>>) {
        self.traces = filter.is_some();
        self.core.trace(filter);
    }

    fn stop(&mut self, now: bool) {
        for listener in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.unlisten(listener);
        }
        self.entrance = Entrance::default();
        self.core.drain(if now { Duration::ZERO } else { self.shared.settings.drain_time });
    }

    /// Says whether the reactor was told to stop and has nothing left.
    fn finished(&mut self) -> bool {
        let drained = self.core.is_drained();
        let Uring { jobs, ring, .. } = self.core.driver();
        drained && jobs.len() == 0 && !ring.is_closing()
    }

    /// Looks after what has no completion of its own.
    fn chores(&mut self) {
        if let Some(gauges) = self.shared.gauges(self.reactor) {
            gauges.seen.store(self.core.now().0, Ordering::Relaxed);
            gauges.set_states(&self.core.states());
        }
        for listener in std::mem::take(&mut self.accept_backoff) {
            self.accept(listener);
        }
        if self.traces && self.shared.traces.is_over(self.core.now()) {
            self.trace(None);
        }
        if !self.entrance.is_empty() {
            self.close_late();
        }
    }

    fn account(&mut self) {
        let calls = self.core.driver().ring.calls();
        let Some(gauges) = self.shared.gauges(self.reactor) else { return };
        let busy = self.shared.clock.now().0.saturating_sub(self.core.now().0);
        gauges.busy_ns.store(gauges.busy_ns.load(Ordering::Relaxed) + busy, Ordering::Relaxed);
        gauges.calls.store(calls, Ordering::Relaxed);
        gauges.turns.store(gauges.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let (used, total) = self.core.buffers();
        gauges.buffer_used.store(used as u64, Ordering::Relaxed);
        gauges.buffer_total.store(total as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
