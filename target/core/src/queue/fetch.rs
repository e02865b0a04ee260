//! The way of a host's data into a buffer: an R2T when the pacer, the gate to the memory for data,
//! and the buffers allow one; then the data itself.

use std::time::Duration;

use arbitration::memory::MemoryGrant;
use fabric::nvme::Status;
use fabric::queue::{SlotId, Transport as _};

use super::commands::{Source, State};
use super::state::Queue;
use crate::machine::driver::{Buffer, Driver};
use crate::network::traffic::Traffic;
use crate::reactor::context::Context;

/// Time that a host takes to answer an R2T, beside the network's time.
const HOST_TIME: Duration = Duration::from_micros(500);

/// A queue whose hosts' data is fetched.
#[derive(Debug)]
pub(crate) struct Fetch<'a, D: Driver> {
    pub(crate) queue: &'a mut Queue<D>,
    pub(crate) io: &'a mut Context<D>,
    pub(crate) traffic: Option<&'a mut Traffic<Buffer<D>>>,
}

/// The outcome of a command all of whose data has come.
#[derive(Debug)]
pub(crate) enum Fetched<D: Driver> {
    /// The command goes to its device; its state was taken.
    Ready(Buffer<D>, Source),
    /// The command waits for a buffer.
    Waits,
    /// The command ends with this status.
    Failed(Status),
}

impl<D: Driver> Fetch<'_, D> {
    /// Begins to fetch `bytes` bytes from the host for a command that has just arrived.
    pub(crate) fn begin(&mut self, slot: SlotId, bytes: usize) {
        self.queue.announce(self.io, slot);
        let class = self.queue.commands.charge(slot).class;
        if let Some(traffic) = &mut self.traffic
            && traffic.needs_turns()
        {
            traffic.pacer_mut().push_fresh(class, slot, length(bytes));
            self.queue.commands.change(self.io.now, slot, State::R2tTurn);
            self.list_for_r2t();
        } else {
            self.wait_for_memory(slot, bytes);
        }
    }

    /// Queues a command for its next R2T: the host has sent all requested data.
    pub(crate) fn r2t_ended(&mut self, slot: SlotId) {
        let class = self.queue.commands.charge(slot).class;
        self.queue.commands.expect_data(self.io.now, slot, false);
        if let Some(traffic) = &mut self.traffic {
            traffic.pacer_mut().push_begun(class, slot);
            self.list_for_r2t();
        }
    }

    fn list_for_r2t(&mut self) {
        if let Some(traffic) = &mut self.traffic
            && !traffic.pacer_mut().list()
        {
            self.io.agenda.add_r2t(self.queue.key, self.io.now);
        }
    }

    /// Queues a command for its turn to get memory for its data.
    pub(crate) fn wait_for_memory(&mut self, slot: SlotId, bytes: usize) {
        let (key, charge) = (self.queue.key, self.queue.commands.charge(slot));
        let Some(flow) = charge.fetch else {
            debug_assert!(false, "a command that brings data has a queue for its memory");
            return;
        };
        let gate = &mut self.io.stages.gate;
        let waiting = gate.enqueue(flow, charge.class, length(bytes), (key, slot));
        self.queue.commands.change(self.io.now, slot, State::MemoryTurn(waiting));
    }

    /// Takes memory for a command's data, and requests the data as soon as there is a buffer.
    pub(crate) fn memory_granted(&mut self, slot: SlotId, grant: MemoryGrant) {
        if !matches!(self.queue.commands.state(slot), State::MemoryTurn(_)) {
            self.io.stages.gate.give_back(grant);
            return;
        }
        self.queue.commands.change(self.io.now, slot, State::DataBuffer(grant));
        let little = self.holds_little(slot);
        let in_turn = little || self.io.buffers.data.is_empty();
        if !in_turn || !self.take_buffer(slot) {
            let (waiting, command) = (&mut self.io.buffers.data, (self.queue.key, slot));
            if little { waiting.push_front(command) } else { waiting.push_back(command) }
        }
    }

    /// Returns whether the host of a command with memory holds so little otherwise that it may use the reserve.
    fn holds_little(&self, slot: SlotId) -> bool {
        match self.queue.commands.state(slot) {
            State::DataBuffer(grant) => self.io.stages.gate.is_for_reserve(grant),
            _ => false,
        }
    }

    /// Takes a buffer for a command's data out of turn: from the memory set aside for its tenant, or from the
    /// reserve if its host holds little.
    fn out_of_turn(&self, slot: SlotId, bytes: usize) -> Option<Buffer<D>> {
        let State::DataBuffer(grant) = self.queue.commands.state(slot) else { return None };
        let stages = &self.io.stages;
        if grant.is_aside() {
            self.io.buffers.for_tenant(bytes)
        } else if stages.gate.is_for_reserve(grant) {
            self.io.buffers.for_reserved(bytes, stages.reads.reserve_held())
        } else {
            None
        }
    }

    /// Asks for a command's data if a buffer is free, or one is expected in time. Returns false
    /// where the command goes on waiting.
    pub(crate) fn take_buffer(&mut self, slot: SlotId) -> bool {
        let bytes = self.queue.commands.data_bytes(slot);
        let buffer = self.io.buffers.for_data(bytes).or_else(|| self.out_of_turn(slot, bytes));
        let Some(buffer) = buffer else { return self.promise(slot, bytes) };
        match self.queue.commands.take(slot) {
            State::DataBuffer(grant) => {
                self.queue.commands.change(
                    self.io.now,
                    slot,
                    State::Filling(buffer, Source::Fetched(grant)),
                );
                self.request(slot, bytes);
            }
            other => self.queue.commands.put_back(slot, other),
        }
        true
    }

    /// Asks for a command's data although no buffer is free, if one is expected to be free when the
    /// data comes. Returns whether the data was asked for.
    fn promise(&mut self, slot: SlotId, bytes: usize) -> bool {
        if self.queue.transport.fetches_into_buffers() {
            return false;
        }
        let Some(traffic) = &self.traffic else { return false };
        let time = traffic.pacing.rtt() + HOST_TIME;
        let Some(promise) = self.io.buffers.promise(bytes, time) else { return false };
        match self.queue.commands.take(slot) {
            State::DataBuffer(grant) => {
                self.queue.commands.change(self.io.now, slot, State::Promised(promise, grant));
                self.request(slot, bytes);
            }
            other => self.queue.commands.put_back(slot, other),
        }
        true
    }

    /// Asks for a command's data.
    fn request(&mut self, slot: SlotId, bytes: usize) {
        let queue = &mut *self.queue;
        let class = queue.commands.charge(slot).class;
        // The host owes nothing before it is asked.
        queue.progress.hear(self.io.now);
        queue.commands.expect_data(self.io.now, slot, true);
        match &mut self.traffic {
            Some(traffic) => traffic.fetch(&mut queue.transport, slot, class, length(bytes)),
            None => queue.transport.fetch(slot, length(bytes)),
        }
        queue.send_soon(&mut self.io.agenda);
    }

    /// Finds the buffer that was promised for data that begins to come, or parks the data.
    pub(crate) fn keep_promise(&mut self, slot: SlotId) {
        let state = match self.queue.commands.take(slot) {
            State::Promised(promise, grant) => match self.io.buffers.for_arrived(promise.bytes) {
                Some(buffer) => State::Filling(buffer, Source::Fetched(grant)),
                None => State::Parked(vec![0; promise.bytes], promise, grant),
            },
            other => {
                self.queue.commands.put_back(slot, other);
                return;
            }
        };
        self.queue.commands.change(self.io.now, slot, state);
    }

    /// Ends the fetching of a command's data: all of it is here.
    pub(crate) fn data_end(&mut self, slot: SlotId, digest_ok: bool) -> Fetched<D> {
        let grant = match self.queue.commands.take(slot) {
            State::Filling(buffer, source) if digest_ok => return Fetched::Ready(buffer, source),
            parked @ State::Parked(..) if digest_ok => {
                self.queue.commands.put_back(slot, parked);
                if let Some((buffer, source)) = self.unpark(slot) {
                    return Fetched::Ready(buffer, source);
                }
                // The command goes before commands without data: they may wait for the buffer that it was promised.
                self.io.buffers.data.push_front((self.queue.key, slot));
                return Fetched::Waits;
            }
            State::Filling(_, source) => source.grant(),
            State::Parked(_, _, grant) => Some(grant),
            State::Failing(status) => return Fetched::Failed(status),
            other => {
                self.queue.commands.put_back(slot, other);
                return Fetched::Waits;
            }
        };
        self.io.stages.give_back_memory(grant);
        Fetched::Failed(Status::TRANSIENT_TRANSPORT_ERROR)
    }

    /// Takes the state of a command whose data is parked, with a buffer that holds the data; `None`
    /// where there is no buffer.
    pub(crate) fn unpark(&mut self, slot: SlotId) -> Option<(Buffer<D>, Source)> {
        let State::Parked(data, ..) = self.queue.commands.state(slot) else { return None };
        let mut buffer = self.io.buffers.for_arrived(data.len())?;
        buffer.copy_from_slice(data);
        match self.queue.commands.take(slot) {
            State::Parked(_, _, grant) => Some((buffer, Source::Fetched(grant))),
            other => {
                self.queue.commands.put_back(slot, other);
                None
            }
        }
    }
}

/// Returns a length as R2Ts have it.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
