//! Connect, and the admin queue: what the reactor does is to bring the host's data to the
//! service and the service's answer to the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::controller::{Connected, QueueKind, Rejected, Reply, SmartCounters};
use fabric::nvme::{SglKind, Sqe, Status, opcode};
use fabric::queue::{CapsuleData, SlotId, Transport as _};

use crate::commands::State;
use crate::connection::{Connection, Stage};
use crate::context::Context;
use crate::driver::{Driver, Notice};
use crate::io_queue::IoQueue;
use crate::payload::TxData;

/// The most data that an admin command may bring, in bytes.
const DATA_MAX: u32 = 4096;
/// Commands of one admin queue whose data may arrive at one time: 512 KiB.
const COLLECTING_MAX: u32 = 128;
/// In-capsule data of an admin queue in bytes (NVMe/TCP transport specification, 3.3.1.1).
const ADMIN_CAPSULE_DATA: u32 = 8192;

/// The host-to-controller data of a Fabrics or admin command in bytes: the length of the SGL
/// descriptor, where the opcode (or the Fabrics command type) says that data goes this way.
fn data_length(sqe: &Sqe) -> u32 {
    let kind = match sqe.opcode {
        opcode::FABRICS => sqe.nsid.get().to_le_bytes()[0],
        other => other,
    };
    if kind & 0b11 == 0b01 { sqe.sgl.length.get() } else { 0 }
}

impl<D: Driver> Connection<D> {
    /// A command on a queue that is not an I/O queue has arrived.
    #[cold]
    pub(crate) fn admin_command(
        &mut self,
        io: &mut Context<D>,
        slot: SlotId,
        sqe: &Sqe,
        data: CapsuleData<'_>,
    ) {
        self.replace_event_request(io, sqe.cid.get());
        let length = data_length(sqe);
        let too_much = length > DATA_MAX;
        match (sqe.sgl.decode(), data) {
            (_, CapsuleData::Partial { length: arriving }) => {
                let state = if too_much || arriving < length {
                    State::Failing(Status::DATA_SGL_LENGTH_INVALID.dnr())
                } else if let Some(state) = self.collect(length) {
                    state
                } else {
                    State::Failing(Status::COMMAND_INTERRUPTED)
                };
                self.commands.occupy(slot, state);
            }
            _ if too_much => self.protocol.complete(slot, 0, Status::INVALID_FIELD.dnr()),
            (_, CapsuleData::Whole(bytes)) => match bytes.get(..length as usize) {
                Some(bytes) => self.admin_execute(io, slot, sqe, bytes),
                None => self.protocol.complete(slot, 0, Status::DATA_SGL_LENGTH_INVALID.dnr()),
            },
            (SglKind::Transport, CapsuleData::None) if length > 0 => {
                let Some(state) = self.collect(length) else {
                    self.protocol.complete(slot, 0, Status::COMMAND_INTERRUPTED);
                    return;
                };
                self.commands.occupy(slot, state);
                self.protocol.fetch(slot, length);
            }
            (_, CapsuleData::None) if length > 0 => {
                self.protocol.complete(slot, 0, Status::SGL_TYPE_INVALID.dnr());
            }
            (_, CapsuleData::None) => self.admin_execute(io, slot, sqe, &[]),
        }
    }

    /// Room for an admin command's data; none where the data of too many is on its way.
    fn collect(&mut self, length: u32) -> Option<State<D>> {
        if self.collecting >= COLLECTING_MAX {
            return None;
        }
        self.collecting += 1;
        Some(State::Collecting(vec![0; length as usize]))
    }

    /// All of an admin command's data is here.
    pub(crate) fn admin_data_end(&mut self, io: &mut Context<D>, slot: SlotId, digest_ok: bool) {
        let (state, _) = self.commands.release(slot);
        if matches!(state, State::Collecting(_)) {
            self.collecting = self.collecting.saturating_sub(1);
        }
        match state {
            State::Collecting(data) if digest_ok => {
                let sqe = *self.protocol.sqe_of(slot);
                self.admin_execute(io, slot, &sqe, &data);
            }
            State::Failing(status) => self.protocol.complete(slot, 0, status),
            _ => self.protocol.complete(slot, 0, Status::TRANSIENT_TRANSPORT_ERROR),
        }
    }

    fn admin_execute(&mut self, io: &mut Context<D>, slot: SlotId, sqe: &Sqe, data: &[u8]) {
        if matches!(self.stage, Stage::New) {
            self.connect(io, slot, sqe, data);
            return;
        }
        let mut out = Vec::new();
        // SMART / Health Information is log page 02h; nothing else needs the counters.
        let health = sqe.opcode == opcode::admin::GET_LOG_PAGE && sqe.cdw10.get() & 0xff == 2;
        let smart = if health { io.driver.smart() } else { SmartCounters::default() };
        let now = io.now;
        let reply =
            io.driver.service(|service| service.admin(now, self.id, sqe, data, &smart, &mut out));
        match reply {
            Reply::Done { result, status } if status.is_success() && !out.is_empty() => {
                out.truncate(sqe.sgl.length.get() as usize);
                self.protocol.complete_with_data(slot, TxData::Bytes(out), result);
            }
            Reply::Done { result, status } => self.protocol.complete(slot, result, status),
            Reply::Deferred => {
                let event_request = sqe.opcode == opcode::admin::ASYNC_EVENT_REQUEST;
                self.deferred.deferred(sqe.cid.get(), event_request, slot);
                self.commands.occupy(slot, State::Deferred);
            }
        }
    }

    /// A Fabrics command on an I/O queue (Disconnect).
    #[cold]
    pub(crate) fn fabrics_on_io_queue(&mut self, io: &mut Context<D>, slot: SlotId, sqe: &Sqe) {
        let now = io.now;
        let reply = io.driver.service(|service| service.fabrics_on_io_queue(now, self.id, sqe));
        match reply {
            Reply::Done { result, status } => self.protocol.complete(slot, result, status),
            Reply::Deferred => self.protocol.complete(slot, 0, Status::INTERNAL_ERROR),
        }
    }

    /// The first command of a connection, which must be Connect.
    fn connect(&mut self, io: &mut Context<D>, slot: SlotId, sqe: &Sqe, data: &[u8]) {
        let now = io.now;
        let answer = io
            .driver
            .service(|service| service.connect(now, self.id, self.origin.listener, sqe, data));
        match answer {
            Ok(connected) => self.connected(io, slot, connected),
            Err(Rejected { status, result, reason }) => {
                io.driver.notice(self.key, Notice::Refused { data, reason });
                self.protocol.complete(slot, result, status);
            }
        }
    }

    fn connected(&mut self, io: &mut Context<D>, slot: SlotId, connected: Connected) {
        let is_io = matches!(connected.kind, QueueKind::Io);
        let in_capsule = if is_io { io.settings.in_capsule_data } else { ADMIN_CAPSULE_DATA };
        self.protocol.set_queue(connected.entries, connected.sq_flow_control, in_capsule);
        let shared = connected.shared;
        let digests = self.protocol.digests();
        let (kind, qid) = (connected.kind, connected.qid);
        io.driver.notice(self.key, Notice::Connected { kind, qid, shared: &shared, digests });
        self.origin.priority = connected.priority_class;
        self.origin.weighted = shared.wrr.load(Ordering::Relaxed);
        self.stage = if is_io {
            Stage::Io(IoQueue::new(Arc::clone(&shared), connected.qid, connected.namespaces))
        } else {
            Stage::Admin
        };
        shared.note_traffic();
        self.mark_answers(io);
        self.join_network(io);
        self.protocol.complete(slot, connected.result, Status::SUCCESS);
    }

    /// Completes a command that the service had deferred.
    pub(crate) fn complete_deferred(
        &mut self,
        io: &mut Context<D>,
        cid: u16,
        result: u64,
        status: Status,
    ) {
        let Some(slot) = self.deferred.completed(cid) else { return };
        self.commands.release(slot);
        self.protocol.complete(slot, result, status);
        self.mark_dirty(io);
    }

    /// A command has arrived: an event request with its identifier is forgotten.
    fn replace_event_request(&mut self, io: &mut Context<D>, cid: u16) {
        let withdraw = || io.driver.service(|service| service.withdraw_event_request(self.id, cid));
        if let Some(slot) = self.deferred.arrived(cid, withdraw) {
            self.commands.release(slot);
            self.protocol.withdraw(slot);
        }
    }
}
