//! One TCP connection: its socket, its protocol state, and the commands it has in the target.
//!
//! A connection is dropped only when the ring holds nothing of it any more: neither its receive
//! nor its send.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbitration::overload::RefusedOnce;
use fabric::Nanos;
use fabric::controller::{ConnectionId, DeferredCommands};
use fabric::nvme::SglKind;
use fabric::queue::{Received, SlotId, Termination, Transport as _};
use fabric::tcp::{Batch, TargetConnection, TargetParams};

use crate::commands::{Commands, State};
use crate::context::{Context, Settings};
use crate::core::Accepted;
use crate::driver::{Buffer, Driver, Memory, Notice};
use crate::io_queue::IoQueue;
use crate::key::Key;
use crate::lanes::Origin;
use crate::net::Net;
use crate::payload::TxData;
use crate::stats::IoStats;

/// What a connection is, as far as the host has told.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Before a successful Connect.
    New,
    /// The admin queue of a controller.
    Admin,
    /// An I/O queue of a controller.
    Io(IoQueue),
}

/// The queue of a connection.
pub(crate) type Protocol<D> = TargetConnection<TxData<Buffer<D>>>;

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection<D: Driver> {
    pub(crate) key: Key,
    pub(crate) id: ConnectionId,
    pub(crate) protocol: Protocol<D>,
    pub(crate) stage: Stage,
    pub(crate) commands: Commands<D>,
    /// Commands of an admin queue whose data is arriving.
    pub(crate) collecting: u32,
    /// Admin commands that the service answers later.
    pub(crate) deferred: DeferredCommands<SlotId>,
    pub(crate) stats: Arc<IoStats>,
    pub(crate) in_flight: Arc<AtomicU32>,
    /// When it was accepted.
    pub(crate) since: Nanos,
    /// When something was last received.
    pub(crate) heard: Nanos,
    /// Failed commands put into the error log in the second that began then.
    pub(crate) logged: (Nanos, u32),
    /// Bytes received while no command could be taken.
    held: Vec<u8>,
    paused: bool,
    /// The driver receives for it.
    receiving: bool,
    /// A batch of it is with the driver.
    sending: bool,
    /// Its side of stage S6; none before it is an I/O queue.
    pub(crate) net: Option<Box<Net<Buffer<D>>>>,
    /// It is in the reactor's list of connections with something to send.
    pub(crate) dirty: bool,
    /// Commands of it that are in a queued backend.
    pub(crate) in_backend: u32,
    closing: Option<Closing>,
    /// Commands that wait with a buffer for in-capsule data in hand.
    pub(crate) in_capsules: u32,
    /// What its class is made of.
    pub(crate) origin: Origin,
    /// The DSCP that answers carry.
    pub(crate) marked: Option<u8>,
    /// Commands that were told to come again later, and when this connection was first held back.
    pub(crate) refused: Option<RefusedOnce>,
    pub(crate) held_since: Option<Nanos>,
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
fn params(settings: &Settings) -> TargetParams {
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

impl<D: Driver> Connection<D> {
    /// A connection that has just been accepted.
    pub(crate) fn new(
        io: &Context<D>,
        key: Key,
        Accepted { listener, tos, stats, in_flight }: Accepted,
    ) -> Self {
        Self {
            key,
            id: key.id(io.settings.reactor),
            protocol: TargetConnection::new(params(&io.settings)),
            stage: Stage::New,
            commands: Commands::default(),
            collecting: 0,
            deferred: DeferredCommands::default(),
            stats,
            in_flight,
            since: io.now,
            heard: io.now,
            logged: (io.now, 0),
            held: Vec::new(),
            paused: false,
            receiving: false,
            sending: false,
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

    /// Receives, unless it does already or may not.
    pub(crate) fn arm(&mut self, io: &mut Context<D>) {
        if !self.receiving && !self.paused && self.closing.is_none() {
            self.receiving = true;
            io.driver.receive(self.key);
        }
    }

    /// The driver receives no more.
    pub(crate) fn disarmed(&mut self) {
        self.receiving = false;
    }

    /// Takes received bytes.
    #[inline]
    pub(crate) fn receive(&mut self, io: &mut Context<D>, bytes: &[u8]) {
        if self.closing.is_some() {
            return;
        }
        self.heard = io.now;
        if self.paused {
            self.held.extend_from_slice(bytes);
            return;
        }
        if let Stage::Io(queue) = &mut self.stage {
            queue.refresh(&mut io.driver);
        }
        self.consume(io, bytes);
    }

    fn consume(&mut self, io: &mut Context<D>, mut bytes: &[u8]) {
        while self.closing.is_none() {
            if self.must_wait(io) {
                self.pause(io, bytes);
                return;
            }
            match self.protocol.next(&mut bytes) {
                Ok(None) => break,
                Ok(Some(event)) => self.event(io, event),
                Err(violation) => {
                    io.driver.notice(self.key, Notice::BrokeProtocol(&violation));
                    self.close(io, true, format!("it broke the protocol: {violation}"));
                }
            }
        }
        self.mark_dirty(io);
    }

    #[inline]
    fn event(&mut self, io: &mut Context<D>, event: Received<'_>) {
        match event {
            Received::Command { slot, sqe, data } => match self.stage {
                Stage::Io(_) => self.io_command(io, slot, &sqe, data),
                Stage::New | Stage::Admin => self.admin_command(io, slot, &sqe, data),
            },
            Received::Data { slot, offset, bytes } => {
                if let Some(net) = &mut self.net {
                    let place = self.protocol.sqe_of(slot).sgl.decode();
                    let asked = matches!(place, SglKind::Transport);
                    net.received(self.commands.charged(slot).class, bytes.len(), asked);
                }
                if matches!(self.commands.state(slot), State::Promised(..)) {
                    self.keep_promise(io, slot);
                }
                self.commands.fill(slot, offset, bytes);
            }
            Received::DataEnd { slot, digest_ok } => self.data_end(io, slot, digest_ok),
            Received::GrantEnd { slot } => self.grant_end(io, slot),
            Received::Initialized => {}
            Received::Terminated(Termination { code: fes, information: fei }) => {
                io.driver.notice(self.key, Notice::Terminated { fes, fei });
                self.close(io, false, "it ended the connection with a termination request");
            }
        }
    }

    fn data_end(&mut self, io: &mut Context<D>, slot: SlotId, digest_ok: bool) {
        match self.stage {
            Stage::Io(_) => self.io_data_end(io, slot, digest_ok),
            Stage::New | Stage::Admin => self.admin_data_end(io, slot, digest_ok),
        }
    }

    /// Whether no command may be taken now: the host does not read its answers, or the next
    /// command might find no buffer for its in-capsule data. Then the bytes stay in the socket,
    /// and TCP holds the host back. Data that is arriving has its buffer already.
    #[inline]
    fn must_wait(&mut self, io: &Context<D>) -> bool {
        let held = self.net.as_ref().map_or(0, |net| net.waiting_bytes());
        let unsent = self.protocol.unsent() + held;
        if matches!(self.stage, Stage::Io(_)) {
            let in_capsule = io.settings.in_capsule_data as usize;
            unsent > UNSENT_MAX
                || (!self.protocol.in_data()
                    && (!io.capsules.has(in_capsule) || (io.waits() && self.is_held_back(io))))
        } else {
            unsent > ADMIN_UNSENT_MAX
        }
    }

    #[cold]
    fn pause(&mut self, io: &mut Context<D>, rest: &[u8]) {
        self.paused = true;
        self.held.extend_from_slice(rest);
        io.paused.push(self.key);
        if self.receiving {
            io.driver.stop_receiving(self.key);
        }
        self.mark_dirty(io);
    }

    /// Goes on where [`Self::pause`] stopped, if it may.
    pub(crate) fn resume(&mut self, io: &mut Context<D>) {
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
    pub(crate) fn mark_dirty(&mut self, io: &mut Context<D>) {
        if !self.dirty {
            self.dirty = true;
            io.dirty.push(self.key);
        }
    }

    /// Submits what is queued for sending, unless a send is on its way already.
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut Context<D>) {
        self.in_flight
            .store(u32::try_from(self.protocol.in_flight()).unwrap_or(u32::MAX), Ordering::Relaxed);
        if self.closing.as_ref().is_some_and(|closing| !closing.flush) {
            return;
        }
        self.take_turns(io);
        if let Some(batch) = self.protocol.tx().take() {
            self.sending = true;
            io.driver.send(self.key, batch);
        }
        self.tell_network();
    }

    /// A batch has been sent; or, with the reason, as far as it will be.
    pub(crate) fn sent(
        &mut self,
        io: &mut Context<D>,
        batch: Batch<TxData<Buffer<D>>>,
        lost: Option<Cow<'static, str>>,
    ) {
        self.sending = false;
        self.protocol.tx().give_back(batch);
        match lost {
            None => self.mark_dirty(io),
            Some(reason) => self.close(io, false, reason),
        }
    }

    /// Bytes that were received and not looked at.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Whether a batch is with the driver.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending
    }

    /// Begins the end: nothing is received any more; with `flush` what is queued goes out first.
    /// The first `reason` is the one that is told.
    pub(crate) fn close(
        &mut self,
        io: &mut Context<D>,
        flush: bool,
        reason: impl Into<Cow<'static, str>>,
    ) {
        if self.closing.is_none() {
            let deadline = Nanos(io.now.0.saturating_add(LINGER_NS));
            let reason = reason.into();
            io.driver.notice(self.key, Notice::Ending(&reason));
            self.closing = Some(Closing { deadline, flush, reason });
            self.withdraw(io);
            io.closing.push(self.key);
        }
    }

    /// Why the connection ends.
    pub(crate) fn end_reason(&self) -> &str {
        self.closing.as_ref().map_or("it was dropped", |closing| &closing.reason)
    }

    /// Drives the end; true when the connection may be dropped: the ring has nothing of it.
    pub(crate) fn ended(&mut self, io: &mut Context<D>) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        let all_sent = !self.protocol.tx().in_flight();
        if closing.flush && !all_sent && io.now < closing.deadline {
            return false;
        }
        closing.flush = false;
        io.driver.shut_down(self.key);
        // Commands in a backend are settled first: a write must not reach the device after the
        // host has been told that its queue is gone.
        !self.receiving && !self.sending && self.in_backend == 0
    }

    /// Whether the host owes data (the rest of a PDU, or the answer to an R2T) and has sent nothing
    /// for `nanos`: it holds buffers that others wait for.
    pub(crate) fn owes_data(&mut self, now: Nanos, nanos: u64) -> bool {
        let not_asked = self.net.as_ref().map_or(0, |net| net.asks.begun());
        now.0.saturating_sub(self.heard.0) > nanos
            && !self.paused
            && (self.protocol.in_data() || self.commands.awaiting_data() > not_asked)
    }

    /// Whether the connection is on its way out.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Whether no I/O command of it is in the target.
    pub(crate) fn is_idle(&mut self) -> bool {
        let quiet = !matches!(self.stage, Stage::Io(_)) || self.commands.active() == 0;
        quiet && !self.sending && !self.holds_answers() && self.protocol.unsent() == 0
    }
}
