//! Commands in the order that the stages give them: from the arbiter to a buffer, to the host's
//! data, to the backend (stages S2 to S5).

use std::sync::Arc;

use arbitration::arbiter::{Dispatched, FlowId, Grant, Request};
use arbitration::memory::{MemoryFlow, MemoryGrant};
use arbitration::{Class, Nanos};
use fabric::controller::BackendId;
use fabric::nvm::{BlockFormat, IoCommand, Transfer};
use fabric::nvme::{Sqe, Status};
use fabric::queue::{SlotId, Transport as _};

use crate::accounts::Account;
use crate::commands::{Command, Source, State};
use crate::connection::{Connection, Stage};
use crate::context::Context;
use crate::device::{Device, Style};
use crate::driver::{Buffer, Driver};
use crate::io_queue::{IoQueue, transfer_bytes};
use crate::job::Job;
use crate::key::Key;

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

impl Charged {
    /// Whether the device that a command is charged to is still the one that it is for.
    pub(crate) fn serves<D: Driver>(&self, io: &Context<D>, device: &Arc<D::Device>) -> bool {
        let present = self.backend.and_then(|backend| io.device(backend));
        present.is_some_and(|present| Arc::ptr_eq(present, device))
    }
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
    /// A command that came needs data from the host: waits for its turn to have memory for it, or
    /// for a buffer where no turns are taken.
    pub(crate) fn wait_for_memory(&mut self, io: &mut Context<D>, slot: SlotId, bytes: usize) {
        let charged = self.commands.charged(slot);
        let Some(fetch) = charged.fetch else {
            self.commands.change(slot, State::DataBuffer(None));
            io.data_waiting.push_back((self.key, slot));
            return;
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let waiting = io.memory.enqueue(fetch, charged.class, bytes, (self.key, slot));
        self.commands.change(slot, State::MemoryTurn(waiting));
    }

    /// A command whose state was taken has all that it needs of the host: it goes to its device, or
    /// waits for its turn there.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        buffer: Option<Buffer<D>>,
        source: Source,
    ) {
        let Some(Command { command, device, charged, .. }) = self.commands.command(slot) else {
            debug_assert!(false, "only I/O commands are submitted");
            return;
        };
        if !charged.serves(io, device) {
            // The namespace was removed, or its device has failed, while the host's data came.
            io.give_back_memory(source.grant());
            self.settle_without_device(io, slot);
            return;
        }
        let immediate = matches!(device.style(), Style::Immediate(_));
        let format = device.format();
        let bytes = transfer_bytes(&command.transfer(format));
        let request = request((self.key, slot), command, bytes, format);
        let charged = self.charged_now(io, slot, sqe);
        let flow = charged.flow.filter(|flow| !immediate || !io.arbiter.is_plain(*flow));
        let Some(flow) = flow else {
            self.start_or_wait(io, slot, sqe, buffer, source, None);
            return;
        };
        let now = io.now;
        if let Some(grant) = io.arbiter.pass(now, flow, request.write, request.bytes) {
            self.start_or_wait(io, slot, sqe, buffer, source, Some((grant, 0)));
            return;
        }
        match io.arbiter.enqueue(now, flow, charged.class, request) {
            Some(waiting) => {
                self.in_capsules += u32::from(matches!(source, Source::Capsule));
                self.commands.change(slot, State::DeviceTurn(waiting, buffer, source));
            }
            None => self.start_or_wait(io, slot, sqe, buffer, source, None),
        }
    }

    /// How a command is charged: by what holds now, if settings have changed since it came.
    #[inline]
    pub(crate) fn charged_now(&mut self, io: &mut Context<D>, slot: SlotId, sqe: &Sqe) -> Charged {
        let charged = self.commands.charged(slot);
        let Stage::Io(queue) = &mut self.stage else { return charged };
        if charged.generation == queue.lanes.generation {
            return charged;
        }
        let Some(backend) = charged.backend else { return charged };
        let lane = queue.lane(io, &self.origin, sqe.nsid.get(), backend);
        let charged = queue.charged(io.now, lane, sqe);
        self.commands.charge(slot, charged);
        charged
    }

    /// Takes a command out of whatever it waits for, and gives back all that it holds. False, and
    /// nothing is changed, where it is in its device.
    pub(crate) fn withdraw_command(&mut self, io: &mut Context<D>, slot: SlotId) -> bool {
        let grant = match self.commands.take(slot) {
            State::MemoryTurn(entry) => {
                io.memory.cancel(entry);
                None
            }
            State::DeviceTurn(entry, _, source) => {
                io.arbiter.cancel(entry);
                self.leave_device_turn(&source);
                source.grant()
            }
            State::SliceTurn(_, entry) => {
                io.arbiter.cancel(entry);
                None
            }
            State::DataBuffer(grant) | State::Promised(_, grant) | State::Parked(_, _, grant) => {
                grant
            }
            State::Filling(_, source) => source.grant(),
            State::R2tTurn | State::ReadBuffer | State::Slicing(_) => None,
            other => {
                self.commands.put_back(slot, other);
                return false;
            }
        };
        io.give_back_memory(grant);
        true
    }

    /// Counts a command no more among those that wait for their device with a buffer for
    /// in-capsule data.
    fn leave_device_turn(&mut self, source: &Source) {
        self.in_capsules -= u32::from(matches!(source, Source::Capsule));
    }

    /// The device is gone of a command that waits for its turn there: with its namespace, or
    /// alone. The arbiter has given the turn up already.
    pub(crate) fn device_gone(&mut self, io: &mut Context<D>, slot: SlotId) {
        match self.commands.take(slot) {
            State::DeviceTurn(_, _, source) => {
                self.leave_device_turn(&source);
                io.give_back_memory(source.grant());
                self.settle_without_device(io, slot);
            }
            State::SliceTurn(..) => self.settle_without_device(io, slot),
            other => self.commands.put_back(slot, other),
        }
    }

    /// Answers a command whose device is gone.
    pub(crate) fn settle_without_device(&mut self, io: &mut Context<D>, slot: SlotId) {
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
        source: Source,
        grant: Option<(Grant, u64)>,
    ) {
        let bytes = if buffer.is_none() { self.read_bytes(slot) } else { 0 };
        if bytes == 0 {
            self.start(io, slot, sqe, buffer, source, grant);
            return;
        }
        match io.take_in_turn(bytes) {
            Some(buffer) => self.start(io, slot, sqe, Some(buffer), source, grant),
            None => {
                if let Some((grant, _)) = grant {
                    io.arbiter.complete(io.now, grant, false);
                }
                self.commands.change(slot, State::ReadBuffer);
                io.waiting.push_back((self.key, slot));
            }
        }
    }

    /// Bytes that a command reads for its host.
    fn read_bytes(&self, slot: SlotId) -> usize {
        let Some(command) = self.commands.command(slot) else { return 0 };
        match command.command.transfer(command.device.format()) {
            Transfer::ToHost(bytes) => bytes as usize,
            _ => 0,
        }
    }

    /// There is memory for a command's data: its host is asked for it as soon as there is a buffer.
    pub(crate) fn memory_granted(&mut self, io: &mut Context<D>, slot: SlotId, grant: MemoryGrant) {
        if !matches!(self.commands.state(slot), State::MemoryTurn(_)) {
            io.memory.give_back(grant);
            return;
        }
        self.commands.change(slot, State::DataBuffer(Some(grant)));
        if !io.data_waiting.is_empty() || !self.retry_waiting(io, slot) {
            io.data_waiting.push_back((self.key, slot));
        }
        self.mark_dirty(io);
    }

    /// It is a command's turn to go to its device.
    pub(crate) fn granted(&mut self, io: &mut Context<D>, command: Dispatched<(Key, SlotId)>) {
        let Dispatched { item: (_, slot), grant, waited_ns, .. } = command;
        match self.commands.take(slot) {
            State::DeviceTurn(_, buffer, source) => {
                self.leave_device_turn(&source);
                let sqe = *self.protocol.sqe_of(slot);
                self.start_or_wait(io, slot, &sqe, buffer, source, Some((grant, waited_ns)));
            }
            State::SliceTurn(sweep, _) => {
                self.sweep_slice(io, slot, sweep);
                io.arbiter.complete(io.now, grant, true);
            }
            other => {
                self.commands.put_back(slot, other);
                io.arbiter.complete(io.now, grant, false);
            }
        }
        self.mark_dirty(io);
    }

    /// Gives back all that the connection's commands hold, but for what is in a device.
    pub(crate) fn withdraw(&mut self, io: &mut Context<D>) {
        for slot in self.commands.ids() {
            if self.withdraw_command(io, slot) {
                self.commands.change(slot, State::Withdrawn);
            }
        }
        if let Stage::Io(queue) = &mut self.stage {
            queue.lanes.clear(io);
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
                let now = io.now;
                let service = now.ns_since(grant.at());
                io.arbiter.complete(now, grant, true);
                service
            }
            None => io.now.0.saturating_sub(self.arrived.0),
        }
    }
}
