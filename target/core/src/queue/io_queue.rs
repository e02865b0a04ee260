//! The life of an I/O command: arrival, the fetching of its data, its device, its answer.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::Dispatched;
use arbitration::memory::MemoryGrant;
use arbitration::overload::WAIT_MAX;
use fabric::Nanos;
use fabric::controller::{AbortTicket, ControllerShared, NamespaceTable};
use fabric::nvm::{IoCommand, Transfer};
use fabric::nvme::{SglKind, Sqe, Status, opcode};
use fabric::queue::{CapsuleData, Payload as _, SlotId, Transport as _};

use super::admin_queue::AdminQueue;
use super::admission::Amount;
use super::arrival::{Arrival, Arrived, host_id};
use super::commands::{Command, Source, State};
use super::completion::Completion;
use super::dispatch::{Dispatch, Outcome};
use super::fetch::{Fetch, Fetched};
use super::state::Queue;
use crate::machine::device::BlockDevice as _;
use crate::machine::driver::{Buffer, Chunk, Driver, Ended, Job, Started};
use crate::machine::key::Key;
use crate::machine::origin::Origin;
use crate::machine::policies::Policies as _;
use crate::memory::capsules::CapsuleMemory;
use crate::memory::lease::{Lease, Leased};
use crate::memory::payload::TxData;
use crate::network::dscp::AnswerDscp;
use crate::network::pacer::{Next, Turn};
use crate::network::stage::Network;
use crate::reactor::context::Context;
use crate::trace::stamps::Stamp;

/// The shortest time in ns for which a known answer waits for the turn that it costs.
const ANSWER_WAIT_MIN: u64 = 1_000_000_000;

/// An I/O queue of a controller.
#[derive(Debug)]
pub(crate) struct IoQueue<D: Driver> {
    arrival: Arrival,
    dispatch: Dispatch,
    /// Its Fabrics commands, which are rare.
    fabrics: Box<AdminQueue>,
    /// Whether no other command is answered yet: its host has to prove itself first.
    locked: bool,
    capsules: CapsuleMemory,
    completion: Completion,
    pub(crate) network: Network<Buffer<D>>,
    dscp: AnswerDscp,
}

impl<D: Driver> IoQueue<D> {
    /// Makes the I/O queue `qid` of a controller, on which the host may resend `resent` commands.
    pub(crate) fn new(
        io: &mut Context<D>,
        controller: &Arc<ControllerShared>,
        table: Arc<NamespaceTable>,
        completion: Completion,
        (origin, qid, resent): (Origin, u16, u16),
        (fabrics, locked): (AdminQueue, bool),
    ) -> Self {
        let (host, subsystem) = (&controller.host_nqn, &controller.subsystem_nqn);
        let session =
            io.driver.resolve(&io.policies, &origin, host, subsystem, None).tenant.session;
        Self {
            arrival: Arrival::new(
                Arc::clone(controller),
                table,
                origin,
                (qid, resent),
                completion.stats(),
            ),
            dispatch: Dispatch::default(),
            fabrics: Box::new(fabrics),
            locked,
            capsules: CapsuleMemory::new(io, &session, host_id(host)),
            completion,
            network: Network::new(),
            dscp: AnswerDscp::new(Arc::clone(controller), origin),
        }
    }

    /// Makes the queue known to the thread that watches the network, and sets the DSCP of its answers.
    pub(crate) fn join_network(&mut self, io: &mut Context<D>, key: Key) {
        let class = self.dscp.set(io, key);
        self.network.join(io.now, class, |pacing| io.driver.join_network(key, pacing));
    }

    /// Sets the connection's class by the present settings, for the DSCP of its answers and for the
    /// thread that watches the network.
    pub(crate) fn set_class(&mut self, io: &mut Context<D>, key: Key) {
        let class = self.dscp.set(io, key);
        self.network.set_class(class);
    }

    /// Takes a new table of namespaces and the host's present rights, if they have changed: something
    /// was received.
    #[inline]
    pub(crate) fn refresh(&mut self, io: &mut Context<D>, key: Key) {
        if self.arrival.refresh(io) {
            self.set_class(io, key);
        }
    }

    /// Takes an I/O command that has arrived.
    #[inline]
    pub(crate) fn command(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: CapsuleData<'_>,
    ) {
        if io.draining {
            // The command stays unanswered: the host sends it again when it has connected again.
            return;
        }
        if sqe.opcode == opcode::FABRICS || self.locked {
            self.fabrics(queue, io, slot, sqe, data);
            return;
        }
        match self.arrival.take(queue, io, (slot, sqe), &data) {
            Ok(Arrived::Marked) => {
                self.arrival.answer_in_turn(queue, io, slot, sqe, Status::SUCCESS, &data);
            }
            Ok(Arrived::Done(class)) => {
                self.network.count_capsule(class, &data);
                queue.transport.complete(slot, 0, Status::SUCCESS);
                if io.tracing.is_some() {
                    let bytes = if let CapsuleData::Whole(bytes) = data { bytes.len() } else { 0 };
                    self.trace_at_once(queue, io, (slot, sqe), (class, bytes), false);
                }
            }
            Ok(Arrived::Read(class, data)) => {
                let bytes = data.bytes().len();
                let is_held = self.network.reply(&mut queue.transport, io.now, class, slot, data);
                if io.tracing.is_some() {
                    self.trace_at_once(queue, io, (slot, sqe), (class, bytes), is_held);
                }
            }
            Ok(Arrived::Accepted(command)) => self.enqueue(queue, io, slot, command, &data),
            Ok(Arrived::Later(status)) => queue.refuse(slot, status, &data),
            Err(status) => {
                let status = self.completion.log_failure(io, sqe, status);
                self.arrival.answer_in_turn(queue, io, slot, sqe, status, &data);
            }
        }
    }

    /// Traces a command that was executed as it arrived, if it is selected.
    #[cold]
    fn trace_at_once(
        &self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        (slot, sqe): (SlotId, &Sqe),
        (class, bytes): (Class, usize),
        is_held: bool,
    ) {
        if queue.traces(io, self.arrival.queue(), (sqe.nsid.get(), class)) {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let stamp = Stamp::new(io.now, queue.input.received, class, bytes);
            queue.trace_answer(io, (slot, Status::SUCCESS), sqe, stamp, is_held);
        }
    }

    /// Processes a Fabrics command, or refuses any other while the host is not authenticated.
    #[cold]
    fn fabrics(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: CapsuleData<'_>,
    ) {
        if sqe.opcode != opcode::FABRICS {
            queue.refuse(slot, Status::AUTHENTICATION_REQUIRED.dnr(), &data);
            return;
        }
        self.fabrics.command(queue, io, slot, sqe, data);
        self.unlock(queue, io);
    }

    /// Unlocks the queue for all commands, if the host is authenticated.
    fn unlock(&mut self, queue: &Queue<D>, io: &mut Context<D>) {
        let id = queue.id;
        self.locked = self.locked && !io.driver.service(|service| service.is_authenticated(id));
    }

    /// Completes a Fabrics command that the service had deferred.
    pub(crate) fn complete_deferred(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        cid: u16,
        result: u64,
        status: Status,
    ) {
        self.fabrics.complete_deferred(queue, io, cid, result, status);
    }

    /// Inserts a command into the table, with its in-capsule data, and starts the command. The arrival could not answer it.
    fn enqueue(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        command: Command<D>,
        data: &CapsuleData<'_>,
    ) {
        self.network.count_capsule(command.charge.class, data);
        if io.tracing.is_some() {
            self.trace(queue, io, slot, &command);
        }
        let transfer = command.command.transfer(command.device.format());
        let Transfer::ToController(bytes @ 1..) = transfer else {
            // A buffer for a read is taken when it is the command's turn.
            queue.commands.arrive(slot, command);
            self.submit(queue, io, slot, None, Source::None);
            return;
        };
        let bytes = bytes as usize;
        if matches!(data, CapsuleData::None) {
            queue.commands.arrive(slot, command);
            self.fetch(queue, io).begin(slot, bytes);
            return;
        }
        let taken = self.capsules.take(io, command.charge.class, bytes);
        let Some((lease, mut buffer)) = taken else {
            // Commands with in-capsule data are only taken while there is a buffer for it.
            queue.refuse(slot, Status::COMMAND_INTERRUPTED, data);
            return;
        };
        queue.commands.arrive(slot, command);
        if let CapsuleData::Whole(from) = data {
            let length = buffer.len().min(from.len());
            if let (Some(to), Some(from)) = (buffer.get_mut(..length), from.get(..length)) {
                to.copy_from_slice(from);
            }
            self.submit(queue, io, slot, Some(buffer), Source::Capsule(lease));
        } else {
            queue.announce(io, slot);
            queue.commands.change(io.now, slot, State::Filling(buffer, Source::Capsule(lease)));
            queue.commands.expect_data(io.now, slot, true);
        }
    }

    /// Begins to stamp a command that enters the table, if it is selected.
    #[cold]
    fn trace(&self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId, command: &Command<D>) {
        let (nsid, class) = (queue.nsid_of(slot), command.charge.class);
        if queue.traces(io, self.arrival.queue(), (nsid, class)) {
            let bytes = command.command.transfer(command.device.format()).bytes();
            queue.stamp(slot, Stamp::new(io.now, queue.input.received, class, bytes));
        }
    }

    fn fetch<'a>(&'a mut self, queue: &'a mut Queue<D>, io: &'a mut Context<D>) -> Fetch<'a, D> {
        Fetch { queue, io, traffic: self.network.traffic() }
    }

    /// Takes a piece of a command's data.
    #[inline]
    pub(crate) fn data(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        offset: u32,
        bytes: &[u8],
    ) {
        self.count_data(queue, slot, bytes.len());
        if matches!(queue.commands.state(slot), State::Promised(..)) {
            self.fetch(queue, io).keep_promise(slot);
        }
        queue.commands.fill(slot, offset, bytes);
    }

    /// Counts a piece of a command's data that has come.
    #[inline]
    pub(crate) fn count_data(&mut self, queue: &mut Queue<D>, slot: SlotId, bytes: usize) {
        queue.progress.data_came(bytes);
        // The network's part does not know of Fabrics commands.
        if let Some(traffic) = self.network.traffic()
            && !matches!(queue.commands.state(slot), State::Collecting(_))
        {
            let place = queue.transport.sqe_of(slot).sgl.decode();
            let asked = !matches!(place, SglKind::InCapsule { .. });
            traffic.received(queue.commands.charge(slot).class, bytes, asked);
        }
    }

    /// Sends a command on whose data is all here.
    pub(crate) fn data_end(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        digest_ok: bool,
    ) {
        if matches!(queue.commands.state(slot), State::Collecting(_)) {
            self.fabrics.data_end(queue, io, slot, digest_ok);
            self.unlock(queue, io);
            return;
        }
        match self.fetch(queue, io).data_end(slot, digest_ok) {
            Fetched::Ready(buffer, source) => self.submit(queue, io, slot, Some(buffer), source),
            Fetched::Waits => {}
            Fetched::Failed(status) => {
                queue.end_announced(io, slot);
                self.arrival.settle_in_turn(queue, io, slot, status);
            }
        }
    }

    /// Queues a command for its next R2T: the host has sent all requested data.
    pub(crate) fn r2t_ended(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId) {
        self.fetch(queue, io).r2t_ended(slot);
    }

    /// Asks the host for data that it may be asked for now. Returns the time at which it may be
    /// asked for more, if there is more.
    pub(crate) fn send_r2ts(&mut self, queue: &mut Queue<D>, io: &mut Context<D>) -> Option<Nanos> {
        loop {
            let (class, next) = match self.network.traffic()?.next_r2t(io.now) {
                Turn::R2t(class, next) => (class, next),
                Turn::Later(at) => return Some(at),
                Turn::Idle => return None,
            };
            let bytes = match next {
                Next::Begun(slot) => {
                    // The host owed nothing while it was not asked.
                    queue.progress.hear(io.now);
                    queue.commands.expect_data(io.now, slot, true);
                    self.network.traffic()?.fetch_more(&mut queue.transport, slot, class)
                }
                Next::Fresh(slot, bytes) => {
                    if matches!(queue.commands.state(slot), State::R2tTurn) {
                        // Settings may have changed while it waited.
                        self.arrival.charge_again(io, queue, slot);
                        self.fetch(queue, io).wait_for_memory(slot, bytes as usize);
                    }
                    bytes
                }
            };
            self.network.traffic()?.charge_r2t(io.policies.order(), class, bytes);
            queue.send_soon(&mut io.agenda);
        }
    }

    /// Takes memory for a command's data.
    pub(crate) fn memory_granted(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        grant: MemoryGrant,
    ) {
        self.fetch(queue, io).memory_granted(slot, grant);
    }

    /// Takes memory for a command's read data, and starts the command if a buffer is free.
    pub(crate) fn read_granted(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        lease: Lease,
    ) {
        if !matches!(queue.commands.state(slot), State::ReadTurn(_)) {
            return;
        }
        let Some(buffer) = io.buffers.for_read(queue.commands.read_bytes(slot)) else {
            queue.commands.change(io.now, slot, State::ReadBuffer(lease));
            io.buffers.reads.push_back((queue.key, slot));
            return;
        };
        queue.commands.take(slot);
        self.submit(queue, io, slot, Some(buffer), Source::Read(lease));
        queue.send_soon(&mut io.agenda);
    }

    /// Continues a command that has waited for a buffer, if there is one now. Returns false if there is still none,
    /// true also if the command no longer waits.
    pub(crate) fn take_buffer(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
    ) -> bool {
        let (buffer, source) = match queue.commands.state(slot) {
            State::DataBuffer(_) => return self.fetch(queue, io).take_buffer(slot),
            State::Parked(..) => match self.fetch(queue, io).unpark(slot) {
                Some((buffer, source)) => (buffer, source),
                None => return false,
            },
            State::ReadBuffer(_) => {
                let bytes = queue.commands.read_bytes(slot);
                let Some(buffer) = io.buffers.for_first_read(bytes) else { return false };
                match queue.commands.take(slot) {
                    State::ReadBuffer(lease) => (buffer, Source::Read(lease)),
                    other => {
                        queue.commands.put_back(slot, other);
                        return true;
                    }
                }
            }
            _ => return true,
        };
        self.submit(queue, io, slot, Some(buffer), source);
        queue.send_soon(&mut io.agenda);
        true
    }

    /// Sends a command whose state was taken to its device, or queues it for its turn there.
    #[inline]
    fn submit(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        buffer: Option<Buffer<D>>,
        source: Source,
    ) {
        let served = queue.commands.command(slot);
        if !served.is_some_and(|command| command.charge.serves(&io.devices, &command.device)) {
            // The namespace was removed, or its device has failed, while the host's data came.
            io.stages.give_back_memory(source.grant());
            self.follow(queue, io, slot, Outcome::DeviceGone);
            return;
        }
        self.arrival.charge_again(io, queue, slot);
        let announced = queue.commands.take_announced(slot);
        let outcome = self.dispatch.submit(queue, io, slot, buffer, source);
        if let Some(announced) = announced {
            io.stages.arbiter.end_announced(io.now, announced);
        }
        self.follow(queue, io, slot, outcome);
    }

    /// Sends a command whose turn it is to its device.
    pub(crate) fn granted(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        command: Dispatched<(Key, SlotId)>,
    ) {
        let slot = command.item.1;
        if matches!(queue.commands.state(slot), State::DeviceTurn(..)) {
            // Settings may have changed while it waited, and it may need memory.
            self.arrival.charge_again(io, queue, slot);
        }
        let outcome = self.dispatch.granted(queue, io, command);
        self.follow(queue, io, slot, outcome);
        queue.send_soon(&mut io.agenda);
    }

    /// Starts a job again that found no memory for its device.
    pub(crate) fn launch(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, job: Job<D>) {
        let slot = job.origin.1;
        let outcome = self.dispatch.launch(queue, io, job);
        self.follow(queue, io, slot, outcome);
    }

    /// Follows a job that was started again, or is over.
    pub(crate) fn launched(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        mut started: Started<D>,
    ) {
        if let Started::<D>::Ended(ended) = &mut started
            && self.dispatch.leave_device(queue, &ended.job)
        {
            self.ended(queue, io, ended);
            return;
        }
        let Some(slot) = started.slot() else { return };
        let outcome = self.dispatch.launched(queue, io, started);
        self.follow(queue, io, slot, outcome);
    }

    /// Requests the turns of the next slices of large commands at a namespace, the oldest command first.
    pub(crate) fn next_slices(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, nsid: u32) {
        while let Some(slot) = queue.next_sliced(nsid) {
            // Settings may have changed since the slice before.
            self.arrival.charge_again(io, queue, slot);
            let outcome = self.dispatch.next_slice(queue, io, slot);
            self.follow(queue, io, slot, outcome);
            if matches!(queue.commands.state(slot), State::Slicing(_)) {
                // The slice was carried out on the spot: the reactor's other commands go first.
                return;
            }
        }
    }

    /// Answers a command that waits for its turn at a device that is gone.
    pub(crate) fn device_gone(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId) {
        let outcome = self.dispatch.device_gone(queue, io, slot);
        self.follow(queue, io, slot, outcome);
    }

    fn follow(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        outcome: Outcome<D>,
    ) {
        if !matches!(outcome, Outcome::Underway) {
            queue.end_announced(io, slot);
        }
        match outcome {
            Outcome::Underway => {}
            Outcome::Ended(mut ended) => self.ended(queue, io, &mut ended),
            Outcome::DeviceGone => self.settle_without_device(queue, io, slot),
            Outcome::Stopped => {
                queue.settle(io, slot, Status::ABORT_REQUESTED);
                queue.send_soon(&mut io.agenda);
            }
            Outcome::Answered(status) => {
                queue.settle(io, slot, status);
                queue.send_soon(&mut io.agenda);
            }
        }
    }

    /// Answers a command whose device is gone.
    fn settle_without_device(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId) {
        let nsid = queue.transport.sqe_of(slot).nsid.get();
        self.refresh(io, queue.key);
        let status = self.arrival.without_device(io.now, nsid);
        queue.settle(io, slot, status);
        queue.send_soon(&mut io.agenda);
    }

    /// Answers a command that has ended in its device.
    fn ended(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, ended: &mut Ended<D>) {
        let status = self.completion.end(io, &self.arrival.workloads, ended);
        let Ended::<D> { job, result, .. } = ended;
        let (slot, result) = (job.origin.1, *result);
        let traced = queue.take_stamp(io.now, slot);
        queue.commands.release(slot);
        let mut is_held = false;
        let data = match (job.held.take(), job.lease.take(), job.buffer.take()) {
            (Some(blocks), lease, _) => Some(TxData::Held(Leased::new(blocks, lease))),
            (_, lease, Some(buffer)) => Some(TxData::Buffer(Leased::new(buffer, lease))),
            _ => None,
        };
        match (job.command, data) {
            (IoCommand::Read { .. }, Some(data)) if status.is_success() => {
                let class = job.charge.class;
                is_held = self.network.reply(&mut queue.transport, io.now, class, slot, data);
            }
            (IoCommand::Read { .. }, Some(_)) => queue.transport.complete(slot, 0, status),
            _ => queue.transport.complete(slot, result, status),
        }
        if let Some((stamp, sqe)) = traced {
            queue.trace_answer(io, (slot, status), &sqe, *stamp, is_held);
        }
        // A held answer may be sent back as well.
        if !is_held {
            self.arrival.admission.answered(slot);
        }
        queue.send_soon(&mut io.agenda);
    }

    /// Aborts a command unless it is in its device. Returns whether it was aborted; `None` if a slice is in the
    /// device: the service is notified after the slice. Data that the host still owes is discarded.
    pub(crate) fn abort(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        ticket: AbortTicket,
    ) -> Option<bool> {
        if let Some(sliced) = queue.commands.slice_in_device(slot) {
            sliced.abort(ticket);
            return None;
        }
        if !queue.withdraw(io, slot) {
            return Some(false);
        }
        self.answer_withdrawn(queue, io, slot, Status::ABORT_REQUESTED);
        Some(true)
    }

    /// Ends waits of more than `wait_max` ns, before the host's timeout ends the whole controller. Commands return
    /// to a host that supports Command Retry Delay. Known answers are sent without the turn that they cost: in at least
    /// [`ANSWER_WAIT_MIN`], a queue has no more of them than entries.
    pub(crate) fn send_back_overdue(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        wait_max: u64,
    ) {
        for (slot, status) in queue.commands.overdue_answers(io.now, wait_max.max(ANSWER_WAIT_MIN))
        {
            if queue.withdraw(io, slot) {
                self.answer_withdrawn(queue, io, slot, status);
            }
        }
        if !self.arrival.has_acre() {
            return;
        }
        // As `Admission::stays`, for several commands before any of them is counted.
        let admission = &mut self.arrival.admission;
        let mut room = admission.room(io.now);
        let stays = |slot| {
            let stays = room == 0 || admission.is_last_try(slot);
            room -= usize::from(!stays);
            stays
        };
        let traffic = self.network.traffic();
        let overdue =
            traffic.map(|traffic| traffic.take_overdue_replies(io.now, stays)).unwrap_or_default();
        for slot in overdue {
            let sqe = *queue.transport.sqe_of(slot);
            let status = self.arrival.send_back_answered(io, (slot, &sqe));
            queue.transport.complete(slot, 0, status);
            if let (_, Some(answers)) = queue.parts_to_send() {
                answers.forget(slot);
            }
            queue.send_soon(&mut io.agenda);
        }
        for slot in queue.commands.overdue(io.now, wait_max) {
            let Some(Command { command, device, charge, .. }) = queue.commands.command(slot) else {
                continue;
            };
            let (charge, amount) = (*charge, Amount::new(command, device.format()));
            let sqe = *queue.transport.sqe_of(slot);
            if self.arrival.admission.stays(io.now, slot) || !queue.withdraw(io, slot) {
                continue;
            }
            let status = self.arrival.send_back_overdue(io, (slot, &sqe), &charge, amount);
            self.answer_withdrawn(queue, io, slot, status);
        }
    }

    /// Does the same for a command whose device has found no memory for it or its slice. Returns the command where it waits
    /// on. A slice has twice the time, since its host would repeat the whole command.
    pub(crate) fn send_back_stalled(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        mut job: Job<D>,
        wait_max: u64,
    ) -> Option<Job<D>> {
        let slot = job.origin.1;
        let factor = match queue.commands.slice_in_device(slot) {
            Some(sliced) if sliced.is_stopped() => return Some(job),
            Some(_) => 2,
            None => 1,
        };
        let sent = queue.commands.command(slot).map_or(job.arrived, |command| command.sent);
        let is_overdue = io.now.ns_since(job.arrived) > factor * wait_max
            || io.now.ns_since(sent) > factor * WAIT_MAX;
        if !is_overdue || !self.arrival.has_acre() || self.arrival.admission.stays(io.now, slot) {
            return Some(job);
        }
        io.stages.give_back(&mut job, io.now, false);
        queue.end_announced(io, slot);
        if factor > 1 {
            io.agenda.add_slice(queue.key, queue.nsid_of(slot));
        }
        let amount = Amount::new(&job.command, job.device.format());
        let status = self.arrival.send_back_overdue(io, (slot, &job.sqe), &job.charge, amount);
        queue.settle(io, slot, status);
        queue.send_soon(&mut io.agenda);
        None
    }

    /// Answers a command that was withdrawn from the room in which it waited.
    fn answer_withdrawn(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        status: Status,
    ) {
        let command = (queue.key, slot);
        io.buffers.forget(command);
        self.network.forget(slot);
        queue.settle(io, slot, status);
        queue.send_soon(&mut io.agenda);
    }

    /// Releases the resources of the queue's commands, except of commands in a device.
    pub(crate) fn withdraw(&mut self, queue: &mut Queue<D>, io: &mut Context<D>) {
        for slot in queue.commands.ids() {
            if queue.withdraw(io, slot) {
                queue.commands.change(io.now, slot, State::Withdrawn);
            }
        }
        self.arrival.leave(io);
        self.capsules.leave(io);
    }

    /// Notes that other queues may have taken memory since the last command.
    #[inline]
    pub(crate) fn look_again(&mut self) {
        self.capsules.look_again();
    }

    /// Returns whether no command may be taken now: the next one might find no buffer for its in-capsule data, or
    /// too many commands wait.
    #[inline]
    pub(crate) fn must_wait(
        &mut self,
        queue: &Queue<D>,
        io: &Context<D>,
        input: &Chunk<'_, D>,
    ) -> bool {
        // Data that is arriving has its buffer already.
        !queue.transport.in_data()
            && ((!self.capsules.has_room(io) && queue.transport.brings_data(input))
                || (io.stages.waits() && self.is_held_back(io)))
    }

    #[cold]
    fn is_held_back(&mut self, io: &Context<D>) -> bool {
        io.stages.arbiter.waiting() >= io.waiting_max || self.arrival.holds_back(io)
    }

    /// Returns whether the host owes data for a command.
    pub(crate) fn owes_data(&self, queue: &Queue<D>) -> bool {
        queue.commands.awaiting_data() > self.network.begun()
    }

    /// Returns whether the target holds no command and no answer of the queue.
    pub(crate) fn is_idle(&self, queue: &Queue<D>) -> bool {
        queue.commands.active() == 0 && !self.network.holds_replies()
    }

    /// Returns whether none of its commands is in a queued or timed device.
    pub(crate) fn is_settled(&self) -> bool {
        self.dispatch.is_settled()
    }

    /// Records the commands that were carried out on the spot until now.
    pub(crate) fn record_tally(&mut self, io: &Context<D>, now: Nanos) {
        let Arrival { workloads, tally, .. } = &mut self.arrival;
        self.completion.record_tally(io, workloads, tally, now);
    }
}
