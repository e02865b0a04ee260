//! The path of a command through its device (stages S2 to S5): its turn in the arbiter, its read buffer, and the
//! device itself.

use std::ops::DerefMut;
use std::sync::Arc;

use arbitration::arbiter::{Dispatched, Grant, Submission};
use arbitration::limit::Content;
use fabric::Nanos;
use fabric::nvm::{BlockFormat, IoCommand, Transfer};
use fabric::nvme::Status;
use fabric::queue::{SlotId, Transport as _};

use super::commands::{Command, Source, State};
use super::sliced::Sliced;
use super::state::Queue;
use crate::machine::device::{BlockDevice, Data, Immediate, Style};
use crate::machine::driver::{Buffer, Driver, Ended, Job, Started};
use crate::machine::job;
use crate::machine::key::Key;
use crate::memory::held::{Held, HeldTotal};
use crate::reactor::context::Context;
use crate::reactor::turns::OnTheSpot;
use crate::trace::Part;

/// The outcome of a command's next step.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the caller takes it apart; a box would be an allocation for each command"
)]
pub(crate) enum Outcome<D: Driver> {
    /// The command waits, or is in its device.
    Underway,
    /// The command has ended.
    Ended(Ended<D>),
    /// The command's device is gone; its state was taken.
    DeviceGone,
    /// The command was aborted between two slices, or its connection ends; its state was taken.
    Stopped,
    /// The command is answered with this status; its state was taken.
    Answered(Status),
}

/// A queue's commands on their way through their devices.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    /// Number of commands that are in a queued or timed device.
    in_device: u32,
}

impl Dispatch {
    /// Returns whether none of the commands is in a queued or timed device.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_device == 0
    }

    /// Sends a command to its device, or queues it for its turn there. Its state was taken, and all of the host's
    /// data is here.
    #[inline]
    pub(crate) fn submit<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        buffer: Option<Buffer<D>>,
        source: Source,
    ) -> Outcome<D> {
        let Some(Command { command, device, charge, arrived, past_limits, .. }) =
            queue.commands.command(slot)
        else {
            debug_assert!(false, "only I/O commands are submitted");
            return Outcome::Underway;
        };
        if let Some(sliced) = Sliced::of(command, &**device, buffer.as_deref(), io.settings.slice) {
            // The ranges were read out of the buffer.
            drop(buffer);
            io.stages.give_back_memory(source.grant());
            queue.commands.change(io.now, slot, State::Slicing(sliced));
            queue.announce(io, slot);
            io.agenda.add_slice(queue.key, queue.nsid_of(slot));
            return Outcome::Underway;
        }
        let immediate = matches!(device.style(), Style::Immediate(_));
        let arbiter = &mut io.stages.arbiter;
        let Some(flow) = charge.flow.filter(|flow| !immediate || !arbiter.is_plain(*flow)) else {
            return self.start_or_wait(queue, io, slot, buffer, source, None);
        };
        let submission = Submission {
            past_limits: *past_limits,
            ..submission((queue.key, slot), command, device.format())
        };
        if let Some(grant) = arbiter.pass(io.now, flow, &submission) {
            return self.start_or_wait(queue, io, slot, buffer, source, Some(grant));
        }
        // A command that waited for memory wants its device since its arrival.
        match arbiter.enqueue_since(io.now, *arrived, flow, charge.class, submission) {
            Some(waiting) => {
                queue.commands.change(io.now, slot, State::DeviceTurn(waiting, buffer, source));
                queue.watch_turn(io, slot, waiting);
                Outcome::Underway
            }
            None => self.start_or_wait(queue, io, slot, buffer, source, None),
        }
    }

    /// Starts a command whose turn it is.
    pub(crate) fn granted<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        command: Dispatched<(Key, SlotId)>,
    ) -> Outcome<D> {
        let Dispatched { item: (_, slot), grant, .. } = command;
        queue.explain_turn(io, slot);
        match queue.commands.take(slot) {
            State::DeviceTurn(_, buffer, source) => {
                self.start_or_wait(queue, io, slot, buffer, source, Some(grant))
            }
            State::SliceTurn(sliced, _) => self.start_slice(queue, io, slot, sliced, Some(grant)),
            State::AnswerTurn(_, status, _) => {
                io.stages.arbiter.complete_without_device(io.now, grant);
                Outcome::Answered(status)
            }
            other => {
                queue.commands.put_back(slot, other);
                io.stages.arbiter.complete(io.now, grant, false);
                Outcome::Underway
            }
        }
    }

    /// Takes the state of a command that waits for its turn at a device that is gone, with its
    /// namespace or alone. The arbiter has given up the turn already.
    pub(crate) fn device_gone<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
    ) -> Outcome<D> {
        queue.explain_turn(io, slot);
        match queue.commands.take(slot) {
            State::DeviceTurn(_, _, source) => {
                io.stages.give_back_memory(source.grant());
                Outcome::DeviceGone
            }
            State::SliceTurn(..) => {
                io.agenda.add_slice(queue.key, queue.nsid_of(slot));
                Outcome::DeviceGone
            }
            State::AnswerTurn(_, status, _) => Outcome::Answered(status),
            other => {
                queue.commands.put_back(slot, other);
                Outcome::Underway
            }
        }
    }

    /// Starts a command, or queues it for the buffer that it needs.
    fn start_or_wait<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        buffer: Option<Buffer<D>>,
        source: Source,
        grant: Option<Grant>,
    ) -> Outcome<D> {
        let bytes = if buffer.is_none() { queue.commands.read_bytes(slot) } else { 0 };
        if bytes == 0 {
            return self.start(queue, io, slot, buffer, source, grant);
        }
        let (command, charge) = ((queue.key, slot), queue.commands.charge(slot));
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut lease = io.stages.lease_read(&charge, length, io.buffers.not_for_reads());
        if lease.is_some()
            && let Some(Command { command, device, .. }) = queue.commands.command(slot)
            && let Style::Immediate(immediate) = device.style()
            && let Some(blocks) =
                hold((&io.driver, io.buffers.held()), queue.key, immediate, command)
            && let Some(lease) = lease.take()
        {
            return self.start(queue, io, slot, None, Source::Held(lease, blocks), grant);
        }
        let buffer = lease.as_ref().and_then(|_| io.buffers.for_read(bytes));
        let waits = match (lease, buffer) {
            (Some(lease), Some(buffer)) => {
                return self.start(queue, io, slot, Some(buffer), Source::Read(lease), grant);
            }
            (Some(lease), None) => {
                io.buffers.reads.push_back(command);
                Some(State::ReadBuffer(lease))
            }
            (None, _) => io.stages.enqueue_read(&charge, length, command).map(State::ReadTurn),
        };
        queue.announce(io, slot);
        if let Some(grant) = grant {
            io.stages.arbiter.complete(io.now, grant, false);
        }
        debug_assert!(waits.is_some(), "a command that reads has a queue for its memory");
        if let Some(state) = waits {
            queue.commands.change(io.now, slot, state);
        }
        Outcome::Underway
    }

    /// Hands a command with all it needs to its device.
    fn start<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        buffer: Option<Buffer<D>>,
        source: Source,
        grant: Option<Grant>,
    ) -> Outcome<D> {
        let Some(Command { command, device, arrived, charge, .. }) =
            queue.commands.take_command(slot)
        else {
            debug_assert!(false, "only I/O commands are started");
            return Outcome::Underway;
        };
        let (memory, lease, held) = source.parts();
        let job = Job::<D> {
            origin: (queue.key, slot),
            device: Arc::clone(&device),
            command,
            sqe: *queue.transport.sqe_of(slot),
            buffer,
            held,
            arrived,
            charge,
            memory,
            lease,
            grant,
            started: io.now,
        };
        match device.style() {
            Style::Immediate(immediate) => {
                io.turns.work(OnTheSpot::of(&job.command, device.format()));
                Outcome::Ended(run_now(immediate, job))
            }
            Style::Timed(timed) => {
                let until = timed.done_at(io.now, &job.command);
                let ended = run_now(timed, job);
                queue.commands.change(io.now, slot, State::InDevice);
                self.in_device += 1;
                io.timed.insert(until, ended);
                Outcome::Underway
            }
            Style::Queued => {
                queue.commands.change(io.now, slot, State::InDevice);
                self.in_device += 1;
                // A job is large: it is moved as seldom as possible.
                let started = io.driver.launch(job);
                self.launched(queue, io, started)
            }
        }
    }

    /// Notes that a job has left its device. Returns false for a slice, after which its command may go on.
    #[inline]
    pub(crate) fn leave_device<D: Driver>(&mut self, queue: &mut Queue<D>, job: &Job<D>) -> bool {
        let is_slice = queue.commands.slice_in_device(job.origin.1).is_some();
        if !is_slice {
            self.in_device = self.in_device.saturating_sub(1);
        }
        !is_slice
    }

    /// Starts a job in a queued device.
    pub(crate) fn launch<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        mut job: Job<D>,
    ) -> Outcome<D> {
        self.in_device += 1;
        // A job that found no memory is launched again.
        job.started = io.now;
        queue.commands.note_part(io.now, job.origin.1, Part::Device);
        let started = io.driver.launch(job);
        self.launched(queue, io, started)
    }

    /// Follows a job that was started again, or is over.
    #[inline]
    pub(crate) fn launched<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        started: Started<D>,
    ) -> Outcome<D> {
        match started {
            Started::<D>::Running => Outcome::Underway,
            Started::<D>::Ended(ended) => {
                if self.leave_device(queue, &ended.job) {
                    return Outcome::Ended(ended);
                }
                self.in_device = self.in_device.saturating_sub(1);
                self.slice_ended(queue, io, ended)
            }
            Started::<D>::NoMemory(job) => {
                self.in_device = self.in_device.saturating_sub(1);
                queue.commands.note_part(io.now, job.origin.1, Part::Buffer);
                io.stalled.push_back(job);
                Outcome::Underway
            }
        }
    }

    /// Requests the turn of a command's next slice.
    pub(crate) fn next_slice<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
    ) -> Outcome<D> {
        match queue.commands.take(slot) {
            State::Slicing(sliced) => self.ask_slice(queue, io, slot, sliced),
            other => {
                queue.commands.put_back(slot, other);
                Outcome::Underway
            }
        }
    }

    /// Asks for the turn of the next slice of a command whose state was taken.
    #[cold]
    fn ask_slice<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sliced: Box<Sliced>,
    ) -> Outcome<D> {
        let Some(Command { device, charge, past_limits, .. }) = queue.commands.command(slot) else {
            debug_assert!(false, "only I/O commands are sliced");
            return Outcome::DeviceGone;
        };
        if !charge.serves(&io.devices, device) {
            return Outcome::DeviceGone;
        }
        let submission = Submission {
            past_limits: *past_limits,
            ..sliced.submission((queue.key, slot), device.format())
        };
        let arbiter = &mut io.stages.arbiter;
        let waiting =
            charge.flow.and_then(|flow| arbiter.enqueue(io.now, flow, charge.class, submission));
        match waiting {
            Some(waiting) => {
                queue.commands.change(io.now, slot, State::SliceTurn(sliced, waiting));
                queue.watch_turn(io, slot, waiting);
                Outcome::Underway
            }
            None => self.start_slice(queue, io, slot, sliced, None),
        }
    }

    /// Hands the next slice of a command whose state was taken to its device.
    fn start_slice<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        mut sliced: Box<Sliced>,
        grant: Option<Grant>,
    ) -> Outcome<D> {
        let slice = sliced.take();
        let job = queue.commands.command(slot).zip(slice).map(|(known, slice)| Job::<D> {
            grant,
            ..job_without_data(queue, slot, known, slice, io.now)
        });
        debug_assert!(job.is_some(), "a command between slices is known, and has another one");
        let Some(job) = job else { return Outcome::DeviceGone };
        let device = Arc::clone(&job.device);
        match device.style() {
            Style::Immediate(immediate) => {
                io.turns.work(OnTheSpot::of(&job.command, device.format()));
                let mut ended = run_now(immediate, job);
                io.stages.give_back(&mut ended.job, io.now, true);
                slice_over(queue, io, slot, sliced, ended.status)
            }
            Style::Timed(timed) => {
                let until = timed.done_at(io.now, &job.command);
                let ended = run_now(timed, job);
                queue.commands.change(io.now, slot, State::SliceInDevice(sliced));
                self.in_device += 1;
                io.timed.insert(until, ended);
                Outcome::Underway
            }
            Style::Queued => {
                queue.commands.change(io.now, slot, State::SliceInDevice(sliced));
                self.launch(queue, io, job)
            }
        }
    }

    /// Follows a slice that has left its device.
    #[cold]
    fn slice_ended<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        mut ended: Ended<D>,
    ) -> Outcome<D> {
        let slot = ended.job.origin.1;
        io.stages.give_back(&mut ended.job, io.now, true);
        match queue.commands.take(slot) {
            State::SliceInDevice(mut sliced) => {
                sliced.was_in_device(io.now.ns_since(ended.job.started));
                slice_over(queue, io, slot, sliced, ended.status)
            }
            other => {
                queue.commands.put_back(slot, other);
                Outcome::Underway
            }
        }
    }
}

/// After a slice, continues a command whose state was taken, or ends it.
fn slice_over<D: Driver>(
    queue: &mut Queue<D>,
    io: &mut Context<D>,
    slot: SlotId,
    mut sliced: Box<Sliced>,
    status: Status,
) -> Outcome<D> {
    io.agenda.add_slice(queue.key, queue.nsid_of(slot));
    let goes_on = status.is_success() && !sliced.is_over();
    if goes_on && !sliced.is_stopped() {
        queue.commands.change(io.now, slot, State::Slicing(sliced));
        return Outcome::Underway;
    }
    // An Abort came too late where the command has ended by itself.
    for ticket in sliced.take_aborts() {
        io.driver.service(|service| service.abort_done(ticket, goes_on));
    }
    if goes_on {
        return Outcome::Stopped;
    }
    let Some(known) = queue.commands.command(slot) else {
        debug_assert!(false, "a command that is sliced is known");
        return Outcome::DeviceGone;
    };
    // Time outside the device counts as waiting, between slices too.
    let started = Nanos(io.now.0.saturating_sub(sliced.in_device_ns()));
    let job = job_without_data(queue, slot, known, known.command, started);
    Outcome::Ended(Ended::<D> { job, result: 0, status })
}

/// Makes a job that moves no data, for a whole command or a slice of it.
fn job_without_data<D: Driver>(
    queue: &Queue<D>,
    slot: SlotId,
    known: &Command<D>,
    command: IoCommand,
    started: Nanos,
) -> Job<D> {
    Job::<D> {
        origin: (queue.key, slot),
        device: Arc::clone(&known.device),
        command,
        sqe: *queue.transport.sqe_of(slot),
        buffer: None,
        held: None,
        arrived: known.arrived,
        charge: known.charge,
        grant: None,
        memory: None,
        lease: None,
        started,
    }
}

/// Holds the blocks that a command reads in their device, if the driver can send from there.
#[inline]
pub(crate) fn hold<D: Driver>(
    (driver, held): (&D, &HeldTotal),
    key: Key,
    immediate: &dyn Immediate,
    command: &IoCommand,
) -> Option<Held> {
    let blocks = immediate.hold(command).filter(|blocks| driver.reaches(key, blocks))?;
    Some(blocks.counted(held))
}

/// Carries a job out on the spot.
fn run_now<V, B, I>(immediate: &I, mut job: job::Job<V, B>) -> job::Ended<V, B>
where
    B: DerefMut<Target = [u8]>,
    I: Immediate + ?Sized,
{
    if job.held.is_some() {
        // The held blocks are the read data.
        return job::Ended { job, result: 0, status: Status::SUCCESS };
    }
    let status = match (&job.command, &mut job.buffer) {
        (IoCommand::Read { .. }, Some(buffer)) => immediate.run(&job.command, Data::Read(buffer)),
        (_, Some(buffer)) => immediate.run(&job.command, Data::Write(buffer)),
        (_, None) => immediate.run(&job.command, Data::None),
    };
    job::Ended { job, result: 0, status }
}

/// Returns the bytes that a command is charged for at its device, and whether they are transferred
/// between host and target.
pub(crate) fn bytes_at_device(command: &IoCommand, format: BlockFormat) -> (u32, bool) {
    match (command, command.transfer(format)) {
        (IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range }, _) => {
            (range.transfer_bytes(format), false)
        }
        (_, Transfer::ToController(bytes) | Transfer::ToHost(bytes)) => (bytes, true),
        (_, Transfer::None) => (0, false),
    }
}

/// Returns the submission of a command to the stages.
///
/// Verify and Write Zeroes move data at the device, but not between host and target: at the device they count for
/// the bytes of their blocks, and in limits on bytes for the time that the device takes.
fn submission(
    item: (Key, SlotId),
    command: &IoCommand,
    format: BlockFormat,
) -> Submission<(Key, SlotId)> {
    let (bytes, has_data) = bytes_at_device(command, format);
    let (lba, blocks) = match command {
        IoCommand::Read { range, .. }
        | IoCommand::Write { range, .. }
        | IoCommand::WriteZeroes { range, .. }
        | IoCommand::Compare { range }
        | IoCommand::Verify { range }
        | IoCommand::Deallocate { range } => (range.lba, range.blocks),
        IoCommand::Flush | IoCommand::DatasetManagement { .. } => (0, 0),
    };
    // Deallocation is the device's own work: one over many ranges takes more credits than a user's
    // command (docs/research/sources.md, D2, D3).
    let operations = match command {
        IoCommand::DatasetManagement { ranges, .. } => u32::from(*ranges).div_ceil(16),
        _ => 1,
    };
    Submission {
        content: if has_data { Content::Data } else { Content::Nothing },
        operations,
        lba,
        blocks,
        ..Submission::of_host(item, command.changes_blocks(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use fabric::nvm::LbaRange;

    use super::*;

    #[test]
    fn commands_are_charged_for_what_they_do_at_the_device() {
        let range = LbaRange { lba: 40, blocks: 3 };
        let item = (Key { index: 7, generation: 9 }, SlotId(5));
        let of = |command: IoCommand| {
            let asked = submission(item, &command, BlockFormat::BYTES_4096);
            assert_eq!(asked.item, item);
            (asked.write, asked.bytes, asked.operations, asked.lba, asked.blocks)
        };
        assert_eq!(of(IoCommand::Read { range, fua: false }), (false, 12_288, 1, 40, 3));
        assert_eq!(of(IoCommand::Write { range, fua: true }), (true, 12_288, 1, 40, 3));
        assert_eq!(of(IoCommand::Compare { range }), (false, 12_288, 1, 40, 3));
        assert_eq!(of(IoCommand::Verify { range }), (false, 12_288, 1, 40, 3));
        let zeroes = IoCommand::WriteZeroes { range, deallocate: false, fua: false };
        assert_eq!(of(zeroes), (true, 12_288, 1, 40, 3));
        assert_eq!(of(IoCommand::Flush), (false, 0, 1, 0, 0));
        for (ranges, operations) in [(1, 1), (16, 1), (17, 2), (256, 16)] {
            let command = IoCommand::DatasetManagement { deallocate: true, ranges };
            // The definitions of the ranges, 16 bytes each.
            assert_eq!(of(command), (true, u32::from(ranges) * 16, operations, 0, 0));
        }
    }
}
