//! The queue of a connection: its transport, and the commands that came by it.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::EntryId;
use fabric::Nanos;
use fabric::controller::{ConnectionId, ControllerShared};
use fabric::nvme::{Sqe, Status};
use fabric::queue::{CapsuleData, SlotId, Transport as _};

use super::commands::{Commands, State};
use super::progress::Progress;
use crate::machine::driver::Driver;
use crate::machine::key::Key;
use crate::reactor::agenda::Agenda;
use crate::reactor::context::Context;
use crate::trace::TracedCommand;
use crate::trace::answers::Answers;
use crate::trace::stamps::Stamp;

/// The queue of a connection.
#[derive(Debug)]
pub(crate) struct Queue<D: Driver> {
    /// The connection in its reactor.
    pub(crate) key: Key,
    /// The connection in the whole target.
    pub(crate) id: ConnectionId,
    pub(crate) transport: D::Transport,
    pub(crate) commands: Commands<D>,
    pub(crate) progress: Progress,
    /// The times of the input that is processed now.
    pub(crate) input: InputTimes,
    /// The trace of the queue; `None`: the reactor does not trace, or has seen no command of the queue since it does.
    trace: Option<Box<QueueTrace>>,
    /// Whether the reactor's agenda has the connection among those with something to send.
    to_send: bool,
}

/// The times of a piece of input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputTimes {
    /// The time at which it was received.
    pub(crate) received: Nanos,
    /// The earliest time at which it can have arrived. It is earlier than `received` if the connection was not read.
    pub(crate) arrived: Nanos,
}

/// The trace of an I/O queue.
#[derive(Debug)]
struct QueueTrace {
    controller: Arc<ControllerShared>,
    qid: u16,
    /// Whether commands of the queue are traced.
    is_selected: bool,
    answers: Answers,
}

impl<D: Driver> Queue<D> {
    /// Makes an empty queue.
    pub(crate) fn new(key: Key, id: ConnectionId, transport: D::Transport, now: Nanos) -> Self {
        Self {
            key,
            id,
            transport,
            commands: Commands::default(),
            progress: Progress::new(now),
            input: InputTimes { received: now, arrived: now },
            trace: None,
            to_send: false,
        }
    }

    /// Completes a command that is in the table of commands.
    pub(crate) fn settle(&mut self, io: &mut Context<D>, slot: SlotId, status: Status) {
        let traced = self.take_stamp(io.now, slot);
        self.commands.release(slot);
        self.transport.complete(slot, 0, status);
        if let Some((stamp, sqe)) = traced {
            self.trace_answer(io, (slot, status), &sqe, *stamp, false);
        }
    }

    /// Refuses a command that is not in the table; data that is still on its way is let pass
    /// first.
    #[cold]
    pub(crate) fn refuse(&mut self, slot: SlotId, status: Status, data: &CapsuleData<'_>) {
        if matches!(data, CapsuleData::Partial { .. }) {
            self.commands.occupy(slot, State::Failing(status));
        } else {
            self.transport.complete(slot, 0, status);
        }
    }

    /// Announces to the arbiter that a command waits for memory or its host's data: it is demand of a reservation.
    pub(crate) fn announce(&mut self, io: &mut Context<D>, slot: SlotId) {
        if let Some(command) = self.commands.command_mut(slot)
            && command.announced.is_none()
            && let Some(flow) = command.charge.flow
        {
            command.announced = io.stages.arbiter.announce(io.now, flow);
        }
    }

    /// Ends the announcement of a command that has come to the arbiter, or will not.
    #[inline]
    pub(crate) fn end_announced(&mut self, io: &mut Context<D>, slot: SlotId) {
        if let Some(announced) = self.commands.take_announced(slot) {
            io.stages.arbiter.end_announced(io.now, announced);
        }
    }

    /// Removes a command from the queue in which it waits, and releases its resources. Returns false for a command
    /// in its device or without a queue; a sliced one then stops after the slice in the device.
    pub(crate) fn withdraw(&mut self, io: &mut Context<D>, slot: SlotId) -> bool {
        self.explain_turn(io, slot);
        let stages = &mut io.stages;
        let grant = match self.commands.take(slot) {
            State::MemoryTurn(entry) => {
                stages.gate.cancel(entry);
                None
            }
            State::DeviceTurn(entry, _, source) => {
                stages.arbiter.cancel(io.now, entry);
                source.grant()
            }
            State::SliceTurn(_, entry) => {
                stages.arbiter.cancel(io.now, entry);
                io.agenda.add_slice(self.key, self.nsid_of(slot));
                None
            }
            State::AnswerTurn(entry, ..) => {
                stages.arbiter.cancel(io.now, entry);
                None
            }
            State::DataBuffer(grant) | State::Promised(_, grant) | State::Parked(_, _, grant) => {
                Some(grant)
            }
            State::Filling(_, source) | State::Lent(source) => source.grant(),
            State::ReadTurn(entry) => {
                stages.reads.gate().cancel(entry);
                None
            }
            State::R2tTurn | State::ReadBuffer(_) | State::Slicing(_) => None,
            State::SliceInDevice(mut sliced) => {
                sliced.stop();
                self.commands.put_back(slot, State::SliceInDevice(sliced));
                return false;
            }
            other => {
                self.commands.put_back(slot, other);
                return false;
            }
        };
        stages.give_back_memory(grant);
        self.end_announced(io, slot);
        true
    }

    /// Returns the NSID of the command in a slot.
    pub(crate) fn nsid_of(&self, slot: SlotId) -> u32 {
        self.transport.sqe_of(slot).nsid.get()
    }

    /// Returns the next large command at a namespace to request the turn of a slice.
    pub(crate) fn next_sliced(&self, nsid: u32) -> Option<SlotId> {
        self.commands.next_sliced(|slot| self.nsid_of(slot) == nsid)
    }

    /// Returns whether a command of the queue's controller that has just arrived is traced, as far as its namespace and
    /// class decide that.
    #[cold]
    pub(crate) fn traces(
        &mut self,
        io: &mut Context<D>,
        (controller, qid): (&Arc<ControllerShared>, u16),
        (nsid, class): (u32, Class),
    ) -> bool {
        let Some(tracing) = &mut io.tracing else { return false };
        let trace = self.trace.get_or_insert_with(|| {
            let is_selected = tracing.begin_queue(controller);
            let (controller, answers) = (Arc::clone(controller), Answers::default());
            Box::new(QueueTrace { controller, qid, is_selected, answers })
        });
        trace.is_selected && tracing.selects(nsid, class)
    }

    /// Begins to stamp a command that enters the table.
    pub(crate) fn stamp(&mut self, slot: SlotId, stamp: Stamp) {
        self.commands.stamps.get_or_insert_default().begin(slot, stamp);
    }

    /// Keeps the arbiter's counts for a traced command that begins to wait for its turn.
    #[inline]
    pub(crate) fn watch_turn(&mut self, io: &mut Context<D>, slot: SlotId, entry: EntryId) {
        if let Some(stamps) = &mut self.commands.stamps
            && stamps.has(slot)
        {
            stamps.watch(slot, io.stages.arbiter.watch(io.now, entry));
        }
    }

    /// Divides the time that a traced command has waited for its turn by the reasons.
    #[inline]
    pub(crate) fn explain_turn(&mut self, io: &Context<D>, slot: SlotId) {
        if let Some(stamps) = &mut self.commands.stamps
            && let Some(watch) = stamps.watched(slot)
        {
            let waited = io.stages.arbiter.explain(io.now, watch);
            stamps.waited(io.now, slot, waited);
        }
    }

    /// Takes the stamps of a command that is answered now, and the command itself.
    #[inline]
    pub(crate) fn take_stamp(&mut self, now: Nanos, slot: SlotId) -> Option<(Box<Stamp>, Sqe)> {
        let stamp = self.commands.stamps.as_mut()?.take(now, slot)?;
        Some((stamp, *self.transport.sqe_of(slot)))
    }

    /// Follows the answer of a traced command to the host. It is in the transport, or (`is_held`) waits for its turn on
    /// the connection.
    #[cold]
    pub(crate) fn trace_answer(
        &mut self,
        io: &mut Context<D>,
        (slot, status): (SlotId, Status),
        sqe: &Sqe,
        stamp: Stamp,
        is_held: bool,
    ) {
        let Some((trace, tracing)) = self.trace.as_mut().zip(io.tracing.as_mut()) else { return };
        if !tracing.takes(io.now, io.now.ns_since(stamp.received)) {
            return;
        }
        let command = TracedCommand {
            connection: self.id,
            controller: Arc::clone(&trace.controller),
            qid: trace.qid,
            cid: sqe.cid.get(),
            opcode: sqe.opcode,
            nsid: sqe.nsid.get(),
            lba: sqe.slba(),
            bytes: stamp.bytes,
            class: stamp.class,
            status,
            received: stamp.received,
            times: stamp.times,
            session: stamp.session,
            skipped: 0,
        };
        match is_held {
            true => trace.answers.hold(io.now, slot, command),
            false => trace.answers.queue(io.now, command, self.transport.unsent()),
        }
    }

    /// Returns the transport, and the traced commands whose answers are not sent yet; `None`: no command is traced.
    #[inline]
    pub(crate) fn parts_to_send(&mut self) -> (&mut D::Transport, Option<&mut Answers>) {
        (&mut self.transport, self.trace.as_deref_mut().map(|trace| &mut trace.answers))
    }

    /// Forgets all traced commands.
    pub(crate) fn end_trace(&mut self, io: &mut Context<D>) {
        self.commands.stamps = None;
        if let Some(trace) = self.trace.take()
            && trace.is_selected
            && let Some(tracing) = &mut io.tracing
        {
            tracing.end_queue();
        }
    }

    /// Notes that there may be something to send.
    #[inline]
    pub(crate) fn send_soon(&mut self, agenda: &mut Agenda) {
        if !self.to_send {
            self.to_send = true;
            agenda.to_send.push(self.key);
        }
    }

    /// Notes that the agenda no longer has the connection among those with something to send.
    pub(crate) fn leave_agenda(&mut self) {
        self.to_send = false;
    }
}
