//! Connect, the admin queue, and the Fabrics commands of I/O queues: the reactor brings the host's
//! data to the service, and the service's answer to the host.

use fabric::controller::{Connected, DeferredCommands, ListenerId, Rejected, Reply, SmartCounters};
use fabric::fabrics::ConnectCommand;
use fabric::nvm::Transfer;
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::{CapsuleData, SlotId, Transport as _};

use super::commands::State;
use super::state::Queue;
use crate::machine::driver::{Driver, Notice};
use crate::memory::admin_data::{AddressData, AdminBuffer};
use crate::memory::payload::{TxData, ZEROES};
use crate::reactor::context::Context;

/// The most data that an admin command may bring, in bytes.
const DATA_MAX: u32 = 4096;
/// Zeroes at the end of an answer that are worth parts of their own, in bytes.
const ZEROES_MIN: usize = 4096;

/// Completes a command and returns its data. Log pages are as long as a host asks for, and nearly all
/// of them zeroes behind the log's end: these take no memory while the host does not read.
fn return_data<D: Driver>(queue: &mut Queue<D>, slot: SlotId, mut data: Vec<u8>, result: u64) {
    let length = data.len();
    let content = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let content = content.next_multiple_of(4).min(length);
    if result != 0 || length - content < ZEROES_MIN {
        queue.transport.complete_with_data(slot, TxData::Bytes(data), result);
        return;
    }
    let mut offset = 0;
    if content > 0 {
        data.truncate(content);
        data.shrink_to_fit();
        queue.transport.send_data(slot, TxData::Bytes(data), 0, false);
        offset = content;
    }
    while offset < length {
        let part = (length - offset).min(ZEROES);
        let at = u32::try_from(offset).unwrap_or(u32::MAX);
        queue.transport.send_data(slot, TxData::Zeroes(part), at, offset + part == length);
        offset += part;
    }
}

/// Returns what data a command moves: bits 1:0 of its opcode, or of a fabrics command's type, name
/// the direction (NVMe base specification 2.0, sections 3.3.2.1 and 6).
fn transfer(sqe: &Sqe) -> Transfer {
    let kind = match sqe.opcode {
        opcode::FABRICS => sqe.nsid.get().to_le_bytes()[0],
        other => other,
    };
    match (kind & 0b11, sqe.sgl.data_length()) {
        (0b01, length @ 1..) => Transfer::ToController(length),
        (0b10, length @ 1..) => Transfer::ToHost(length),
        _ => Transfer::None,
    }
}

/// Checks the description of a command's data: it must be an SGL descriptor (PSDT 01b) of a kind that the transport
/// supports, and agree with the data in the capsule.
fn check_data<D: Driver>(
    queue: &Queue<D>,
    sqe: &Sqe,
    transfer: &Transfer,
    data: &CapsuleData<'_>,
) -> Result<(), Status> {
    if matches!(transfer, Transfer::None) {
        return Ok(());
    }
    if sqe.psdt() != Sqe::SGL {
        return Err(Status::INVALID_FIELD.dnr());
    }
    queue.transport.check_place(sqe, transfer, data)
}

/// The kind of queue whose commands an [`AdminQueue`] passes to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A connection that has not sent its Connect.
    Waiting,
    /// The admin queue of a controller.
    Admin,
    /// An I/O queue: its Fabrics commands.
    Io,
}

/// An admin queue; a queue before its Connect; or the part of an I/O queue for its Fabrics commands.
#[derive(Debug)]
pub(crate) struct AdminQueue {
    /// The listener that accepted the connection.
    listener: ListenerId,
    role: Role,
    /// Number of commands whose data is arriving.
    collecting: u32,
    /// Memory for the data of commands of all admin queues of its host's address.
    memory: AddressData,
    /// Commands that the service answers later.
    deferred: DeferredCommands<SlotId>,
}

/// A Connect that was accepted: the slot of its command, and the kind of queue that it made.
pub(crate) type Accepted = Option<(SlotId, Connected)>;

impl AdminQueue {
    /// Makes a queue before Connect.
    pub(crate) fn new(listener: ListenerId, memory: AddressData) -> Self {
        let deferred = DeferredCommands::default();
        Self { listener, role: Role::Waiting, collecting: 0, memory, deferred }
    }

    /// Makes it the admin queue of a controller.
    pub(crate) fn connect(&mut self) {
        self.role = Role::Admin;
    }

    /// Moves out the state that an I/O queue needs for its Fabrics commands.
    pub(crate) fn for_io_queue(&mut self) -> Self {
        let deferred = std::mem::take(&mut self.deferred);
        Self {
            listener: self.listener,
            role: Role::Io,
            collecting: 0,
            memory: self.memory.share(),
            deferred,
        }
    }

    /// Returns whether the queue is the admin queue of a controller.
    pub(crate) fn is_connected(&self) -> bool {
        self.role == Role::Admin
    }

    /// Carries out a command that has arrived. Returns a Connect that was accepted, for the caller
    /// to complete.
    #[cold]
    pub(crate) fn command<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: CapsuleData<'_>,
    ) -> Accepted {
        self.replace_event_request(queue, io, sqe.cid.get());
        let transfer = transfer(sqe);
        if let Err(status) = check_data(queue, sqe, &transfer, &data) {
            queue.refuse(slot, status, &data);
            return None;
        }
        let length = match transfer {
            Transfer::ToController(length) => length,
            Transfer::ToHost(_) | Transfer::None => 0,
        };
        let too_much = length > DATA_MAX;
        match data {
            CapsuleData::Partial { .. } => {
                let state = if too_much {
                    State::Failing(Status::INVALID_FIELD.dnr())
                } else if let Some(state) = self.collect(length) {
                    state
                } else {
                    State::Failing(Status::COMMAND_INTERRUPTED)
                };
                queue.commands.occupy(slot, state);
                queue.commands.expect_data(io.now, slot, true);
            }
            _ if too_much => queue.transport.complete(slot, 0, Status::INVALID_FIELD.dnr()),
            CapsuleData::Whole(bytes) => match bytes.get(..length as usize) {
                Some(bytes) => return self.execute(queue, io, slot, sqe, bytes),
                None => queue.transport.complete(slot, 0, Status::DATA_SGL_LENGTH_INVALID.dnr()),
            },
            CapsuleData::None if length > 0 => match self.collect(length) {
                Some(state) => {
                    queue.commands.occupy(slot, state);
                    queue.commands.expect_data(io.now, slot, true);
                    queue.progress.hear(io.now);
                    queue.transport.fetch(slot, length);
                }
                None => queue.transport.complete(slot, 0, Status::COMMAND_INTERRUPTED),
            },
            CapsuleData::None => return self.execute(queue, io, slot, sqe, &[]),
        }
        None
    }

    /// Allocates memory for a command's data; `None` while the address owes the data of too many commands. One
    /// command of each queue always gets memory.
    fn collect<D: Driver>(&mut self, length: u32) -> Option<State<D>> {
        let buffer = match self.collecting {
            0 => AdminBuffer::uncounted(length),
            _ => self.memory.take(length)?,
        };
        self.collecting += 1;
        Some(State::Collecting(buffer))
    }

    /// Carries out a command all of whose data is here. Returns a Connect that was accepted, for
    /// the caller to complete.
    pub(crate) fn data_end<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        digest_ok: bool,
    ) -> Accepted {
        let (state, _) = queue.commands.release(slot);
        if matches!(state, State::Collecting(_)) {
            self.collecting = self.collecting.saturating_sub(1);
        }
        match state {
            State::Collecting(data) if digest_ok => {
                let sqe = *queue.transport.sqe_of(slot);
                return self.execute(queue, io, slot, &sqe, &data);
            }
            State::Failing(status) => queue.transport.complete(slot, 0, status),
            _ => queue.transport.complete(slot, 0, Status::TRANSIENT_TRANSPORT_ERROR),
        }
        None
    }

    fn execute<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: &[u8],
    ) -> Accepted {
        if self.role != Role::Waiting {
            self.admin(queue, io, slot, sqe, data);
            return None;
        }
        // The first command of a connection must be Connect.
        let (now, id, listener) = (io.now, queue.id, self.listener);
        let command = ConnectCommand::from(sqe);
        let agrees = match command.is_connect() {
            true => queue.transport.check_connect(&command),
            false => Ok(()),
        };
        let connected = match agrees {
            Ok(()) => io.driver.service(|service| service.connect(now, id, listener, sqe, data)),
            Err(field) => Err(Rejected::by_transport(field)),
        };
        match connected {
            Ok(connected) => Some((slot, connected)),
            Err(Rejected { status, result, reason }) => {
                io.driver.notice(queue.key, Notice::Refused { data, reason });
                queue.transport.complete(slot, result, status);
                None
            }
        }
    }

    fn admin<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: &[u8],
    ) {
        let mut out = Vec::new();
        // SMART / Health Information is log page 02h; nothing else needs the counters.
        let health = sqe.opcode == opcode::admin::GET_LOG_PAGE && sqe.cdw10.get() & 0xff == 2;
        let (now, id, role) = (io.now, queue.id, self.role);
        let smart = if health {
            let devices = io.driver.service(|service| service.devices_seen(id));
            io.driver.smart(&devices)
        } else {
            SmartCounters::default()
        };
        let reply = io.driver.service(|service| match role {
            Role::Io => service.fabrics_on_io_queue(now, id, sqe, data, &mut out),
            Role::Waiting | Role::Admin => service.admin(now, id, sqe, data, &smart, &mut out),
        });
        match reply {
            Reply::Done { result, status } if status.is_success() && !out.is_empty() => {
                out.truncate(sqe.sgl.data_length() as usize);
                return_data(queue, slot, out, result);
            }
            Reply::Done { result, status } => queue.transport.complete(slot, result, status),
            Reply::Deferred => {
                let event_request = sqe.opcode == opcode::admin::ASYNC_EVENT_REQUEST;
                self.deferred.deferred(sqe.cid.get(), event_request, slot);
                queue.commands.occupy(slot, State::Deferred);
            }
        }
    }

    /// Completes a command that the service had deferred.
    pub(crate) fn complete_deferred<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        cid: u16,
        result: u64,
        status: Status,
    ) {
        let Some(slot) = self.deferred.completed(cid) else { return };
        queue.commands.release(slot);
        queue.transport.complete(slot, result, status);
        queue.send_soon(&mut io.agenda);
    }

    /// Forgets the event request that has the identifier of a command that has arrived.
    fn replace_event_request<D: Driver>(
        &mut self,
        queue: &mut Queue<D>,
        io: &mut Context<D>,
        cid: u16,
    ) {
        let id = queue.id;
        let withdraw = || io.driver.service(|service| service.withdraw_event_request(id, cid));
        if let Some(slot) = self.deferred.arrived(cid, withdraw) {
            queue.commands.release(slot);
            queue.transport.withdraw(slot);
        }
    }
}
