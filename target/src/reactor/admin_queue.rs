//! Connect, and the admin queue: what the reactor does is to bring the host's data to the
//! service and the service's answer to the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::controller::{
    Connected, ControllerShared, QueueKind, Refusal, Rejected, Reply, SmartCounters,
};
use fabric::fabrics::{ConnectData, nqn_field};
use fabric::nvme::{SglKind, Sqe, Status, opcode};
use fabric::tcp::{CapsuleData, SlotId};
use zerocopy::FromBytes;

use super::Io;
use super::connection::{Connection, Stage};
use super::io_queue::IoQueue;
use super::payload::TxData;
use super::slots::{Phase, Slot};
use crate::hosts::Host;
use crate::shared::lock;
use crate::socket;

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

impl Connection {
    /// A command on a queue that is not an I/O queue has arrived.
    #[cold]
    pub(super) fn admin_command(
        &mut self,
        io: &mut Io,
        slot: SlotId,
        sqe: &Sqe,
        data: CapsuleData<'_>,
    ) {
        self.replace_event_request(io, sqe.cid.get());
        let length = data_length(sqe);
        let too_much = length > DATA_MAX;
        match (sqe.sgl.decode(), data) {
            (_, CapsuleData::Partial { length: arriving }) => {
                let phase = if too_much || arriving < length {
                    Phase::Failing(Status::DATA_SGL_LENGTH_INVALID.dnr())
                } else if let Some(phase) = self.collect(length) {
                    phase
                } else {
                    Phase::Failing(Status::COMMAND_INTERRUPTED)
                };
                self.slots.occupy(slot, Slot { phase, ..Slot::default() });
            }
            _ if too_much => self.protocol.complete(slot, 0, Status::INVALID_FIELD.dnr()),
            (_, CapsuleData::Whole(bytes)) => match bytes.get(..length as usize) {
                Some(bytes) => self.admin_execute(io, slot, sqe, bytes),
                None => self.protocol.complete(slot, 0, Status::DATA_SGL_LENGTH_INVALID.dnr()),
            },
            (SglKind::Transport, CapsuleData::None) if length > 0 => {
                let Some(phase) = self.collect(length) else {
                    self.protocol.complete(slot, 0, Status::COMMAND_INTERRUPTED);
                    return;
                };
                self.slots.occupy(slot, Slot { phase, ..Slot::default() });
                self.protocol.request_data(slot, length);
            }
            (_, CapsuleData::None) if length > 0 => {
                self.protocol.complete(slot, 0, Status::SGL_TYPE_INVALID.dnr());
            }
            (_, CapsuleData::None) => self.admin_execute(io, slot, sqe, &[]),
        }
    }

    /// Room for an admin command's data; none where the data of too many is on its way.
    fn collect(&mut self, length: u32) -> Option<Phase> {
        if self.collecting >= COLLECTING_MAX {
            return None;
        }
        self.collecting += 1;
        Some(Phase::Collecting(vec![0; length as usize]))
    }

    /// All of an admin command's data is here.
    pub(super) fn admin_data_end(&mut self, io: &mut Io, slot: SlotId, digest_ok: bool) {
        let phase = self.slots.release(slot).phase;
        if matches!(phase, Phase::Collecting(_)) {
            self.collecting = self.collecting.saturating_sub(1);
        }
        match phase {
            Phase::Collecting(data) if digest_ok => {
                let sqe = *self.protocol.sqe_of(slot);
                self.admin_execute(io, slot, &sqe, &data);
            }
            Phase::Failing(status) => self.protocol.complete(slot, 0, status),
            _ => self.protocol.complete(slot, 0, Status::TRANSIENT_TRANSPORT_ERROR),
        }
    }

    fn admin_execute(&mut self, io: &mut Io, slot: SlotId, sqe: &Sqe, data: &[u8]) {
        if matches!(self.stage, Stage::New) {
            self.connect(io, slot, sqe, data);
            return;
        }
        let mut out = Vec::new();
        // SMART / Health Information is log page 02h; nothing else needs the counters.
        let health = sqe.opcode == opcode::admin::GET_LOG_PAGE && sqe.cdw10.get() & 0xff == 2;
        let smart = if health { io.shared.smart() } else { SmartCounters::default() };
        let reply = io
            .shared
            .with_service(|service| service.admin(io.now, self.id, sqe, data, &smart, &mut out));
        match reply {
            Reply::Done { result, status } if status.is_success() && !out.is_empty() => {
                out.truncate(sqe.sgl.length.get() as usize);
                self.protocol.complete_with_data(slot, TxData::Bytes(out), result);
            }
            Reply::Done { result, status } => self.protocol.complete(slot, result, status),
            Reply::Deferred => {
                let event_request = sqe.opcode == opcode::admin::ASYNC_EVENT_REQUEST;
                self.deferred.deferred(sqe.cid.get(), event_request, slot);
                self.slots.occupy(slot, Slot { phase: Phase::Deferred, ..Slot::default() });
            }
        }
    }

    /// A Fabrics command on an I/O queue (Disconnect).
    #[cold]
    pub(super) fn fabrics_on_io_queue(&mut self, io: &mut Io, slot: SlotId, sqe: &Sqe) {
        let reply =
            io.shared.with_service(|service| service.fabrics_on_io_queue(io.now, self.id, sqe));
        match reply {
            Reply::Done { result, status } => self.protocol.complete(slot, result, status),
            Reply::Deferred => self.protocol.complete(slot, 0, Status::INTERNAL_ERROR),
        }
    }

    /// The first command of a connection, which must be Connect.
    fn connect(&mut self, io: &mut Io, slot: SlotId, sqe: &Sqe, data: &[u8]) {
        let answer = io.shared.with_service(|service| {
            service.connect(io.now, self.id, self.origin.listener, sqe, data)
        });
        match answer {
            Ok(connected) => self.connected(io, slot, connected),
            Err(Rejected { status, result, reason }) => {
                self.tell_of_refusal(io, data, reason);
                self.protocol.complete(slot, result, status);
            }
        }
    }

    fn connected(&mut self, io: &mut Io, slot: SlotId, connected: Connected) {
        let is_io = matches!(connected.kind, QueueKind::Io);
        let in_capsule =
            if is_io { io.shared.settings.in_capsule_data } else { ADMIN_CAPSULE_DATA };
        self.protocol.set_queue(connected.entries, connected.sq_flow_control, in_capsule);
        let shared = connected.shared;
        if let Some(registered) = lock(&io.shared.connections).get_mut(&self.id) {
            let state = &mut registered.state;
            state.host = Some(shared.host_nqn.clone());
            state.subsystem = Some(shared.subsystem_nqn.clone());
            state.controller = Some(connected.controller.0);
            state.queue = Some(connected.qid);
            state.digests = self.protocol.digests();
        }
        tracing::debug!(
            peer = %self.peer, host = shared.host_nqn, subsystem = shared.subsystem_nqn,
            controller = connected.controller.0, queue = connected.qid, "a queue is connected"
        );
        self.tell_of_queue(io, connected.kind, &shared);
        if let Some(address) = socket::local_address(&self.socket).filter(|_| !is_io) {
            let address = address.ip().to_string();
            io.shared.with_service(|service| service.local_address(self.id, &address));
        }
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

    /// A line for the host's admin queue, when its I/O queues have come; discovery controllers
    /// come and go by the minute and make none.
    fn tell_of_queue(&self, io: &Io, kind: QueueKind, shared: &ControllerShared) {
        let controller = shared.id.0;
        io.shared.tell_of_hosts(|hosts, now| {
            match kind {
                QueueKind::Admin => {
                    let (host, subsystem) = (shared.host_nqn.clone(), shared.subsystem_nqn.clone());
                    let address = self.peer.to_string();
                    hosts.connected(now, Host { host, subsystem, address, controller });
                }
                QueueKind::Io => hosts.queue_connected(now, controller),
                QueueKind::Discovery => {}
            }
            None
        });
    }

    fn tell_of_refusal(&self, io: &Io, data: &[u8], reason: Refusal) {
        let name =
            |field: Option<&[u8; 256]>| field.and_then(nqn_field).unwrap_or_default().to_owned();
        let data = ConnectData::ref_from_bytes(data).ok();
        let host = name(data.map(|data| &data.hostnqn));
        let subsystem = name(data.map(|data| &data.subnqn));
        let address = self.peer.to_string();
        io.shared
            .tell_of_hosts(|hosts, now| hosts.refused(now, (host, subsystem), address, reason));
    }

    /// Completes a command that the service had deferred.
    pub(super) fn complete_deferred(&mut self, io: &mut Io, cid: u16, result: u64, status: Status) {
        let Some(slot) = self.deferred.completed(cid) else { return };
        self.slots.release(slot);
        self.protocol.complete(slot, result, status);
        self.mark_dirty(io);
    }

    /// A command has arrived: an event request with its identifier is forgotten.
    fn replace_event_request(&mut self, io: &Io, cid: u16) {
        let withdraw =
            || io.shared.with_service(|service| service.withdraw_event_request(self.id, cid));
        if let Some(slot) = self.deferred.arrived(cid, withdraw) {
            self.slots.release(slot);
            self.protocol.withdraw(slot);
        }
    }
}
