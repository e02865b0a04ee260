//! One TCP connection: its socket, its protocol state, and the commands it has in the target.
//!
//! A connection is dropped only when the ring holds nothing of it any more: neither its receive
//! nor its send.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbitration::overload::RefusedOnce;
use fabric::Nanos;
use fabric::controller::{ConnectionId, DeferredCommands, ListenerId};
use fabric::nvme::SglKind;
use fabric::tcp::{Received, SlotId, TargetConnection, TargetParams};
use nix::sys::socket::{Shutdown, shutdown};

use super::Io;
use super::io_queue::IoQueue;
use super::key::{Key, Tag};
use super::lanes::Origin;
use super::net::Net;
use super::payload::TxData;
use super::send::SendState;
use super::slots::{Phase, Slots};
use crate::stats::IoStats;
use crate::{config, socket};

/// What a connection is, as far as the host has told.
#[derive(Debug)]
pub(super) enum Stage {
    /// Before a successful Connect.
    New,
    /// The admin queue of a controller.
    Admin,
    /// An I/O queue of a controller.
    Io(IoQueue),
}

/// One TCP connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) key: Key,
    pub(super) id: ConnectionId,
    pub(super) peer: SocketAddr,
    pub(super) socket: OwnedFd,
    pub(super) protocol: TargetConnection<TxData>,
    pub(super) stage: Stage,
    pub(super) slots: Slots,
    /// Commands of an admin queue whose data is arriving.
    pub(super) collecting: u32,
    /// Admin commands that the service answers later.
    pub(super) deferred: DeferredCommands<SlotId>,
    pub(super) stats: Arc<IoStats>,
    pub(super) in_flight: Arc<AtomicU32>,
    /// When it was accepted.
    pub(super) since: Nanos,
    /// When something was last received.
    pub(super) heard: Nanos,
    /// Failed commands put into the error log in the second that began then.
    pub(super) logged: (Nanos, u32),
    /// Bytes received while no command could be taken.
    held: Vec<u8>,
    paused: bool,
    /// The multishot receive is in the ring.
    receiving: bool,
    pub(super) send: SendState,
    /// Its side of stage S6; none before it is an I/O queue.
    pub(super) net: Option<Box<Net>>,
    /// It is in the reactor's list of connections with something to send.
    pub(super) dirty: bool,
    /// Commands of it that are in a queued backend.
    pub(super) in_backend: u32,
    closing: Option<Closing>,
    /// Commands that wait with a buffer for in-capsule data in hand.
    pub(super) in_capsules: u32,
    /// What its class is made of.
    pub(super) origin: Origin,
    /// The DSCP that answers carry.
    pub(super) marked: Option<u8>,
    /// Commands that were told to come again later, and when this connection was first held back.
    pub(super) refused: Option<RefusedOnce>,
    pub(super) held_since: Option<Nanos>,
}

/// The end of a connection.
#[derive(Debug)]
struct Closing {
    /// Nothing more is sent after this time.
    deadline: Nanos,
    /// What is queued (a termination request) is sent first.
    flush: bool,
    /// Why, in words.
    reason: Cow<'static, str>,
}

/// A connection with more than this to send (beside what is in flight) takes no commands until
/// its host has read: bytes, on an I/O queue (nearly all of it data in buffers that are bounded
/// anyway) and on others.
const UNSENT_MAX: usize = 4 << 20;
const ADMIN_UNSENT_MAX: usize = 256 << 10;

/// How long a peer has to take what is still to be sent when a connection ends, in ns.
const LINGER_NS: u64 = 1_000_000_000;

/// The protocol limits of a new connection.
fn params(settings: &config::Target) -> TargetParams {
    TargetParams {
        cpda: 0,
        header_digest: true,
        data_digest: true,
        max_h2c_data: settings.max_transfer.max(128 << 10),
        in_capsule_data: 8192,
        max_r2t_data: settings.max_transfer,
        max_c2h_data: settings.max_transfer,
    }
}

/// Why a connection is over after a receive or send that ended so: 0 or less.
pub(super) fn lost(result: i32) -> Cow<'static, str> {
    match result.checked_neg() {
        Some(0) | None => "it closed the connection".into(),
        Some(error) => {
            format!("the connection was lost: {}", std::io::Error::from_raw_os_error(error)).into()
        }
    }
}

impl Connection {
    /// A connection that has just been accepted.
    pub(super) fn new(
        io: &Io,
        key: Key,
        socket: OwnedFd,
        listener: ListenerId,
        peer: SocketAddr,
    ) -> Self {
        let tos = socket::received_tos(&socket);
        Self {
            key,
            id: key.id(io.reactor),
            peer,
            socket,
            protocol: TargetConnection::new(params(&io.shared.settings)),
            stage: Stage::New,
            slots: Slots::default(),
            collecting: 0,
            deferred: DeferredCommands::default(),
            stats: Arc::default(),
            in_flight: Arc::default(),
            since: io.now,
            heard: io.now,
            logged: (io.now, 0),
            held: Vec::new(),
            paused: false,
            receiving: false,
            send: SendState::default(),
            net: None,
            dirty: false,
            in_backend: 0,
            closing: None,
            in_capsules: 0,
            origin: Origin { listener, priority: 0, weighted: false, tos },
            marked: None,
            refused: None,
            held_since: None,
        }
    }

    /// Arms the multishot receive.
    pub(super) fn arm(&mut self, io: &mut Io) {
        if !self.receiving && !self.paused && self.closing.is_none() {
            self.receiving = true;
            io.ring.receive(self.socket.as_raw_fd(), Tag::Receive(self.key).encode());
        }
    }

    /// The multishot receive has ended.
    pub(super) fn disarmed(&mut self) {
        self.receiving = false;
    }

    /// Takes received bytes.
    #[inline]
    pub(super) fn receive(&mut self, io: &mut Io, bytes: &[u8]) {
        if self.closing.is_some() {
            return;
        }
        self.heard = io.now;
        if self.paused {
            self.held.extend_from_slice(bytes);
            return;
        }
        if let Stage::Io(queue) = &mut self.stage {
            queue.refresh(&io.shared);
        }
        self.consume(io, bytes);
        self.tally(io);
    }

    fn consume(&mut self, io: &mut Io, mut bytes: &[u8]) {
        while self.closing.is_none() {
            if self.must_wait(io) {
                self.pause(io, bytes);
                return;
            }
            match self.protocol.next(&mut bytes) {
                Ok(None) => break,
                Ok(Some(event)) => self.event(io, event),
                Err(violation) => {
                    io.shared.events.protocol_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(peer = %self.peer, %violation, "the host broke the protocol");
                    self.close(io, true, format!("it broke the protocol: {violation}"));
                }
            }
        }
        self.mark_dirty(io);
    }

    #[inline]
    fn event(&mut self, io: &mut Io, event: Received<'_>) {
        match event {
            Received::Command { slot, sqe, data } => match self.stage {
                Stage::Io(_) => self.io_command(io, slot, &sqe, data),
                Stage::New | Stage::Admin => self.admin_command(io, slot, &sqe, data),
            },
            Received::Data { slot, offset, bytes } => {
                if let Some(net) = &mut self.net {
                    let place = self.protocol.sqe_of(slot).sgl.decode();
                    let asked = matches!(place, SglKind::Transport);
                    net.received(self.slots.slot(slot).charged.class, bytes.len(), asked);
                }
                if matches!(self.slots.slot(slot).phase, Phase::Promised(_)) {
                    self.keep_promise(io, slot);
                }
                self.slots.fill(slot, offset, bytes);
            }
            Received::DataEnd { slot, digest_ok } => self.data_end(io, slot, digest_ok),
            Received::GrantEnd { slot } => self.grant_end(io, slot),
            Received::Initialized => {}
            Received::Terminated { fes, fei } => {
                tracing::warn!(peer = %self.peer, fes, fei, "the host ended the connection");
                self.close(io, false, "it ended the connection with a termination request");
            }
        }
    }

    fn data_end(&mut self, io: &mut Io, slot: SlotId, digest_ok: bool) {
        match self.stage {
            Stage::Io(_) => self.io_data_end(io, slot, digest_ok),
            Stage::New | Stage::Admin => self.admin_data_end(io, slot, digest_ok),
        }
    }

    /// Whether no command may be taken now: the host does not read its answers, or the next
    /// command might find no buffer for its in-capsule data. Then the bytes stay in the socket,
    /// and TCP holds the host back. Data that is arriving has its buffer already.
    #[inline]
    fn must_wait(&mut self, io: &Io) -> bool {
        let held = self.net.as_ref().map_or(0, |net| net.waiting_bytes());
        let unsent = self.protocol.tx().pending_bytes() + held;
        if matches!(self.stage, Stage::Io(_)) {
            let in_capsule = io.shared.settings.in_capsule_data as usize;
            unsent > UNSENT_MAX
                || (!self.protocol.in_data()
                    && (!io.capsules.has(in_capsule)
                        || (io.arbiter.waiting() > 0 && self.is_held_back(io))))
        } else {
            unsent > ADMIN_UNSENT_MAX
        }
    }

    #[cold]
    fn pause(&mut self, io: &mut Io, rest: &[u8]) {
        self.paused = true;
        self.held.extend_from_slice(rest);
        io.paused.push(self.key);
        if self.receiving {
            io.ring.cancel(Tag::Receive(self.key).encode(), Tag::Cancel.encode());
        }
        self.mark_dirty(io);
    }

    /// Goes on where [`Self::pause`] stopped, if it may.
    pub(super) fn resume(&mut self, io: &mut Io) {
        if self.must_wait(io) {
            io.paused.push(self.key);
            return;
        }
        self.paused = false;
        let held = std::mem::take(&mut self.held);
        self.receive(io, &held);
        self.arm(io);
    }

    /// Notes that there may be something to send.
    #[inline]
    pub(super) fn mark_dirty(&mut self, io: &mut Io) {
        if !self.dirty {
            self.dirty = true;
            io.dirty.push(self.key);
        }
    }

    /// Submits what is queued for sending, unless a send is on its way already.
    #[inline]
    pub(super) fn flush(&mut self, io: &mut Io) {
        self.in_flight
            .store(u32::try_from(self.protocol.in_flight()).unwrap_or(u32::MAX), Ordering::Relaxed);
        if self.closing.as_ref().is_some_and(|closing| !closing.flush) {
            return;
        }
        self.take_turns(io);
        let tag = Tag::Send(self.key).encode();
        self.send.start(self.protocol.tx(), self.socket.as_raw_fd(), tag, &mut io.ring);
        self.tell_network();
    }

    /// A send has ended.
    pub(super) fn sent(&mut self, io: &mut Io, result: i32) {
        self.send.ended();
        match usize::try_from(result) {
            Ok(bytes) => {
                self.protocol.tx().advance(bytes);
                self.mark_dirty(io);
            }
            Err(_) => self.close(io, false, lost(result)),
        }
    }

    /// Begins the end: nothing is received any more; with `flush` what is queued goes out first.
    /// The first `reason` is the one that is told.
    pub(super) fn close(&mut self, io: &mut Io, flush: bool, reason: impl Into<Cow<'static, str>>) {
        if self.closing.is_none() {
            let deadline = Nanos(io.now.0.saturating_add(LINGER_NS));
            let reason = reason.into();
            tracing::debug!(peer = %self.peer, %reason, "a connection is ended");
            self.closing = Some(Closing { deadline, flush, reason });
            self.withdraw(io);
            io.closing.push(self.key);
        }
    }

    /// Why the connection ends.
    pub(super) fn end_reason(&self) -> &str {
        self.closing.as_ref().map_or("it was dropped", |closing| &closing.reason)
    }

    /// Drives the end; true when the connection may be dropped: the ring has nothing of it.
    pub(super) fn ended(&mut self, io: &mut Io) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        let all_sent = !self.send.active() && !self.protocol.tx().in_flight();
        if closing.flush && !all_sent && io.now < closing.deadline {
            return false;
        }
        closing.flush = false;
        // Fails only where the peer has gone already.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        // Commands in a backend are settled first: a write must not reach the device after the
        // host has been told that its queue is gone.
        !self.receiving && !self.send.active() && self.in_backend == 0
    }

    /// Whether the host owes data (the rest of a PDU, or the answer to an R2T) and has sent nothing
    /// for `nanos`: it holds buffers that others wait for.
    pub(super) fn owes_data(&mut self, now: Nanos, nanos: u64) -> bool {
        let not_asked = self.net.as_ref().map_or(0, |net| net.asks.begun());
        now.0.saturating_sub(self.heard.0) > nanos
            && !self.paused
            && (self.protocol.in_data() || self.slots.awaiting_data() > not_asked)
    }

    /// Whether the connection is on its way out.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Whether no I/O command of it is in the target.
    pub(super) fn is_idle(&mut self) -> bool {
        let quiet = !matches!(self.stage, Stage::Io(_)) || self.slots.active() == 0;
        quiet
            && !self.send.active()
            && !self.holds_answers()
            && self.protocol.tx().pending_bytes() == 0
    }
}
