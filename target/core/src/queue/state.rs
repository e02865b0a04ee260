//! The queue of a connection: its transport, and the commands that came by it.

use fabric::Nanos;
use fabric::controller::ConnectionId;
use fabric::nvme::Status;
use fabric::queue::{CapsuleData, SlotId, Transport as _};

use super::commands::{Commands, State};
use super::progress::Progress;
use crate::machine::driver::Driver;
use crate::machine::key::Key;
use crate::reactor::agenda::Agenda;
use crate::reactor::context::Context;

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
    /// Whether the reactor's agenda has the connection among those with something to send.
    to_send: bool,
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
            to_send: false,
        }
    }

    /// Completes a command that is in the table of commands.
    pub(crate) fn settle(&mut self, slot: SlotId, status: Status) {
        self.commands.release(slot);
        self.transport.complete(slot, 0, status);
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
