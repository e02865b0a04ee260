//! Commands in the order that the stages give them: from the arbiter to a buffer, to the host's
//! data, to the backend (stages S2 to S5).

use std::sync::Arc;

use arbitration::arbiter::{Dispatched, EntryId, FlowId, Grant, Request};
use arbitration::memory::{MemoryEntry, MemoryFlow, MemoryGrant};
use arbitration::{Class, Nanos};
use fabric::controller::BackendId;
use fabric::nvm::{BlockFormat, IoCommand, Transfer};
use fabric::nvme::{Sqe, Status};
use fabric::queue::{SlotId, Transport as _};

use crate::accounts::Account;
use crate::connection::{Connection, Stage};
use crate::context::Context;
use crate::device::{Device, Style};
use crate::driver::Buffer;
use crate::driver::Driver;
use crate::io_queue::{IoQueue, transfer_bytes};
use crate::job::Job;
use crate::key::Key;
use crate::slots::Phase;

/// What a command has to do with the arbiter.
#[derive(Debug, Default)]
pub(crate) enum Ticket {
    /// Nothing.
    #[default]
    None,
    /// It waits for its turn at its device.
    Waiting(EntryId),
    /// It waits for memory for the host's data.
    WaitingForMemory(MemoryEntry),
    /// It may ask for the host's data; this much of the memory for it.
    Fetching(MemoryGrant),
}

/// How a command is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charged {
    pub(crate) class: Class,
    pub(crate) account: Account,
    pub(crate) flow: Option<FlowId>,
    pub(crate) fetch: Option<MemoryFlow>,
    backend: Option<BackendId>,
    /// Of the lanes that the flows are of.
    generation: u64,
}

/// The present time as the stages take it.
#[inline]
pub(crate) fn stage_time<D: Driver>(io: &Context<D>) -> Nanos {
    Nanos(io.now.0)
}

/// What a command asks the stages for.
///
/// Verify and Write Zeroes move no data between host and target, but the device's: they count for
/// the bytes of their blocks.
fn request(
    item: (Key, SlotId),
    command: &IoCommand,
    bytes: usize,
    format: BlockFormat,
) -> Request<(Key, SlotId)> {
    let bytes = match command {
        IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range } => {
            range.transfer_bytes(format)
        }
        _ => u32::try_from(bytes).unwrap_or(u32::MAX),
    };
    let (lba, blocks) = match command {
        IoCommand::Read { range, .. }
        | IoCommand::Write { range, .. }
        | IoCommand::WriteZeroes { range, .. }
        | IoCommand::Compare { range }
        | IoCommand::Verify { range } => (range.lba, range.blocks),
        IoCommand::Flush | IoCommand::DatasetManagement { .. } => (0, 0),
    };
    // Deallocation is work of the device's own: a sweep over many ranges takes more credits than a
    // user's command (docs/sources.md, D2, D3).
    let operations = match command {
        IoCommand::DatasetManagement { ranges, .. } => u32::from(*ranges).div_ceil(16),
        _ => 1,
    };
    Request { operations, lba, blocks, ..Request::user(item, command.changes_blocks(), bytes) }
}

impl<D: Driver> Connection<D> {
    /// A command needs data from the host: waits for its turn to be asked for it. False where it
    /// need not wait.
    pub(crate) fn wait_to_fetch(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        bytes: usize,
    ) -> bool {
        let entry = self.slots.slot(slot);
        let Some(fetch) = entry.charged.fetch else { return false };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let waiting = io.memory.enqueue(fetch, entry.charged.class, bytes, (self.key, slot));
        entry.ticket = Ticket::WaitingForMemory(waiting);
        true
    }

    /// A command has all of the host's data: goes to its device, or waits for its turn there.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        buffer: Option<Buffer<D>>,
    ) {
        let now = stage_time(io);
        let entry = self.slots.slot(slot);
        if let Ticket::Fetching(grant) = std::mem::take(&mut entry.ticket) {
            entry.memory = Some(grant);
        }
        let (Some(command), Some(device)) = (entry.command, entry.device.clone()) else {
            self.start(io, slot, sqe, buffer, None);
            return;
        };
        let present = entry.charged.backend.and_then(|backend| io.device(backend));
        if !present.is_some_and(|present| Arc::ptr_eq(present, &device)) {
            // The namespace was removed while the host's data came.
            self.withdraw_slot(io, slot);
            self.settle(slot, Status::INVALID_NAMESPACE.dnr());
            return;
        }
        let charged = self.charged_now(io, slot, sqe);
        let Some(flow) = charged.flow else {
            self.start_or_wait(io, slot, sqe, buffer, None);
            return;
        };
        if io.arbiter.is_plain(flow) && matches!(device.style(), Style::Immediate(_)) {
            self.start_or_wait(io, slot, sqe, buffer, None);
            return;
        }
        let format = device.format();
        let bytes = transfer_bytes(&command.transfer(format));
        let request = request((self.key, slot), &command, bytes, format);
        if let Some(grant) = io.arbiter.pass(now, flow, request.write, request.bytes) {
            self.start_or_wait(io, slot, sqe, buffer, Some((grant, 0)));
            return;
        }
        match io.arbiter.enqueue(now, flow, charged.class, request) {
            Some(waiting) => {
                let entry = self.slots.slot(slot);
                entry.ticket = Ticket::Waiting(waiting);
                if buffer.is_some() && entry.memory.is_none() {
                    entry.in_capsules = true;
                    self.in_capsules += 1;
                }
                entry.phase = Phase::Ordered(buffer);
            }
            None => self.start_or_wait(io, slot, sqe, buffer, None),
        }
    }

    /// How a command is charged: anew, if settings have changed since it came.
    #[inline]
    pub(crate) fn charged_now(&mut self, io: &mut Context<D>, slot: SlotId, sqe: &Sqe) -> Charged {
        let charged = self.slots.slot(slot).charged;
        let Stage::Io(queue) = &mut self.stage else { return charged };
        if charged.generation == queue.lanes.generation {
            return charged;
        }
        let Some(backend) = charged.backend else { return charged };
        let lane = queue.lane(io, &self.origin, sqe.nsid.get(), backend);
        let charged = queue.charged(stage_time(io), lane, sqe);
        self.slots.slot(slot).charged = charged;
        charged
    }

    /// Gives back what one command has of the arbiter, but for what is in a device.
    pub(crate) fn withdraw_slot(&mut self, io: &mut Context<D>, slot: SlotId) {
        let slot = self.slots.slot(slot);
        for grant in [slot.ticket.withdraw(io), slot.memory.take()].into_iter().flatten() {
            io.memory.give_back(grant);
        }
        self.in_capsules -= u32::from(std::mem::take(&mut slot.in_capsules));
    }

    /// A command's device is gone: with its namespace, or alone.
    pub(crate) fn device_gone(&mut self, io: &mut Context<D>, slot: SlotId) {
        if self.is_closing() {
            return;
        }
        self.slots.slot(slot).ticket = Ticket::None;
        self.withdraw_slot(io, slot);
        let nsid = self.protocol.sqe_of(slot).nsid.get();
        let status = match &mut self.stage {
            Stage::Io(queue) => queue.without_device(&mut io.driver, nsid),
            _ => Status::INVALID_NAMESPACE.dnr(),
        };
        self.settle(slot, status);
        self.mark_dirty(io);
    }

    /// Starts a command, or lets it wait for the buffer that it needs.
    pub(crate) fn start_or_wait(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        buffer: Option<Buffer<D>>,
        grant: Option<(Grant, u64)>,
    ) {
        let bytes = self.read_bytes(slot);
        if bytes == 0 || buffer.is_some() {
            self.start(io, slot, sqe, buffer, grant);
            return;
        }
        match io.take_in_turn(bytes) {
            Some(buffer) => self.start(io, slot, sqe, Some(buffer), grant),
            None => {
                let entry = self.slots.slot(slot);
                entry.phase = Phase::Waiting;
                entry.ticket = Ticket::None;
                if let Some((grant, _)) = grant {
                    io.arbiter.complete(stage_time(io), grant, false);
                }
                io.waiting.push_back((self.key, slot));
            }
        }
    }

    /// Bytes that a command reads for its host.
    fn read_bytes(&mut self, slot: SlotId) -> usize {
        let entry = self.slots.slot(slot);
        let (Some(command), Some(device)) = (entry.command, &entry.device) else { return 0 };
        match command.transfer(device.format()) {
            Transfer::ToHost(bytes) => bytes as usize,
            _ => 0,
        }
    }

    /// There is memory for a command's data: its host is asked for it as soon as there is a buffer.
    pub(crate) fn memory_granted(&mut self, io: &mut Context<D>, slot: SlotId, grant: MemoryGrant) {
        let closing = self.is_closing();
        let entry = self.slots.slot(slot);
        entry.ticket = Ticket::None;
        if closing || !matches!(entry.phase, Phase::Waiting) {
            io.memory.give_back(grant);
            return;
        }
        entry.ticket = Ticket::Fetching(grant);
        if !io.data_waiting.is_empty() || !self.retry_waiting(io, slot) {
            io.data_waiting.push_back((self.key, slot));
        }
        self.mark_dirty(io);
    }

    /// It is a command's turn to go to its device.
    pub(crate) fn granted(&mut self, io: &mut Context<D>, command: Dispatched<(Key, SlotId)>) {
        let Dispatched { item: (_, slot), grant, waited_ns, .. } = command;
        let entry = self.slots.slot(slot);
        entry.ticket = Ticket::None;
        if self.is_closing() {
            io.arbiter.complete(stage_time(io), grant, false);
            return;
        }
        let sqe = *self.protocol.sqe_of(slot);
        let entry = self.slots.slot(slot);
        match std::mem::take(&mut entry.phase) {
            Phase::Ordered(buffer) => {
                entry.phase = Phase::Busy;
                self.in_capsules -= u32::from(std::mem::take(&mut entry.in_capsules));
                self.start_or_wait(io, slot, &sqe, buffer, Some((grant, waited_ns)));
            }
            sweep @ Phase::Sweeping(_) => {
                entry.phase = sweep;
                self.sweep_slice(io, slot);
                io.arbiter.complete(stage_time(io), grant, true);
            }
            other => {
                entry.phase = other;
                io.arbiter.complete(stage_time(io), grant, false);
            }
        }
        self.mark_dirty(io);
    }

    /// Gives back all that the connection's commands have of the arbiter, but for what is in a
    /// device.
    pub(crate) fn withdraw(&mut self, io: &mut Context<D>) {
        for slot in self.slots.ids() {
            self.withdraw_slot(io, slot);
        }
        if let Stage::Io(queue) = &mut self.stage {
            queue.lanes.clear(io);
        }
    }
}

impl Ticket {
    /// Leaves the arbiter's queue; what was granted is to be given back.
    fn withdraw<D: Driver>(&mut self, io: &mut Context<D>) -> Option<MemoryGrant> {
        match std::mem::take(self) {
            Self::None => None,
            Self::Waiting(entry) => {
                io.arbiter.cancel(entry);
                None
            }
            Self::WaitingForMemory(entry) => {
                io.memory.cancel(entry);
                None
            }
            Self::Fetching(grant) => Some(grant),
        }
    }
}

impl IoQueue {
    /// How a command to a namespace is charged.
    #[inline]
    pub(crate) fn charged(&self, now: Nanos, lane: usize, sqe: &Sqe) -> Charged {
        let Some(lane) = self.lane_at(lane) else { return Charged::default() };
        Charged {
            class: lane.classifier.class(now, super::lanes::named_class(sqe)),
            account: lane.account,
            flow: lane.flow,
            fetch: lane.fetch,
            backend: Some(lane.backend),
            generation: self.lanes.generation,
        }
    }
}

impl<D: Driver> Job<D> {
    /// What a job has of the arbiter goes back; how long it was in its device, in ns.
    pub(crate) fn give_back(&mut self, io: &mut Context<D>) -> u64 {
        if let Some(memory) = self.memory.take() {
            io.memory.give_back(memory);
        }
        match self.grant.take() {
            Some(grant) => {
                let now = stage_time(io);
                let service = now.ns_since(grant.at());
                io.arbiter.complete(now, grant, true);
                service
            }
            None => io.now.0.saturating_sub(self.arrived.0),
        }
    }
}
