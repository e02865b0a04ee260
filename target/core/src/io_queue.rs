//! I/O queues: from a command capsule to a backend, and back to the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbitration::Class;
use arbitration::arbiter::Grant;
use fabric::Nanos;
use fabric::controller::{
    BackendId, ControllerShared, FailedCommand, Namespace, NamespaceFeatures, NamespaceTable,
};
use fabric::nvm::{IoCommand, IoLimits, Transfer};
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::{CapsuleData, SlotId, Transport as _};

use crate::commands::{Command, Source, State};
use crate::connection::{Connection, Protocol, Stage};
use crate::context::{Context, take_in_turn};
use crate::device::{Data, Device, Immediate, Style};
use crate::driver::Driver;
use crate::driver::{Buffer, Memory, Use};
use crate::job::{Ended, Job, Started};
use crate::lanes::{Lanes, OUTPUT_MARK};
use crate::payload::{TxData, ZEROES};
use crate::sweep::Sweep;
use crate::tally::{Counted, Tally};

/// Failed commands of one queue that are put into the error log in one second.
const LOGGED_MAX: u32 = 64;

/// What an I/O queue knows of its controller.
#[derive(Debug)]
pub(crate) struct IoQueue {
    pub(crate) shared: Arc<ControllerShared>,
    qid: u16,
    table: Arc<NamespaceTable>,
    version: u64,
    pub(crate) lanes: Lanes,
    tally: Tally,
}

impl IoQueue {
    /// An I/O queue of a controller.
    pub(crate) fn new(shared: Arc<ControllerShared>, qid: u16, table: Arc<NamespaceTable>) -> Self {
        // Versions begin with 1: the first refresh takes the present table, for this one may have
        // been replaced since Connect made it.
        Self { shared, qid, table, version: 0, lanes: Lanes::default(), tally: Tally::default() }
    }

    /// What a command is answered with whose namespace has no device any more.
    pub(crate) fn without_device<D: Driver>(&mut self, driver: &mut D, nsid: u32) -> Status {
        self.refresh(driver);
        match self.table.get(nsid) {
            Some(_) => self.shared.namespace_not_ready(),
            None => Status::INVALID_NAMESPACE.dnr(),
        }
    }

    /// Takes a new table of namespaces if there is one, and counts as a sign of life.
    #[inline]
    pub(crate) fn refresh<D: Driver>(&mut self, driver: &mut D) {
        self.shared.note_traffic();
        let version = self.shared.table_version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.table = driver.service(|service| service.namespaces(self.shared.id));
        }
    }
}

/// What a command of this namespace is checked against.
#[inline]
fn limits(namespace: &Namespace, max_transfer: u32) -> IoLimits {
    IoLimits {
        format: namespace.geometry.format,
        blocks: namespace.geometry.blocks,
        read_only: namespace.features.contains(NamespaceFeatures::READ_ONLY),
        max_transfer,
    }
}

impl<D: Driver> Connection<D> {
    /// An I/O command has arrived.
    #[inline]
    pub(crate) fn io_command(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: CapsuleData<'_>,
    ) {
        if io.draining {
            // Left unanswered: the host sends it again when it has connected anew.
            return;
        }
        if let Err(status) = self.io_accept(io, slot, sqe, &data) {
            let status = self.log_failure(io, sqe, status);
            self.refuse(slot, status, &data);
        }
    }

    /// Parses a command and sets it going; `Err` where it is to be refused.
    #[inline]
    fn io_accept(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status> {
        let Stage::Io(queue) = &mut self.stage else { return Err(Status::INTERNAL_ERROR) };
        if sqe.opcode == opcode::FABRICS {
            self.fabrics_on_io_queue(io, slot, sqe);
            return Ok(());
        }
        if !queue.shared.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        let namespace = queue.table.get(sqe.nsid.get()).ok_or(Status::INVALID_NAMESPACE.dnr())?;
        let backend = namespace.backend;
        if io.device(backend).is_none() && !io.fetch_device(backend) {
            return Err(queue.shared.namespace_not_ready());
        }
        if sqe.opcode == OUTPUT_MARK {
            return self.output_mark(io, slot, sqe, backend);
        }
        let command = IoCommand::parse(sqe, &limits(namespace, io.settings.max_transfer))?;
        let transfer = command.transfer(namespace.geometry.format);
        if let Transfer::ToController(_) | Transfer::ToHost(_) = transfer {
            Protocol::<D>::check_place(sqe, &transfer, data)?;
        }
        let format = namespace.geometry.format;
        let lane = queue.lane(io, &self.origin, sqe.nsid.get(), backend);
        let charged = queue.charged(io.now, lane, sqe);
        let device = io.devices.get(backend).ok_or(Status::INTERNAL_ERROR)?;
        if let Style::Immediate(immediate) = device.style()
            && charged.flow.is_none_or(|flow| io.arbiter.is_plain(flow))
            && !matches!(command, IoCommand::DatasetManagement { .. })
        {
            let (class, account) = (charged.class, charged.account);
            let counted = Counted { device: backend, class, account };
            let now = io.now;
            let (key, tally, tallied) = (self.key, &mut queue.tally, &mut io.tallied);
            let mut count = |status| {
                if tally.count(counted, now, &command, format, status) {
                    tallied.push(key);
                }
            };
            match (transfer, data) {
                (Transfer::ToController(length), CapsuleData::Whole(bytes)) => {
                    // A capsule may hold more than its command takes.
                    let bytes = bytes.get(..length as usize).unwrap_or(bytes);
                    let status = immediate.run(&command, Data::Write(bytes));
                    count(status);
                    return self.answer(slot, status);
                }
                (Transfer::None, _) => {
                    let status = immediate.run(&command, Data::None);
                    count(status);
                    return self.answer(slot, status);
                }
                (Transfer::ToHost(bytes), _)
                    if immediate.reads_zeroes() && bytes as usize <= ZEROES =>
                {
                    count(Status::SUCCESS);
                    let zeroes = TxData::Zeroes(bytes as usize);
                    self.answer_with(charged.class, slot, zeroes);
                    return Ok(());
                }
                (Transfer::ToHost(bytes), _) => {
                    let buffer = take_in_turn(&io.pool, &io.waiting, bytes as usize);
                    if let Some(mut buffer) = buffer {
                        let status = immediate.run(&command, Data::Read(&mut buffer));
                        count(status);
                        self.answer_read(charged.class, slot, buffer, status);
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        let device = Arc::clone(device);
        if command == IoCommand::Flush
            && queue.lane_at(lane).is_some_and(|lane| lane.flush_is_output)
            && let Some(flow) = charged.flow
        {
            io.arbiter.output(io.now, flow, charged.class);
        }
        if io.waits() && self.refuses(io, sqe, &charged) {
            let status = self.retry_later(io, &charged);
            self.refuse(slot, status, data);
            return Ok(());
        }
        let command = Command { command, device, arrived: io.now, charged };
        self.io_enqueue(io, slot, sqe, command, data);
        Ok(())
    }

    /// An Output Mark (docs/sources.md, I1: outputs end containers).
    #[cold]
    fn output_mark(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        backend: BackendId,
    ) -> Result<(), Status> {
        let Stage::Io(queue) = &mut self.stage else { return Err(Status::INTERNAL_ERROR) };
        let lane = queue.lane(io, &self.origin, sqe.nsid.get(), backend);
        let charged = queue.charged(io.now, lane, sqe);
        if let Some(flow) = charged.flow {
            io.arbiter.output(io.now, flow, charged.class);
        }
        self.protocol.complete(slot, 0, Status::SUCCESS);
        Ok(())
    }

    /// Sets a command going that cannot be answered on the spot: takes it into the table, with the
    /// data that it brought.
    fn io_enqueue(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        command: Command<D>,
        data: &CapsuleData<'_>,
    ) {
        let transfer = command.command.transfer(command.device.format());
        let Transfer::ToController(bytes @ 1..) = transfer else {
            // A buffer for what it reads is taken when it is the command's turn.
            self.commands.arrive(slot, command);
            self.submit(io, slot, sqe, None, Source::None);
            return;
        };
        let bytes = bytes as usize;
        if matches!(data, CapsuleData::None) {
            self.commands.arrive(slot, command);
            if !self.wait_to_ask(io, slot, bytes) {
                self.wait_for_memory(io, slot, bytes);
            }
            return;
        }
        let Some(mut buffer) = io.capsules.take(bytes, Use::Any) else {
            // Commands are only taken while there is a buffer for in-capsule data.
            self.refuse(slot, Status::COMMAND_INTERRUPTED, data);
            return;
        };
        self.commands.arrive(slot, command);
        if let CapsuleData::Whole(from) = data {
            let length = buffer.len().min(from.len());
            if let (Some(to), Some(from)) = (buffer.get_mut(..length), from.get(..length)) {
                to.copy_from_slice(from);
            }
            self.submit(io, slot, sqe, Some(buffer), Source::Capsule);
        } else {
            self.commands.change(slot, State::Filling(buffer, Source::Capsule));
        }
    }

    /// A command that has waited for a buffer: goes on with it, if there is one now (unless it does
    /// not wait any more). False where there is still none.
    pub(crate) fn retry_waiting(&mut self, io: &mut Context<D>, slot: SlotId) -> bool {
        let bytes = self.commands.command(slot).map_or(0, |command| {
            transfer_bytes(&command.command.transfer(command.device.format()))
        });
        match self.commands.state(slot) {
            State::Parked(..) => return self.unpark(io, slot),
            State::DataBuffer(_) => {
                let Some(buffer) = io.data_buffer(bytes) else {
                    return self.ask_ahead(io, slot, bytes);
                };
                let State::DataBuffer(grant) = self.commands.take(slot) else { return true };
                self.commands.change(slot, State::Filling(buffer, Source::Fetched(grant)));
                self.request(io, slot, u32::try_from(bytes).unwrap_or(u32::MAX));
            }
            State::ReadBuffer => {
                let Some(buffer) = io.pool.take(bytes, Use::Any) else { return false };
                let sqe = *self.protocol.sqe_of(slot);
                self.commands.take(slot);
                self.submit(io, slot, &sqe, Some(buffer), Source::None);
            }
            _ => return true,
        }
        self.mark_dirty(io);
        true
    }

    /// All of the host's data for a command is here.
    pub(crate) fn io_data_end(&mut self, io: &mut Context<D>, slot: SlotId, digest_ok: bool) {
        let grant = match self.commands.take(slot) {
            State::Filling(buffer, source) if digest_ok => {
                let sqe = *self.protocol.sqe_of(slot);
                self.submit(io, slot, &sqe, Some(buffer), source);
                return;
            }
            parked @ State::Parked(..) if digest_ok => {
                self.commands.put_back(slot, parked);
                if !self.unpark(io, slot) {
                    // Before those that hold nothing: they may be waiting for what it was promised.
                    io.data_waiting.push_front((self.key, slot));
                }
                return;
            }
            State::Filling(_, source) => source.grant(),
            State::Parked(_, _, grant) => grant,
            State::Failing(status) => {
                self.settle(slot, status);
                return;
            }
            other => {
                self.commands.put_back(slot, other);
                return;
            }
        };
        io.give_back_memory(grant);
        self.settle(slot, Status::TRANSIENT_TRANSPORT_ERROR);
    }

    /// Hands a command with all it needs to its device.
    pub(crate) fn start(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        buffer: Option<Buffer<D>>,
        source: Source,
        grant: Option<(Grant, u64)>,
    ) {
        let (grant, waited_ns) = grant.map_or((None, 0), |(grant, waited)| (Some(grant), waited));
        let Some(Command { command, device, arrived, charged }) = self.commands.take_command(slot)
        else {
            debug_assert!(false, "only I/O commands are started");
            return;
        };
        let job = Job {
            origin: (self.key, slot),
            device,
            command,
            sqe: *sqe,
            buffer,
            arrived,
            charged,
            memory: source.grant(),
            grant,
            waited_ns,
        };
        let device: Arc<D::Device> = Arc::clone(&job.device);
        match device.style() {
            Style::Immediate(immediate) => match Sweep::ranges(&job) {
                Some(ranges) => {
                    let mut sweep = Sweep::new(job, ranges);
                    // Its slices ask for their turns one by one.
                    sweep.give_back(io);
                    self.begin_sweep(io, sweep);
                }
                None => {
                    let ended = run_now(immediate, job);
                    self.io_ended(io, ended);
                }
            },
            Style::Timed(timed) => {
                let until = timed.done_at(io.now, &job.command);
                let ended = run_now(timed, job);
                self.commands.change(slot, State::InDevice);
                self.in_backend += 1;
                io.timed.insert(until, ended);
            }
            Style::Queued => {
                self.commands.change(slot, State::InDevice);
                self.launch(io, job);
            }
        }
    }

    /// Starts a job in a queued backend.
    pub(crate) fn launch(&mut self, io: &mut Context<D>, job: Job<D>) {
        self.in_backend += 1;
        let started = io.driver.launch(job);
        self.launched(io, started);
    }

    /// A job has started anew, or is over.
    pub(crate) fn launched(&mut self, io: &mut Context<D>, started: Started<D>) {
        match started {
            Started::Running => {}
            Started::Ended(ended) => {
                self.in_backend = self.in_backend.saturating_sub(1);
                self.io_ended(io, ended);
            }
            Started::NoMemory(job) => {
                self.in_backend = self.in_backend.saturating_sub(1);
                io.stalled.push_back(job);
            }
        }
    }

    /// A command has ended in its backend.
    pub(crate) fn io_ended(&mut self, io: &mut Context<D>, ended: Ended<D>) {
        let Ended { mut job, result, mut status } = ended;
        let service_ns = job.give_back(io);
        let slot = job.origin.1;
        if !status.is_success() {
            if status == Status::NAMESPACE_NOT_READY
                && let Stage::Io(queue) = &self.stage
            {
                // Its device is gone: with the time after which the host is to come again.
                status = queue.shared.namespace_not_ready();
            }
            status = self.log_failure(io, &job.sqe, status);
        }
        self.commands.release(slot);
        let nanos = io.now.0.saturating_sub(job.arrived.0);
        let format = job.device.format();
        let bytes = transfer_bytes(&job.command.transfer(format)) as u64;
        for stats in [
            job.device.stats(io.settings.reactor),
            Some(&*self.stats),
            io.driver.class_stats(job.charged.class),
            io.accounts.stats(job.charged.account, io.settings.reactor),
        ]
        .into_iter()
        .flatten()
        {
            stats.queueing.record(job.waited_ns, 1);
            stats.service.record(service_ns, 1);
            let (kind, bytes) = match job.command {
                IoCommand::Read { .. } => (&stats.read, bytes),
                IoCommand::Write { .. } => (&stats.write, bytes),
                _ => (&stats.other, 0),
            };
            kind.record(1, bytes, nanos);
            if !status.is_success() {
                kind.errors(1);
            }
        }
        match (job.command, job.buffer) {
            (IoCommand::Read { .. }, Some(buffer)) => {
                self.answer_read(job.charged.class, slot, buffer, status);
            }
            _ => self.protocol.complete(slot, result, status),
        }
        self.mark_dirty(io);
    }

    /// Completes a command that was carried out on the spot; a failure is refused by the caller.
    #[inline]
    fn answer(&mut self, slot: SlotId, status: Status) -> Result<(), Status> {
        if status.is_success() {
            self.protocol.complete(slot, 0, status);
            return Ok(());
        }
        Err(status)
    }

    #[inline]
    fn answer_read(&mut self, class: Class, slot: SlotId, buffer: Buffer<D>, status: Status) {
        if status.is_success() {
            self.answer_with(class, slot, TxData::Buffer(buffer));
        } else {
            self.protocol.complete(slot, 0, status);
        }
    }

    /// Completes a command that is in the table.
    pub(crate) fn settle(&mut self, slot: SlotId, status: Status) {
        self.commands.release(slot);
        self.protocol.complete(slot, 0, status);
    }

    /// Puts a failed command into its controller's error log; answers the status that says so.
    #[cold]
    fn log_failure(&mut self, io: &mut Context<D>, sqe: &Sqe, status: Status) -> Status {
        let Stage::Io(queue) = &self.stage else { return status };
        // The log has a lock, and a host may send bad commands as fast as it likes.
        if io.now.0.saturating_sub(self.logged.0.0) > 1_000_000_000 {
            self.logged = (io.now, 0);
        }
        self.logged.1 += 1;
        if self.logged.1 > LOGGED_MAX {
            return status;
        }
        let failed = FailedCommand {
            qid: queue.qid,
            cid: sqe.cid.get(),
            opcode: sqe.opcode,
            nsid: sqe.nsid.get(),
            lba: sqe.slba(),
            status,
        };
        io.driver.service(|service| service.log_error(self.id, failed));
        status.more()
    }

    /// Refuses a command that is not in the table; data that is still on its way is let pass
    /// first.
    #[cold]
    fn refuse(&mut self, slot: SlotId, status: Status, data: &CapsuleData<'_>) {
        if matches!(data, CapsuleData::Partial { .. }) {
            self.commands.occupy(slot, State::Failing(status));
        } else {
            self.protocol.complete(slot, 0, status);
        }
    }

    /// Aborts a command unless it is in its device; whether it did. Data that the host owes for it
    /// is let pass.
    pub(crate) fn abort(&mut self, io: &mut Context<D>, cid: u16) -> bool {
        let Some(slot) = self.protocol.find_cid(cid) else { return false };
        if !self.withdraw_command(io, slot) {
            return false;
        }
        for waiting in [&mut io.waiting, &mut io.data_waiting] {
            waiting.retain(|waiter| *waiter != (self.key, slot));
        }
        io.sweeps.retain(|waiter| *waiter != (self.key, slot));
        if let Some(net) = &mut self.net {
            net.wait(|asks| asks.forget(slot));
        }
        self.settle(slot, Status::ABORT_REQUESTED);
        self.mark_dirty(io);
        true
    }

    /// Records what was carried out on the spot until now.
    pub(crate) fn record_tally(&mut self, io: &Context<D>, now: Nanos) {
        if let Stage::Io(queue) = &mut self.stage {
            queue.tally.record(io, &self.stats, now);
        }
    }
}

/// Carries a job out on the spot.
fn run_now<D: Driver, I: Immediate + ?Sized>(immediate: &I, mut job: Job<D>) -> Ended<D> {
    let status = match (&job.command, &mut job.buffer) {
        (IoCommand::Read { .. }, Some(buffer)) => immediate.run(&job.command, Data::Read(buffer)),
        (_, Some(buffer)) => immediate.run(&job.command, Data::Write(buffer)),
        (_, None) => immediate.run(&job.command, Data::None),
    };
    Ended { job, result: 0, status }
}

/// Bytes that move; 0 for none.
#[inline]
pub(crate) fn transfer_bytes(transfer: &Transfer) -> usize {
    match transfer {
        Transfer::None => 0,
        Transfer::ToController(bytes) | Transfer::ToHost(bytes) => *bytes as usize,
    }
}
