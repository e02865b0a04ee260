//! Authentication Send and Authentication Receive, and their consequences.

use std::sync::Arc;

use super::super::instance::ControllerKind;
use super::super::service::Attachment;
use super::super::{
    Action, CloseReason, ConnectionId, ControllerShared, Reply, SecureChannel, Service,
};
use super::gate::Answer;
use crate::Nanos;
use crate::dhchap::{HostSecrets, Work, WorkResult};
use crate::fabrics::{AUTH_MESSAGE_MAX, AuthCommand, Concatenation, fctype};
use crate::nvme::opcode::{FABRICS, fabrics};
use crate::nvme::{Sqe, Status};

impl Service {
    /// Sets the secrets of a host. On each later queue of any subsystem, the host must prove that
    /// it knows one of them. `None` removes the secrets. Connected queues stay as they are. TLS
    /// keys negotiated with a removed secret are forgotten.
    pub fn set_host_secrets(&mut self, host: &str, secrets: Option<HostSecrets>) {
        self.gate.set(host, secrets);
    }

    /// Returns whether the commands of a queue are answered: its host has proved itself, or need
    /// not.
    #[must_use]
    pub fn is_authenticated(&self, connection: ConnectionId) -> bool {
        let attached = self.connections.get(&connection).is_some_and(|a| !a.closing);
        attached && self.gate.is_open(connection)
    }

    /// Returns whether the host of a queue has proved that it knows a secret: on it, or by the TLS
    /// key that such a proof has made.
    #[must_use]
    pub fn has_proved(&self, connection: ConnectionId) -> bool {
        self.gate.has_proved(connection) || self.channels.proves(connection)
    }

    /// Returns the work of [`Action::Authenticate`], once. Any thread may carry it out, without the
    /// service; [`Self::authentication_worked`] takes the result.
    #[must_use]
    pub fn authentication_work(&mut self, connection: ConnectionId) -> Option<Work> {
        self.gate.work(connection)
    }

    /// Handles the result of a queue's work; `None`: the work was not done, and the host may begin again. The call has
    /// no effect if the queue has ended.
    pub fn authentication_worked(&mut self, connection: ConnectionId, worked: Option<WorkResult>) {
        let done = worked.is_some();
        let Some(cid) = self.gate.worked(connection, worked) else { return };
        if self.connections.get(&connection).is_some_and(|a| !a.closing) {
            let status = if done { Status::SUCCESS } else { Status::COMMAND_INTERRUPTED };
            self.actions.push_back(Action::Complete { connection, cid, result: 0, status });
        }
    }

    /// Returns whether a queue may be sent a command now: all of them once its host has proved
    /// itself, and before that those without which it could not.
    pub(in crate::controller) fn admits(&self, connection: ConnectionId, sqe: &Sqe) -> bool {
        let before = [
            fabrics::AUTHENTICATION_SEND,
            fabrics::AUTHENTICATION_RECEIVE,
            fabrics::PROPERTY_GET,
            fabrics::CONNECT,
            fabrics::DISCONNECT,
        ];
        if sqe.opcode == FABRICS && before.contains(&fctype(sqe)) {
            return true;
        }
        // A queue on which a key was made is left for one with TLS: nothing else goes in the clear.
        self.gate.is_open(connection) && !self.gate.is_concatenated(connection)
    }

    /// Returns the key that a host may have made on a queue: on an admin queue without TLS, where TLS
    /// is possible, one by which it comes again, and with a generated key another one.
    fn agreed(&self, connection: ConnectionId, attachment: Attachment) -> Concatenation {
        if attachment.qid != 0 || !self.gate.keeps_keys() {
            return Concatenation::None;
        }
        let controller = self.controllers.get(&attachment.controller);
        let listener = controller.and_then(|controller| self.listeners.get(&controller.listener));
        let allowed =
            listener.is_some_and(|listener| listener.secure_channel == SecureChannel::Allowed);
        match self.channels.names(connection) {
            Some(names) if names.generated => Concatenation::Replace,
            None if allowed => Concatenation::New,
            _ => Concatenation::None,
        }
    }

    /// Answers Authentication Send and Receive on a connected queue.
    pub(in crate::controller) fn authenticate(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        sqe: &Sqe,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Reply {
        let command = AuthCommand::parse(sqe);
        let Some((shared, attachment)) = self.guarded(connection) else {
            return Reply::failed(Status::INVALID_OPCODE.dnr());
        };
        if !command.is_in_band() {
            return Reply::failed(Status::INVALID_FIELD.dnr());
        }
        let peer = (&shared, attachment.address);
        let answer = if fctype(sqe) == fabrics::AUTHENTICATION_SEND {
            let length = usize::try_from(command.length).unwrap_or(usize::MAX);
            if command.length > AUTH_MESSAGE_MAX {
                return Reply::failed(Status::INVALID_FIELD.dnr());
            }
            let Some(message) = data.get(..length) else {
                return Reply::failed(Status::DATA_SGL_LENGTH_INVALID.dnr());
            };
            let agreed = self.agreed(connection, attachment);
            self.gate.sent(now, connection, peer, (sqe.cid.get(), message), agreed)
        } else {
            if sqe.sgl.data_length() < command.length {
                return Reply::failed(Status::DATA_SGL_LENGTH_INVALID.dnr());
            }
            let room = usize::try_from(command.length.min(AUTH_MESSAGE_MAX)).unwrap_or(0);
            match self.gate.receive(now, connection, peer, room, out) {
                Ok(answer) => {
                    // Behind the message the room is filled with zeroes.
                    out.resize(room, 0);
                    answer
                }
                Err(status) => return Reply::failed(status),
            }
        };
        match answer {
            Answer::Now => Reply::OK,
            Answer::Later => {
                self.actions.push_back(Action::Authenticate { connection });
                Reply::Deferred
            }
            Answer::Failed => {
                self.authentication_failed(now, connection);
                Reply::OK
            }
        }
    }

    /// Finds the controller of a queue that may authenticate: an I/O controller, or a discovery
    /// controller whose host must.
    fn guarded(&self, connection: ConnectionId) -> Option<(Arc<ControllerShared>, Attachment)> {
        let attachment = self.connections.get(&connection).filter(|a| !a.closing)?;
        let controller = self.controllers.get(&attachment.controller)?;
        let may = controller.kind == ControllerKind::Io || self.gate.is_guarded(connection);
        may.then(|| (Arc::clone(&controller.shared), *attachment))
    }

    /// Ends a queue whose host has failed to prove itself; with an admin queue its controller ends.
    /// The command that is being answered is completed first.
    fn authentication_failed(&mut self, now: Nanos, connection: ConnectionId) {
        self.gate.failed(now, connection);
        let Some(Attachment { controller: id, qid, .. }) = self.connections.get(&connection) else {
            return;
        };
        let (id, qid) = (*id, *qid);
        if qid == 0 {
            self.end_controller(now, id, CloseReason::NotAuthenticated);
            return;
        }
        self.remove_queue(id, qid);
        self.close_queue(connection, CloseReason::NotAuthenticated);
    }

    /// Ends the queues whose hosts should have proved themselves by now. Returns the time of the next
    /// look at them.
    pub(in crate::controller) fn end_unproved(&mut self, now: Nanos) -> Option<Nanos> {
        for connection in self.gate.expired(now) {
            self.authentication_failed(now, connection);
        }
        self.gate.next()
    }
}
