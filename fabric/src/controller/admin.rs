//! Commands on admin queues, and Fabrics commands on I/O queues.

use super::error_log::FailedCommand;
use super::identify::ABORT_LIMIT;
use super::instance::ControllerKind;
use super::lifecycle::NOT_ABORTED;
use super::service::{Attachment, PendingAbort};
use super::types::TIMER;
use super::{
    AbortTicket, Action, CloseReason, ConnectionId, ControllerId, DataLength, Reply, Service,
    SmartCounters,
};
use crate::Nanos;
use crate::fabrics::{
    AUTH_MESSAGE_MAX, AuthCommand, CONNECT_DATA_BYTES, PropertyGet, PropertySet, fctype,
};
use crate::nvme::feature::{GetFeature, SetFeature, fid};
use crate::nvme::identify::{IDENTIFY_SIZE, IdentifyCommand, cns};
use crate::nvme::log::{GetLogPage, lid};
use crate::nvme::node::report_bytes;
use crate::nvme::opcode::{FABRICS, admin, fabrics};
use crate::nvme::region::REGION_GRANT_SIZE;
use crate::nvme::{Sqe, Status};

/// An admin command with its queue and its data.
struct Command<'a> {
    now: Nanos,
    connection: ConnectionId,
    id: ControllerId,
    sqe: &'a Sqe,
    data: &'a [u8],
    smart: &'a SmartCounters,
}

impl Service {
    /// Answers a command on a connected admin queue, Fabrics commands included. `data` is the
    /// command's data, as long as [`Self::data_length`] says; `out` receives the answer's data.
    /// Commands that fail leave an entry in the error log.
    pub fn admin(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        sqe: &Sqe,
        data: &[u8],
        smart: &SmartCounters,
        out: &mut Vec<u8>,
    ) -> Reply {
        out.clear();
        let Some(id) = self.admin_queue_of(connection) else {
            return Reply::failed(Status::COMMAND_SEQUENCE_ERROR.dnr());
        };
        self.withdraw_event_request(connection, sqe.cid.get());
        self.note_admin_traffic(now, id);
        let command = Command { now, connection, id, sqe, data, smart };
        let reply = match self.check(&command) {
            Ok(()) => self.execute(&command, out),
            Err(status) => Reply::failed(status.dnr()),
        };
        self.record_failure(id, sqe, reply, out)
    }

    /// Finds the controller whose admin queue a connection is.
    pub(super) fn admin_queue_of(&self, connection: ConnectionId) -> Option<ControllerId> {
        match self.connections.get(&connection) {
            Some(Attachment { controller, qid: 0, closing: false, .. }) => Some(*controller),
            _ => None,
        }
    }

    /// Withdraws an Asynchronous Event Request whose identifier the host has used for another
    /// command: the request is not completed. Returns whether there was one; a completion of it may
    /// be on its way. [`Self::admin`] does this too; a transport does it when a command arrives,
    /// before the command's data has, with [`super::DeferredCommands`].
    ///
    /// A host may use an identifier again only after its command's completion (NVMe base 2.0,
    /// section 3.3.3.1). Some hosts give up their requests when they shut a controller down, tell
    /// nobody, and use the identifiers: Command ID Conflict would keep them from an orderly
    /// shutdown.
    pub fn withdraw_event_request(&mut self, connection: ConnectionId, cid: u16) -> bool {
        let controller = self.admin_queue_of(connection);
        let controller = controller.and_then(|id| self.controllers.get_mut(&id));
        controller.is_some_and(|controller| controller.events.cancel(cid))
    }

    /// Notes that a command keeps a controller alive: an I/O controller by TBKAS, a discovery
    /// controller without keep alive timer by its activity.
    fn note_admin_traffic(&mut self, now: Nanos, id: ControllerId) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.shared.note_traffic();
            if controller.keep_alive.timeout().is_none() {
                controller.keep_alive.restart(now);
            }
        }
    }

    /// Checks the rules of every command.
    fn check(&self, command: &Command<'_>) -> Result<(), Status> {
        let controller = self.controllers.get(&command.id).ok_or(Status::INTERNAL_ERROR)?;
        let sqe = command.sqe;
        if !self.admits(command.connection, sqe) {
            return Err(Status::AUTHENTICATION_REQUIRED);
        }
        let cid = sqe.cid.get();
        let deferred = |a: &PendingAbort| a.controller == command.id && a.cid == cid;
        if self.aborts.values().any(deferred) || self.gate.holds(command.connection, cid) {
            return Err(Status::CID_CONFLICT);
        }
        if sqe.fuse() != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if sqe.opcode != FABRICS && !controller.shared.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        let length = self.data_length(command.connection, sqe);
        let needed = usize::try_from(length.host_to_controller).unwrap_or(usize::MAX);
        if command.data.len() < needed {
            return Err(Status::DATA_SGL_LENGTH_INVALID);
        }
        Ok(())
    }

    fn execute(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Reply {
        match command.sqe.opcode {
            FABRICS => self.fabrics_on_admin_queue(command, out),
            admin::IDENTIFY => {
                let asked = IdentifyCommand::parse(command.sqe);
                let reply = self.with_controller(command, |service, controller| {
                    controller.shared.end_resending();
                    service.identify(controller, asked, out)
                });
                match asked.cns {
                    cns::NAMESPACE if reply == Reply::OK => {
                        self.note_identified(command.id, asked.nsid);
                    }
                    cns::DESCRIPTORS if reply == Reply::OK => {
                        self.note_compared(command.id, asked.nsid);
                    }
                    _ => {}
                }
                reply
            }
            admin::GET_LOG_PAGE => self.get_log_page(command, out),
            admin::GET_FEATURES => self.features(command, out),
            admin::SET_FEATURES => self.features(command, out),
            admin::ASYNC_EVENT_REQUEST => self.async_event_request(command),
            admin::ABORT if !self.is_discovery(command.id) => self.abort(command),
            admin::KEEP_ALIVE => self.keep_alive(command),
            admin::GET_REGION if self.serves_regions(command.id) => {
                self.get_region(command.id, command.sqe, out)
            }
            admin::REPORT_BACKLOG if self.has_node_credits(command.id) => {
                self.report_backlog(command.now, command.id, command.sqe, command.data)
            }
            _ => Reply::failed(Status::INVALID_OPCODE.dnr()),
        }
    }

    fn is_discovery(&self, id: ControllerId) -> bool {
        self.controllers.get(&id).is_some_and(|c| c.kind == ControllerKind::Discovery)
    }

    fn with_controller(
        &self,
        command: &Command<'_>,
        answer: impl FnOnce(&Self, &super::instance::Controller) -> Reply,
    ) -> Reply {
        let controller = self.controllers.get(&command.id);
        let none = Reply::failed(Status::INTERNAL_ERROR);
        let reply = controller.map_or(none, |controller| answer(self, controller));
        let wanted = self.data_length(command.connection, command.sqe).controller_to_host;
        let room = command.sqe.sgl.data_length();
        let done = matches!(reply, Reply::Done { status, .. } if status.is_success());
        if done && wanted > room {
            return Reply::failed(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        reply
    }

    fn get_log_page(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Reply {
        let page = GetLogPage::parse(command.sqe);
        let reply = self.with_controller(command, |service, controller| {
            match service.log_page(command.now, controller, &page, command.smart, out) {
                Ok(()) => Reply::OK,
                Err(status) => Reply::failed(status.dnr()),
            }
        });
        if reply == Reply::OK && page.lid == lid::ANA {
            self.note_ana_log_read(command.id);
        }
        if reply == Reply::OK
            && !page.retain_event
            && let Some(controller) = self.controllers.get_mut(&command.id)
        {
            controller.log_was_read(page.lid);
            controller.pump_events(&mut self.actions);
        }
        reply
    }

    fn features(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Reply {
        let Some(controller) = self.controllers.get_mut(&command.id) else {
            return Reply::failed(Status::INTERNAL_ERROR);
        };
        let sqe = command.sqe;
        if sqe.opcode == admin::SET_FEATURES {
            let feature = SetFeature::parse(sqe);
            let most = self.room.queues_for(controller, &self.config);
            let reply =
                controller.set_feature(command.now, feature, command.data, &self.config, most);
            self.room.settle(controller);
            if feature.fid == fid::ASYNC_EVENTS && reply == Reply::OK {
                self.note_events_chosen(command.id);
            }
            return reply;
        }
        let reply = controller.get_feature(GetFeature::parse(sqe), &self.config, out);
        let room = usize::try_from(sqe.sgl.data_length()).unwrap_or(usize::MAX);
        if out.len() > room {
            return Reply::failed(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        reply
    }

    fn async_event_request(&mut self, command: &Command<'_>) -> Reply {
        let Some(controller) = self.controllers.get_mut(&command.id) else {
            return Reply::failed(Status::INTERNAL_ERROR);
        };
        if !controller.events.request(command.sqe.cid.get()) {
            return Reply::failed(Status::AER_LIMIT_EXCEEDED.dnr());
        }
        controller.pump_events(&mut self.actions);
        Reply::Deferred
    }

    /// Answers Keep Alive, which restarts the timer.
    fn keep_alive(&mut self, command: &Command<'_>) -> Reply {
        if let Some(controller) = self.controllers.get_mut(&command.id) {
            controller.shared.take_heard(TIMER);
            controller.keep_alive.restart(command.now);
        }
        Reply::OK
    }

    /// Answers Abort: CDW10 has the queue in 15:0 and the command in 31:16.
    fn abort(&mut self, command: &Command<'_>) -> Reply {
        let [q0, q1, c0, c1] = command.sqe.cdw10.to_bytes();
        let (qid, cid) = (u16::from_le_bytes([q0, q1]), u16::from_le_bytes([c0, c1]));
        let Some(controller) = self.controllers.get_mut(&command.id) else {
            return Reply::failed(Status::INTERNAL_ERROR);
        };
        if qid == 0 {
            let found = controller.events.cancel(cid);
            return self.abort_of_event_request(command, cid, found);
        }
        let Some(&target) = controller.queues.get(&qid) else {
            return Reply::value(NOT_ABORTED);
        };
        let under_way = self.aborts.values().filter(|a| a.controller == command.id).count();
        if under_way > usize::from(ABORT_LIMIT) {
            return Reply::failed(Status::ABORT_LIMIT_EXCEEDED.dnr());
        }
        self.last_ticket += 1;
        let ticket = AbortTicket(self.last_ticket);
        let own = command.sqe.cid.get();
        self.aborts.insert(ticket, PendingAbort { controller: command.id, cid: own, target });
        self.actions.push_back(Action::Abort { ticket, connection: target, cid });
        Reply::Deferred
    }

    fn abort_of_event_request(&mut self, command: &Command<'_>, cid: u16, found: bool) -> Reply {
        if !found {
            return Reply::value(NOT_ABORTED);
        }
        self.actions.push_back(Action::Complete {
            connection: command.connection,
            cid,
            result: 0,
            status: Status::ABORT_REQUESTED,
        });
        Reply::OK
    }

    fn fabrics_on_admin_queue(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Reply {
        match fctype(command.sqe) {
            fabrics::PROPERTY_GET => {
                let property = PropertyGet::parse(command.sqe);
                let controller = self.controllers.get(&command.id);
                controller.map_or(Reply::failed(Status::INTERNAL_ERROR), |controller| {
                    controller.property_get(property, &self.config)
                })
            }
            fabrics::PROPERTY_SET => {
                self.property_set(command.now, command.id, PropertySet::parse(command.sqe))
            }
            fabrics::AUTHENTICATION_SEND | fabrics::AUTHENTICATION_RECEIVE => {
                self.authenticate(command.now, command.connection, command.sqe, command.data, out)
            }
            fabrics::CONNECT => Reply::failed(Status::COMMAND_SEQUENCE_ERROR.dnr()),
            // Only I/O queues can be deleted.
            fabrics::DISCONNECT => Reply::failed(Status::DISCONNECT_INVALID_QUEUE_TYPE.dnr()),
            _ => Reply::failed(Status::INVALID_OPCODE.dnr()),
        }
    }

    /// Answers a Fabrics command on a connected I/O queue; `data` and `out` are as with
    /// [`Self::admin`]. Disconnect frees the queue identifier;
    /// the caller closes the connection after its completion is sent.
    pub fn fabrics_on_io_queue(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        sqe: &Sqe,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Reply {
        out.clear();
        let attachment = match self.connections.get(&connection) {
            Some(a) if a.qid != 0 && !a.closing && sqe.opcode == FABRICS => *a,
            _ => return Reply::failed(Status::COMMAND_SEQUENCE_ERROR.dnr()),
        };
        if self.gate.holds(connection, sqe.cid.get()) {
            return Reply::failed(Status::CID_CONFLICT.dnr());
        }
        match fctype(sqe) {
            // Record format, CDW10 15:0.
            fabrics::DISCONNECT if sqe.cdw10.get() & 0xffff != 0 => {
                Reply::failed(Status::CONNECT_INCOMPATIBLE_FORMAT.dnr())
            }
            fabrics::DISCONNECT => {
                self.remove_queue(attachment.controller, attachment.qid);
                self.close_queue(connection, CloseReason::Disconnected);
                Reply::OK
            }
            fabrics::AUTHENTICATION_SEND | fabrics::AUTHENTICATION_RECEIVE => {
                self.authenticate(now, connection, sqe, data, out)
            }
            fabrics::CONNECT => Reply::failed(Status::COMMAND_SEQUENCE_ERROR.dnr()),
            // Properties belong to the admin queue.
            fabrics::PROPERTY_GET | fabrics::PROPERTY_SET => {
                Reply::failed(Status::INVALID_FIELD.dnr())
            }
            _ => Reply::failed(Status::INVALID_OPCODE.dnr()),
        }
    }

    /// Returns the length of a command's data. On a connection that is not connected yet, only
    /// Connect moves data. On an I/O queue, Authentication Send and Receive are the only Fabrics
    /// commands with data.
    #[must_use]
    pub fn data_length(&self, connection: ConnectionId, sqe: &Sqe) -> DataLength {
        let to_host = |bytes: u64| DataLength {
            host_to_controller: 0,
            controller_to_host: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        let from_host =
            |bytes: u32| DataLength { host_to_controller: bytes, controller_to_host: 0 };
        let wide = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let most = u64::from(self.config.max_transfer);
        let attached = self.connections.get(&connection);
        match (attached.map(|a| a.qid), sqe.opcode) {
            (None, FABRICS) if fctype(sqe) == fabrics::CONNECT => from_host(CONNECT_DATA_BYTES),
            (Some(_), FABRICS) if fctype(sqe) == fabrics::AUTHENTICATION_SEND => {
                from_host(AuthCommand::parse(sqe).length.min(AUTH_MESSAGE_MAX))
            }
            (Some(_), FABRICS) if fctype(sqe) == fabrics::AUTHENTICATION_RECEIVE => {
                to_host(u64::from(AuthCommand::parse(sqe).length.min(AUTH_MESSAGE_MAX)))
            }
            (Some(0), admin::IDENTIFY) => to_host(wide(IDENTIFY_SIZE)),
            (Some(0), admin::GET_LOG_PAGE) => to_host(GetLogPage::parse(sqe).length.min(most)),
            (Some(0), admin::GET_FEATURES) => to_host(wide(GetFeature::parse(sqe).data_length())),
            (Some(0), admin::GET_REGION)
                if attached.is_some_and(|a| self.serves_regions(a.controller)) =>
            {
                to_host(wide(REGION_GRANT_SIZE))
            }
            (Some(0), admin::REPORT_BACKLOG)
                if attached.is_some_and(|a| self.has_node_credits(a.controller)) =>
            {
                from_host(report_bytes(sqe))
            }
            (Some(0), admin::SET_FEATURES) => {
                from_host(u32::try_from(SetFeature::parse(sqe).data_length()).unwrap_or(0))
            }
            _ => DataLength::default(),
        }
    }

    /// Puts a failed command into the error log, and sets M in its status. Failed commands return
    /// no data.
    fn record_failure(
        &mut self,
        id: ControllerId,
        sqe: &Sqe,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Reply {
        let Reply::Done { result, status } = reply else { return reply };
        let Some(controller) = self.controllers.get_mut(&id) else { return reply };
        if status.is_success() {
            return reply;
        }
        out.clear();
        controller.errors.record(
            controller.transport,
            FailedCommand {
                qid: 0,
                cid: sqe.cid.get(),
                opcode: sqe.opcode,
                nsid: if sqe.opcode == FABRICS { 0 } else { sqe.nsid.get() },
                lba: 0,
                status,
            },
        );
        Reply::Done { result, status: status.more() }
    }
}
