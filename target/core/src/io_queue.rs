//! The life of an I/O command: arrival, the fetching of its data, its device, its answer.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::{Dispatched, EntryId, Submission};
use arbitration::memory::{MemoryFlowId, MemoryGrant};
use fabric::Nanos;
use fabric::controller::{AbortTicket, ControllerShared, NamespaceTable};
use fabric::nvm::{IoCommand, Transfer};
use fabric::nvme::{SglKind, Sqe, Status, opcode};
use fabric::queue::{CapsuleData, SlotId, Transport as _};
use qtcp::pacing::Pacing;

use crate::admin_queue::fabrics_on_io_queue;
use crate::arrival::{Arrival, Arrived, host_id};
use crate::commands::{Command, Source, State};
use crate::completion::Completion;
use crate::context::Context;
use crate::device::BlockDevice as _;
use crate::dispatch::{Dispatch, Outcome};
use crate::driver::{Buffer, Chunk, Driver, Ended, Job, Started};
use crate::dscp::Dscp;
use crate::fetch::{Fetch, Fetched};
use crate::key::Key;
use crate::lease::{Lease, Leased};
use crate::origin::Origin;
use crate::pacer::{Next, Turn};
use crate::payload::TxData;
use crate::policies::Policies as _;
use crate::queue::Queue;
use crate::traffic::Traffic;

/// An I/O queue of a controller.
#[derive(Debug)]
pub(crate) struct IoQueue<D: Driver> {
    controller: Arc<ControllerShared>,
    arrival: Arrival,
    dispatch: Dispatch,
    /// Queue for memory for in-capsule data; none once the connection ends.
    capsules: Option<MemoryFlowId>,
    completion: Completion,
    /// Traffic for stage S6; none where the network's stage does not look after the connection.
    traffic: Option<Box<Traffic<Buffer<D>>>>,
    origin: Origin,
    /// DSCP of its answers, once that was set.
    dscp: Option<Dscp>,
}

impl<D: Driver> IoQueue<D> {
    /// Makes an I/O queue of a controller.
    pub(crate) fn new(
        io: &mut Context<D>,
        controller: &Arc<ControllerShared>,
        table: Arc<NamespaceTable>,
        completion: Completion,
        origin: Origin,
    ) -> Self {
        let (host, subsystem) = (&controller.host_nqn, &controller.subsystem_nqn);
        let session =
            io.driver.resolve(&io.policies, &origin, host, subsystem, None).tenant.session;
        let capsules = io.stages.capsules.gate().flow(&session, host_id(host));
        Self {
            arrival: Arrival::new(Arc::clone(controller), table, origin),
            capsules: Some(capsules),
            controller: Arc::clone(controller),
            dispatch: Dispatch::default(),
            completion,
            traffic: None,
            origin,
            dscp: None,
        }
    }

    /// Makes the queue known to the thread that watches the network.
    pub(crate) fn join_network(&mut self, io: &mut Context<D>, key: Key) {
        let pacing = Arc::<Pacing>::default();
        if self.traffic.is_none() && io.driver.join_network(key, &pacing) {
            self.traffic = Some(Box::new(Traffic::new(pacing, io.now)));
        }
    }

    /// Takes a new table of namespaces if there is one: something was received.
    #[inline]
    pub(crate) fn refresh(&mut self, io: &mut Context<D>) {
        self.arrival.refresh(&mut io.driver);
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
        if sqe.opcode == opcode::FABRICS {
            fabrics_on_io_queue(queue, io, slot, sqe);
            return;
        }
        match self.arrival.take(queue, io, sqe, &data) {
            Ok(Arrived::Marked) => {
                self.answer_in_turn(queue, io, slot, sqe, Status::SUCCESS, &data);
            }
            Ok(Arrived::Done(class)) => {
                self.count_capsule(class, &data);
                queue.transport.complete(slot, 0, Status::SUCCESS);
            }
            Ok(Arrived::Read(class, data)) => self.reply(queue, class, slot, data),
            Ok(Arrived::Accepted(command)) => self.enqueue(queue, io, slot, command, &data),
            Ok(Arrived::Later(status)) => queue.refuse(slot, status, &data),
            Err(status) => {
                let status = self.completion.log_failure(io, sqe, status);
                self.answer_in_turn(queue, io, slot, sqe, status, &data);
            }
        }
    }

    /// Takes a command that cannot be answered on the spot into the table, with the data that it
    /// brought, and starts it.
    fn enqueue(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        command: Command<D>,
        data: &CapsuleData<'_>,
    ) {
        self.count_capsule(command.charge.class, data);
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
        let lease = self.capsules.and_then(|flow| {
            io.stages.capsules.lease_now(flow, command.charge.class, io.settings.in_capsule_data)
        });
        let buffer = io.buffers.for_capsule(bytes);
        let (Some(lease), Some(mut buffer)) = (lease, buffer) else {
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
            queue.commands.change(slot, State::Filling(buffer, Source::Capsule(lease)));
            queue.commands.expect_data(slot, Some(io.now));
        }
    }

    fn fetch<'a>(&'a mut self, queue: &'a mut Queue<D>, io: &'a mut Context<D>) -> Fetch<'a, D> {
        Fetch { queue, io, traffic: self.traffic.as_deref_mut() }
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
        if let Some(traffic) = &mut self.traffic {
            let place = queue.transport.sqe_of(slot).sgl.decode();
            let asked = matches!(place, SglKind::Transport);
            traffic.received(queue.commands.charge(slot).class, bytes, asked);
        }
    }

    /// Counts data that has come whole with its command.
    #[inline]
    fn count_capsule(&mut self, class: Class, data: &CapsuleData<'_>) {
        if let (CapsuleData::Whole(bytes), Some(traffic)) = (data, &mut self.traffic) {
            traffic.received(class, bytes.len(), false);
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
        match self.fetch(queue, io).data_end(slot, digest_ok) {
            Fetched::Ready(buffer, source) => self.submit(queue, io, slot, Some(buffer), source),
            Fetched::Waits => {}
            Fetched::Failed(status) => self.settle_in_turn(queue, io, slot, status),
        }
    }

    /// Lets a command's next R2T wait for its turn: all that was asked for has come.
    pub(crate) fn r2t_ended(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId) {
        self.fetch(queue, io).r2t_ended(slot);
    }

    /// Asks the host for data that it may be asked for now. Returns the time at which it may be
    /// asked for more, if there is more.
    pub(crate) fn send_r2ts(&mut self, queue: &mut Queue<D>, io: &mut Context<D>) -> Option<Nanos> {
        loop {
            let (class, next) = match self.traffic.as_mut()?.next_r2t(io.now) {
                Turn::R2t(class, next) => (class, next),
                Turn::Later(at) => return Some(at),
                Turn::Idle => return None,
            };
            let bytes = match next {
                Next::Begun(slot) => {
                    // The host owed nothing while it was not asked.
                    queue.progress.hear(io.now);
                    queue.commands.expect_data(slot, Some(io.now));
                    self.traffic.as_mut()?.fetch_more(&mut queue.transport, slot, class)
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
            self.traffic.as_mut()?.charge_r2t(io.policies.order(), class, bytes);
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

    /// Takes memory for what a command reads, and lets the command go on if there is a buffer.
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
            queue.commands.change(slot, State::ReadBuffer(lease));
            io.buffers.reads.push_back((queue.key, slot));
            return;
        };
        queue.commands.take(slot);
        self.submit(queue, io, slot, Some(buffer), Source::Read(lease));
        queue.send_soon(&mut io.agenda);
    }

    /// Lets a command go on that has waited for a buffer, if there is one now (unless the command
    /// waits no more). Returns false where there is still none.
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

    /// Sends a command whose state was taken to its device, or lets it wait for its turn there.
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
            self.settle_without_device(queue, io, slot);
            return;
        }
        self.arrival.charge_again(io, queue, slot);
        let outcome = self.dispatch.submit(queue, io, slot, buffer, source);
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
        started: Started<D>,
    ) {
        let Some(slot) = started.slot() else { return };
        let outcome = self.dispatch.launched(queue, io, started);
        self.follow(queue, io, slot, outcome);
    }

    /// Lets a command's next slice ask for its turn.
    pub(crate) fn next_slice(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId) {
        // Settings may have changed since the slice before.
        self.arrival.charge_again(io, queue, slot);
        let outcome = self.dispatch.next_slice(queue, io, slot);
        self.follow(queue, io, slot, outcome);
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
        match outcome {
            Outcome::Underway => {}
            Outcome::Ended(ended) => self.ended(queue, io, ended),
            Outcome::DeviceGone => self.settle_without_device(queue, io, slot),
            Outcome::Stopped => {
                queue.settle(slot, Status::ABORT_REQUESTED);
                queue.send_soon(&mut io.agenda);
            }
            Outcome::Answered(status) => {
                queue.settle(slot, status);
                queue.send_soon(&mut io.agenda);
            }
        }
    }

    /// Answers a command that has just arrived and needs nothing of its device: in the turn that it
    /// costs, where its session has limits, and after the data that is still on its way.
    #[cold]
    fn answer_in_turn(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        status: Status,
        data: &CapsuleData<'_>,
    ) {
        if matches!(data, CapsuleData::Partial { .. }) {
            queue.refuse(slot, status, data);
            return;
        }
        match self.wait_to_answer(io, (queue.key, slot), sqe) {
            Some(entry) => queue.commands.occupy(slot, State::AnswerTurn(entry, status)),
            None => queue.transport.complete(slot, 0, status),
        }
    }

    /// Answers a command whose state was taken, as [`Self::answer_in_turn`] does.
    #[cold]
    fn settle_in_turn(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        status: Status,
    ) {
        let sqe = *queue.transport.sqe_of(slot);
        match self.wait_to_answer(io, (queue.key, slot), &sqe) {
            Some(entry) => queue.commands.change(slot, State::AnswerTurn(entry, status)),
            None => queue.settle(slot, status),
        }
    }

    /// Lets a command wait for the turn in which it is answered. Returns `None` where it is
    /// answered at once.
    fn wait_to_answer(
        &mut self,
        io: &mut Context<D>,
        item: (Key, SlotId),
        sqe: &Sqe,
    ) -> Option<EntryId> {
        let charge = self.arrival.charge_answer(io, sqe)?;
        let submission = Submission::of_host(item, false, 0);
        io.stages.arbiter.enqueue(io.now, charge.flow?, charge.class, submission)
    }

    /// Answers a command whose device is gone.
    fn settle_without_device(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, slot: SlotId) {
        let nsid = queue.transport.sqe_of(slot).nsid.get();
        let status = self.arrival.without_device(&mut io.driver, nsid);
        queue.settle(slot, status);
        queue.send_soon(&mut io.agenda);
    }

    /// Answers a command that has ended in its device.
    fn ended(&mut self, queue: &mut Queue<D>, io: &mut Context<D>, mut ended: Ended<D>) {
        let status = self.completion.end(io, &self.arrival.workloads, &mut ended);
        let Ended::<D> { job, result, .. } = ended;
        let slot = job.origin.1;
        queue.commands.release(slot);
        match (job.command, job.buffer) {
            (IoCommand::Read { .. }, Some(buffer)) if status.is_success() => {
                let data = TxData::Buffer(Leased::new(buffer, job.lease));
                self.reply(queue, job.charge.class, slot, data);
            }
            (IoCommand::Read { .. }, Some(_)) => queue.transport.complete(slot, 0, status),
            _ => queue.transport.complete(slot, result, status),
        }
        queue.send_soon(&mut io.agenda);
    }

    /// Answers a command with data: at once, or when its class's turn has come.
    #[inline]
    fn reply(&mut self, queue: &mut Queue<D>, class: Class, slot: SlotId, data: TxData<Buffer<D>>) {
        match &mut self.traffic {
            Some(traffic) => traffic.reply(&mut queue.transport, class, slot, data),
            None => queue.transport.complete_with_data(slot, data, 0),
        }
    }

    /// Aborts a command unless it is in its device. Returns whether it was aborted, and `None` where
    /// a slice of it is in the device: then the service is told after the slice. Data that the host
    /// still owes is let pass.
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
        if !self.withdraw_command(queue, io, slot) {
            return Some(false);
        }
        let command = (queue.key, slot);
        io.buffers.forget(command);
        io.agenda.slices.retain(|other| *other != command);
        if let Some(traffic) = &mut self.traffic {
            traffic.pacer_mut().forget(slot);
        }
        queue.settle(slot, Status::ABORT_REQUESTED);
        queue.send_soon(&mut io.agenda);
        Some(true)
    }

    /// Gives back all that the queue's commands hold, but for what is in a device.
    pub(crate) fn withdraw(&mut self, queue: &mut Queue<D>, io: &mut Context<D>) {
        for slot in queue.commands.ids() {
            if self.withdraw_command(queue, io, slot) {
                queue.commands.change(slot, State::Withdrawn);
            }
        }
        self.arrival.leave(io);
        if let Some(flow) = self.capsules.take() {
            io.stages.capsules.gate().release(flow);
        }
    }

    /// Takes a command out of the queue in which it waits, and gives back all that it holds.
    /// Returns false, and changes nothing, where it is in its device.
    fn withdraw_command(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
    ) -> bool {
        let stages = &mut io.stages;
        let grant = match queue.commands.take(slot) {
            State::MemoryTurn(entry) => {
                stages.gate.cancel(entry);
                None
            }
            State::DeviceTurn(entry, _, source) => {
                stages.arbiter.cancel(io.now, entry);
                source.grant()
            }
            State::SliceTurn(_, entry) | State::AnswerTurn(entry, _) => {
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
                queue.commands.put_back(slot, State::SliceInDevice(sliced));
                return false;
            }
            other => {
                queue.commands.put_back(slot, other);
                return false;
            }
        };
        stages.give_back_memory(grant);
        true
    }

    /// Says whether no command may be taken now: the next one might find no buffer for its
    /// in-capsule data, or more commands wait than there is room for.
    #[inline]
    pub(crate) fn must_wait(
        &mut self,
        queue: &Queue<D>,
        io: &Context<D>,
        input: &Chunk<'_, D>,
    ) -> bool {
        // Data that is arriving has its buffer already.
        !queue.transport.in_data()
            && ((!self.has_for_capsule(io) && queue.transport.brings_data(input))
                || (io.stages.waits() && self.is_held_back(io)))
    }

    /// Says whether the host may have a buffer for in-capsule data now.
    #[inline]
    fn has_for_capsule(&self, io: &Context<D>) -> bool {
        let each = io.settings.in_capsule_data;
        self.capsules.is_some_and(|flow| io.stages.capsules.may_lease(flow, each))
            && io.buffers.has_for_capsule(each as usize)
    }

    #[cold]
    fn is_held_back(&mut self, io: &Context<D>) -> bool {
        io.stages.arbiter.waiting() >= io.waiting_max || self.arrival.holds_back(io)
    }

    /// Returns how many bytes of replies wait for their turn.
    #[inline]
    pub(crate) fn held_replies(&self) -> usize {
        self.traffic.as_ref().map_or(0, |traffic| traffic.waiting_bytes())
    }

    /// Moves replies whose turn it is to what is sent next.
    #[inline]
    pub(crate) fn move_replies(&mut self, queue: &mut Queue<D>, io: &Context<D>) {
        if let Some(traffic) = &mut self.traffic {
            traffic.move_replies(&mut queue.transport, io.policies.order());
        }
    }

    /// Tells the poller what has changed.
    #[inline]
    pub(crate) fn publish(&mut self, queue: &Queue<D>, sending: bool) {
        if let Some(traffic) = &mut self.traffic {
            traffic.publish(sending, queue.commands.active());
        }
    }

    /// Says whether the host owes data for a command.
    pub(crate) fn owes_data(&self, queue: &Queue<D>) -> bool {
        let not_asked = self.traffic.as_ref().map_or(0, |traffic| traffic.begun());
        queue.commands.awaiting_data() > not_asked
    }

    /// Says whether no command of it is in the target, and no answer.
    pub(crate) fn is_idle(&self, queue: &Queue<D>) -> bool {
        queue.commands.active() == 0
            && !self.traffic.as_ref().is_some_and(|traffic| traffic.holds_replies())
    }

    /// Says whether a queued device has none of its commands.
    pub(crate) fn is_settled(&self) -> bool {
        self.dispatch.is_settled()
    }

    /// Records the commands that were carried out on the spot until now.
    pub(crate) fn record_tally(&mut self, io: &Context<D>, now: Nanos) {
        let Arrival { workloads, tally, .. } = &mut self.arrival;
        self.completion.record_tally(io, workloads, tally, now);
    }

    /// Sets the DSCP of answers, if that has changed.
    pub(crate) fn set_dscp(&mut self, io: &mut Context<D>, key: Key) {
        let (host, subsystem) = (&self.controller.host_nqn, &self.controller.subsystem_nqn);
        let class = io.driver.resolve(&io.policies, &self.origin, host, subsystem, None).class;
        let dscp = Dscp::of(&*io.policies, &self.origin, class);
        let before = self.dscp.map_or(0, |dscp| dscp.dscp);
        if before != dscp.dscp && io.driver.set_dscp(key, dscp.dscp, dscp.priority) {
            self.dscp = Some(dscp);
        }
    }
}
