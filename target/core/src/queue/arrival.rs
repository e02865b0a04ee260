//! The arrival of an I/O command: parsed, checked against its namespace, classified, and carried
//! out on the spot where nothing prevents that.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbitration::arbiter::{EntryId, Submission, WeightedQueue};
use arbitration::classify::Classifier;
use arbitration::overload::WAIT_MAX;
use arbitration::session::{HostId, Reconnect, Session};
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::controller::{
    BackendId, ControllerShared, Namespace, NamespaceFeatures, NamespaceTable,
};
use fabric::nvm::{BlockFormat, IoCommand, IoLimits, Transfer};
use fabric::nvme::{Sqe, Status};
use fabric::queue::{CapsuleData, SlotId, Transport as _};

use super::admission::{Admission, Amount, Fullness, SentBack, comes_again_by, retry_delay};
use super::commands::{Command, State};
use super::dispatch::{bytes_at_device, hold};
use super::flow_cache::{FlowCache, NamespaceFlow};
use super::sliced::is_large;
use super::state::Queue;
use crate::machine::device::{BlockDevice, Data, Style, device_id};
use crate::machine::driver::{Buffer, Driver};
use crate::machine::key::Key;
use crate::machine::origin::Origin;
use crate::machine::policies::Policies;
use crate::memory::lease::Leased;
use crate::memory::payload::{TxData, ZEROES};
use crate::reactor::context::{Context, Settings};
use crate::reactor::turns::OnTheSpot;
use crate::stats::charge::Charge;
use crate::stats::counters::IoStats;
use crate::stats::tally::{Counted, Tally};
use crate::stats::workloads::{WorkloadId, Workloads};

/// Output Mark: a vendor-specific I/O command without data. A host sends it to end a container with its output so
/// far to a namespace (docs/research/sources.md, I1: outputs end containers). An Output Mark needs no device.
const OUTPUT_MARK: u8 = 0xc0;

/// Time in ns after the Connect of a controller's first I/O queue during which its host may resend
/// commands. Linux fails a reconnect after this time.
const RESENT_NS: u64 = 30_000_000_000;

/// The outcome of a command's arrival.
#[derive(Debug)]
pub(crate) enum Arrived<D: Driver> {
    /// The command is an Output Mark, which was noted.
    Marked,
    /// The command was carried out, and reads nothing.
    Done(Class),
    /// The command was executed, with its read data.
    Read(Class, TxData<Buffer<D>>),
    /// The command cannot be carried out on the spot.
    Accepted(Command<D>),
    /// There is no room: the command must be sent again later, as the status says.
    Later(Status),
}

/// The decision about a command that has arrived while others wait.
enum Verdict {
    /// The command waits for its turn.
    InTurn,
    /// The command is charged to the limits of its session, and does not wait for them.
    PastLimits,
    /// The host must send the command again later, as the status says.
    Later(Status),
}

/// The room of an I/O queue that takes commands as they arrive.
#[derive(Debug)]
pub(crate) struct Arrival {
    controller: Arc<ControllerShared>,
    table: Arc<NamespaceTable>,
    table_version: u64,
    /// Origin of the connection, from which the host's class follows.
    origin: Origin,
    /// Identifier of the queue in its controller.
    qid: u16,
    /// The highest class that the host's commands may have.
    most: Class,
    /// Statistics of the queue.
    stats: Arc<IoStats>,
    /// The queue, as its host orders it by weights of its own; `None`: the host has none.
    weighted: Option<WeightedQueue>,
    flows: FlowCache,
    pub(crate) admission: Admission,
    /// Number of commands that the host may still resend after a reconnect.
    resent_left: u16,
    pub(crate) tally: Tally,
    /// Workloads of the commands that were taken.
    pub(crate) workloads: Workloads,
}

impl Arrival {
    /// Makes the arrival of commands for these namespaces of a controller, on its queue `qid`, on
    /// which the host may resend `resent` commands.
    pub(crate) fn new(
        controller: Arc<ControllerShared>,
        table: Arc<NamespaceTable>,
        origin: Origin,
        (qid, resent): (u16, u16),
        stats: Arc<IoStats>,
    ) -> Self {
        let weighted = origin.weighted.then(|| WeightedQueue {
            qid,
            priority: Class::of_connect(origin.priority),
            weights: Arc::clone(&controller.weights),
        });
        Self {
            qid,
            most: controller.max_class(),
            controller,
            table,
            stats,
            // Versions begin with 1: the first refresh takes the present table, since Connect's
            // table may have been replaced meanwhile.
            table_version: 0,
            origin,
            weighted,
            flows: FlowCache::default(),
            admission: Admission::default(),
            resent_left: resent,
            tally: Tally::default(),
            workloads: Workloads::default(),
        }
    }

    /// Returns the controller and the number of the queue.
    pub(crate) fn queue(&self) -> (&Arc<ControllerShared>, u16) {
        (&self.controller, self.qid)
    }

    /// Refreshes the table of namespaces and the host's rights if they have changed, and notes a sign of life for
    /// the keep-alive timer. Returns whether the class of the host's traffic may have changed.
    #[inline]
    pub(crate) fn refresh<D: Driver>(&mut self, io: &mut Context<D>) -> bool {
        self.controller.note_traffic();
        let version = self.controller.table_version.load(Ordering::Acquire);
        version != self.table_version && self.look_again(io, version)
    }

    #[cold]
    fn look_again<D: Driver>(&mut self, io: &mut Context<D>, version: u64) -> bool {
        self.table_version = version;
        self.table = io.driver.service(|service| service.namespaces(self.controller.id));
        let most = self.controller.max_class();
        let other = std::mem::replace(&mut self.most, most) != most;
        if other {
            // Commands that wait are charged again, by their new class.
            self.flows.clear(&mut io.stages);
        }
        other
    }

    /// Returns the status of a command whose namespace has no device any more, by the present table.
    pub(crate) fn without_device(&self, now: Nanos, nsid: u32) -> Status {
        match self.table.get(nsid) {
            Some(namespace) => self.controller.unavailable(namespace, now),
            None => Status::INVALID_NAMESPACE.dnr(),
        }
    }

    /// Parses a command, and carries the command out if nothing prevents that; `Err` where it is
    /// refused.
    #[inline]
    pub(crate) fn take<D: Driver>(
        &mut self,
        queue: &Queue<D>,
        io: &mut Context<D>,
        (slot, sqe): (SlotId, &Sqe),
        data: &CapsuleData<'_>,
    ) -> Result<Arrived<D>, Status> {
        if !self.controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        self.admission.arrives(io.now, (slot, sqe), io.settings.retry_delays);
        let namespace = self.table.get(sqe.nsid.get()).ok_or(Status::INVALID_NAMESPACE.dnr())?;
        let backend = namespace.backend;
        if io.devices.get(backend).is_none() && !io.fetch_device(backend) {
            return Err(self.controller.unavailable(namespace, io.now));
        }
        if sqe.opcode == OUTPUT_MARK {
            self.output_mark(io, sqe, backend);
            return Ok(Arrived::Marked);
        }
        let format = namespace.geometry.format;
        let command = IoCommand::parse(sqe, &limits(namespace, &io.settings))?;
        let transfer = command.transfer(format);
        if let Transfer::ToController(_) | Transfer::ToHost(_) = transfer {
            queue.transport.check_place(sqe, &transfer, data)?;
        }
        let place = self.flow(io, sqe.nsid.get(), backend);
        let charge = self.charge(io, place, sqe);
        if charge.class == Class::Urgent {
            io.urgent_at = Some(io.now);
        }
        if let Some(asked) = self.flows.lowered(place, sqe) {
            self.stats.lower(asked);
        }
        let device = io.devices.get(backend).ok_or(Status::INTERNAL_ERROR)?;
        if let Style::Immediate(immediate) = device.style()
            && charge.flow.is_none_or(|flow| io.stages.arbiter.is_plain(flow))
            && !matches!(command, IoCommand::DatasetManagement { .. })
            && !is_large(&command, format, &device.style(), io.settings.slice)
        {
            let Charge { class, account, workload, .. } = charge;
            let of = Counted { device: backend, class, account, workload };
            let (now, tally, agenda) = (io.now, &mut self.tally, &mut io.agenda);
            io.turns.work(OnTheSpot::of(&command, format));
            let mut count = |status| {
                if tally.count(of, now, &command, format, status) {
                    agenda.to_record.push(queue.key);
                }
            };
            match (transfer, data) {
                (Transfer::ToController(length), CapsuleData::Whole(bytes)) => {
                    // A capsule may hold more than its command takes.
                    let bytes = bytes.get(..length as usize).unwrap_or(bytes);
                    let status = immediate.run(&command, Data::Write(bytes));
                    count(status);
                    return done(charge.class, status);
                }
                (Transfer::None, _) => {
                    let status = immediate.run(&command, Data::None);
                    count(status);
                    return done(charge.class, status);
                }
                (Transfer::ToHost(bytes), _)
                    if immediate.reads_zeroes() && bytes as usize <= ZEROES =>
                {
                    count(Status::SUCCESS);
                    return Ok(Arrived::Read(charge.class, TxData::Zeroes(bytes as usize)));
                }
                (Transfer::ToHost(bytes), _) => {
                    let lease = io.stages.lease_read(&charge, bytes, io.buffers.not_for_reads());
                    if lease.is_some()
                        && let from = (&io.driver, io.buffers.held())
                        && let Some(blocks) = hold(from, queue.key, immediate, &command)
                    {
                        count(Status::SUCCESS);
                        let data = TxData::Held(Leased::new(blocks, lease));
                        return Ok(Arrived::Read(charge.class, data));
                    }
                    if let Some(lease) = lease
                        && let Some(mut buffer) = io.buffers.for_read(bytes as usize)
                    {
                        let status = immediate.run(&command, Data::Read(&mut buffer));
                        count(status);
                        if !status.is_success() {
                            return Err(status);
                        }
                        return Ok(Arrived::Read(
                            charge.class,
                            TxData::Buffer(Leased::new(buffer, Some(lease))),
                        ));
                    }
                }
                _ => {}
            }
        }
        let device = Arc::clone(device);
        if command == IoCommand::Flush
            && self.flows.at(place).is_some_and(|entry| entry.flush_is_output)
            && let Some(flow) = charge.flow
        {
            io.stages.arbiter.output(io.now, flow, charge.class);
        }
        let mut past_limits =
            self.resent_left > 0 && self.charge_resent(io, &charge, &command, format);
        if !past_limits && (io.stages.waits() || self.admission.knows(slot)) {
            match self.admit(io, (slot, sqe), &charge, Amount::new(&command, format)) {
                Verdict::InTurn => {}
                Verdict::PastLimits => past_limits = true,
                Verdict::Later(status) => return Ok(Arrived::Later(status)),
            }
        }
        Ok(Arrived::Accepted(Command {
            command,
            device,
            sent: queue.input.arrived,
            arrived: io.now,
            charge,
            past_limits,
            announced: None,
        }))
    }

    /// Returns the time of the reconnect after which the host may still resend commands.
    #[cold]
    fn may_resend(&mut self, now: Nanos) -> Option<Nanos> {
        let since = self.controller.resends_since();
        let since = since.filter(|since| now.ns_since(*since) <= RESENT_NS);
        if since.is_none() {
            self.resent_left = 0;
        }
        since
    }

    /// Charges a command that may be resent to the limits of its session. Returns whether the command bypasses
    /// them. A host without ACRE does not support a delay for the debt, and its queues are short enough to wait for
    /// the limits.
    #[cold]
    fn charge_resent<D: Driver>(
        &mut self,
        io: &Context<D>,
        charge: &Charge,
        command: &IoCommand,
        format: BlockFormat,
    ) -> bool {
        let Some(since) = self.may_resend(io.now) else { return false };
        self.resent_left = self.resent_left.saturating_sub(1);
        let host = host_id(&self.controller.host_nqn);
        let reconnect = Reconnect { host, controller: self.controller.id.0, since };
        // As in its own turn, a command that moves no data does not count for its length.
        let (bytes, has_data) = bytes_at_device(command, format);
        let bytes = if has_data { bytes } else { 0 };
        let session = charge.flow.and_then(|flow| io.stages.arbiter.session_of(flow));
        self.has_acre()
            && session.is_some_and(|s| {
                s.charge_resent(io.now, reconnect, command.changes_blocks(), bytes.into())
            })
    }

    /// Carries out an Output Mark.
    #[cold]
    fn output_mark<D: Driver>(&mut self, io: &mut Context<D>, sqe: &Sqe, backend: BackendId) {
        let place = self.flow(io, sqe.nsid.get(), backend);
        let charge = self.flows.charge(io.now, place, sqe);
        if let Some(flow) = charge.flow {
            io.stages.arbiter.output(io.now, flow, charge.class);
        }
    }

    /// Answers a command that has just arrived and needs nothing of its device: in the turn that it
    /// costs, where its session has limits, and after the data that is still on its way.
    #[cold]
    pub(crate) fn answer_in_turn<D: Driver>(
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
            Some(entry) => queue.commands.occupy(slot, State::AnswerTurn(entry, status, io.now)),
            None => queue.transport.complete(slot, 0, status),
        }
    }

    /// Answers a command whose state was taken, as [`Self::answer_in_turn`] does.
    #[cold]
    pub(crate) fn settle_in_turn<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        status: Status,
    ) {
        let sqe = *queue.transport.sqe_of(slot);
        match self.wait_to_answer(io, (queue.key, slot), &sqe) {
            Some(entry) => {
                queue.commands.change(io.now, slot, State::AnswerTurn(entry, status, io.now));
                queue.watch_turn(io, slot, entry);
            }
            None => queue.settle(io, slot, status),
        }
    }

    /// Queues a command for the turn in which it is answered. Returns `None` if it is answered at once.
    fn wait_to_answer<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        item: (Key, SlotId),
        sqe: &Sqe,
    ) -> Option<EntryId> {
        let charge = self.charge_answer(io, sqe)?;
        let submission = Submission::of_host(item, false, 0);
        io.stages.arbiter.enqueue(io.now, charge.flow?, charge.class, submission)
    }

    /// Returns the charge of a command that is answered without its device, where its session has
    /// limits: to the namespace that it names, or to another one where there is none.
    #[cold]
    fn charge_answer<D: Driver>(&mut self, io: &mut Context<D>, sqe: &Sqe) -> Option<Charge> {
        let named = self.table.get(sqe.nsid.get());
        let (nsid, backend) = named
            .or_else(|| self.table.iter().next())
            .map(|namespace| (namespace.nsid, namespace.backend))?;
        if io.devices.get(backend).is_none() && !io.fetch_device(backend) {
            return None;
        }
        let place = self.flow(io, nsid, backend);
        let charge = self.flows.charge(io.now, place, sqe);
        let limited = charge.flow.is_some_and(|flow| !io.stages.arbiter.is_plain(flow));
        limited.then_some(charge)
    }

    /// Finds a namespace's place in the flow cache, and makes the place where there is none or
    /// where settings have changed.
    #[inline]
    fn flow<D: Driver>(&mut self, io: &mut Context<D>, nsid: u32, backend: BackendId) -> usize {
        self.flows.refresh(&mut io.stages, io.flows_version);
        match self.flows.find(nsid, backend) {
            Some(place) => place,
            None => self.make_flow(io, nsid, backend),
        }
    }

    #[cold]
    fn make_flow<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        nsid: u32,
        backend: BackendId,
    ) -> usize {
        let (host, subsystem) = (&self.controller.host_nqn, &self.controller.subsystem_nqn);
        let resolved = io.driver.resolve(&io.policies, &self.origin, host, subsystem, Some(nsid));
        let host = host_id(host);
        let (stages, session) = (&mut io.stages, &resolved.tenant.session);
        let device = device_id(backend);
        let flow = match &self.weighted {
            _ if !io.policies.enabled() => None,
            Some(queue) => stages.arbiter.flow_of_queue(device, session, host, queue),
            None => stages.arbiter.flow(device, session, host),
        };
        let entry = NamespaceFlow {
            nsid,
            host,
            backend,
            classifier: Classifier::new(
                &io.policies.connection_class(&self.origin),
                resolved.class.at_most(self.most),
            ),
            account: stages.accounts.open(&resolved.tenant),
            flow,
            fetch: stages.gate.flow(session, host),
            read: stages.reads.gate().flow(session, host),
            flush_is_output: resolved.flush_is_output,
            workloads: PerClass::default(),
        };
        self.flows.put(stages, entry)
    }

    /// Returns the charge of a command of the entry at a place, and makes its workload where there is
    /// none yet.
    #[inline]
    fn charge<D: Driver>(&mut self, io: &mut Context<D>, place: usize, sqe: &Sqe) -> Charge {
        let mut charge = self.flows.charge(io.now, place, sqe);
        if charge.workload.is_none() {
            charge.workload = self.make_workload(io, place, charge.class);
        }
        charge
    }

    #[cold]
    fn make_workload<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        place: usize,
        class: Class,
    ) -> Option<WorkloadId> {
        let nsid = self.flows.at(place)?.nsid;
        let ControllerShared { host_nqn, subsystem_nqn, .. } = &*self.controller;
        let id = self.workloads.open(nsid, class, || {
            io.driver.workload_stats(io.now, host_nqn, subsystem_nqn, (nsid, class))
        });
        self.flows.set_workload(place, class, id);
        Some(id)
    }

    /// Charges a command that has waited by what holds now, if settings have changed since.
    #[inline]
    pub(crate) fn charge_again<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        queue: &mut Queue<D>,
        slot: SlotId,
    ) {
        self.flows.refresh(&mut io.stages, io.flows_version);
        let charge = queue.commands.charge(slot);
        if self.flows.is_current(&charge) {
            return;
        }
        let Some(backend) = charge.backend else { return };
        let sqe = *queue.transport.sqe_of(slot);
        let place = self.flow(io, sqe.nsid.get(), backend);
        let charge = self.charge(io, place, &sqe);
        queue.commands.set_charge(slot, charge);
    }

    /// Releases the queues in which the host's commands wait.
    pub(crate) fn leave<D: Driver>(&mut self, io: &mut Context<D>) {
        self.flows.clear(&mut io.stages);
        self.admission.leave();
    }

    /// Returns whether the host must not be read from: a backlog of its sessions is full, and it has nothing to
    /// resend after a reconnect.
    #[cold]
    pub(crate) fn holds_back<D: Driver>(&mut self, io: &Context<D>) -> bool {
        if self.resent_left > 0 && self.may_resend(io.now).is_some() {
            return false;
        }
        let fullness = if !self.flows.is_full(&io.stages) {
            Fullness::Room
        } else if self.flows.is_over(&io.stages) {
            Fullness::Over
        } else {
            Fullness::Full
        };
        self.admission.holds_back(io.now, fullness, self.has_acre())
    }

    /// Decides about a command that has arrived. A command whose host would fail it rather than send it once more does
    /// not wait for limits.
    #[cold]
    fn admit<D: Driver>(
        &mut self,
        io: &Context<D>,
        (slot, sqe): (SlotId, &Sqe),
        charge: &Charge,
        amount: Amount,
    ) -> Verdict {
        let Amount { write, bytes } = amount;
        let session = charge.flow.and_then(|flow| io.stages.arbiter.session_of(flow));
        let Some(session) = session else { return Verdict::InTurn };
        if self.admission.has_returned(slot) {
            let is_last_try = self.admission.is_last_try(slot);
            let charged = is_last_try && session.charge_last_try(io.now, write, bytes.into());
            return if charged { Verdict::PastLimits } else { Verdict::InTurn };
        }
        let is_full = session.backlog.is_full() && self.admission.was_patient(io.now);
        let is_late = waits_too_long(session, io.now, write);
        if !self.has_acre() || !(is_full || is_late) {
            return Verdict::InTurn;
        }
        if is_late {
            let limited = Some(SentBack::new(session, amount));
            return match self.admission.note_sent_back(io.now, slot, sqe, limited) {
                true => Verdict::Later(send_back(io, session, charge.class, amount)),
                false => Verdict::InTurn,
            };
        }
        let delay = retry_delay(io.now, session, write, io.settings.retry_delays);
        // A command that would return at once may as well wait here.
        if delay == 0 || !self.admission.note_sent_back(io.now, slot, sqe, None) {
            return Verdict::InTurn;
        }
        // A full queue keeps the limits busy: there is no time to make up for.
        Verdict::Later(refuse(io, session, charge.class, delay))
    }

    /// Returns the status that sends a command back to its host, which has waited for as long as the
    /// target makes commands wait.
    #[cold]
    pub(crate) fn send_back_overdue<D: Driver>(
        &mut self,
        io: &Context<D>,
        (slot, sqe): (SlotId, &Sqe),
        charge: &Charge,
        amount: Amount,
    ) -> Status {
        let session = charge.flow.and_then(|flow| io.stages.arbiter.session_of(flow));
        let limited = session.map(|session| SentBack::new(session, amount));
        self.admission.note_sent_back(io.now, slot, sqe, limited);
        match session {
            Some(session) => send_back(io, session, charge.class, amount),
            None => Status::COMMAND_INTERRUPTED.with_retry_delay(1),
        }
    }

    /// Returns the status that sends a command back to its host whose answer has waited for as long as
    /// the target makes commands wait. The host retries after CRDT2: the rate at which its answers leave
    /// is the network's. That delay postpones the retries of commands that limits have sent back.
    #[cold]
    pub(crate) fn send_back_answered<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        (slot, sqe): (SlotId, &Sqe),
    ) -> Status {
        const DELAY: u8 = 2;
        self.admission.note_sent_back(io.now, slot, sqe, None);
        let flow = self.charge_answer(io, sqe).and_then(|charge| charge.flow);
        if let Some(session) = flow.and_then(|flow| io.stages.arbiter.session_of(flow)) {
            session.postpone_retries(comes_again_by(io.now, io.settings.retry_delays, DELAY));
        }
        Status::COMMAND_INTERRUPTED.with_retry_delay(DELAY)
    }

    /// Returns whether the host supports Command Retry Delay (Host Behavior Support, ACRE).
    pub(crate) fn has_acre(&self) -> bool {
        self.controller.acre.load(Ordering::Relaxed)
    }
}

/// Counts a command that is refused, and returns its status.
fn refuse<D: Driver>(io: &Context<D>, session: &Session, class: Class, delay: u8) -> Status {
    session.postpone_retries(comes_again_by(io.now, io.settings.retry_delays, delay));
    if let Some(stats) = io.driver.class_stats(class) {
        stats.refuse();
    }
    session.backlog.note_refused();
    Status::COMMAND_INTERRUPTED.with_retry_delay(delay)
}

/// Returns whether a new command would wait longer than the target lets commands wait: behind the backlog, and
/// behind commands that were sent back and keep their turns.
fn waits_too_long(session: &Session, now: Nanos, write: bool) -> bool {
    let sent_back = session.wait_behind_sent_back(now, write);
    sent_back > 0 && sent_back.saturating_add(session.backlog.expected_wait(now)) > WAIT_MAX
}

/// Returns the status of a command that is sent back to its host, and keeps the time for it that its
/// session's limits are unused meanwhile.
fn send_back<D: Driver>(
    io: &Context<D>,
    session: &Session,
    class: Class,
    Amount { write, bytes }: Amount,
) -> Status {
    let delays = io.settings.retry_delays;
    let until = comes_again_by(io.now, delays, 1);
    session.send_back(io.now, write, u64::from(bytes), until);
    // Never at once: Linux would send all commands of the namespace that wait for a retry.
    refuse(io, session, class, retry_delay(io.now, session, write, delays).max(1))
}

/// Returns the number by which stages and devices know a host.
#[must_use]
pub fn host_id(nqn: &str) -> HostId {
    let mut hasher = DefaultHasher::new();
    nqn.hash(&mut hasher);
    HostId(hasher.finish())
}

/// Returns the limits that a command of this namespace is checked against.
#[inline]
fn limits(namespace: &Namespace, settings: &Settings) -> IoLimits {
    IoLimits {
        format: namespace.geometry.format,
        blocks: namespace.geometry.blocks,
        read_only: namespace.features.contains(NamespaceFeatures::READ_ONLY),
        max_transfer: settings.max_transfer,
    }
}

/// Returns the outcome of a command without data for its host; a failure is refused.
#[inline]
fn done<D: Driver>(class: Class, status: Status) -> Result<Arrived<D>, Status> {
    if status.is_success() { Ok(Arrived::Done(class)) } else { Err(status) }
}
