//! The ends of controllers and queues: lost connections, timers, aborts, draining.

use core::sync::atomic::Ordering;

use super::instance::ControllerKind;
use super::service::{Attachment, PendingAbort};
use super::{AbortTicket, Action, CloseReason, ConnectionId, ControllerId, Service};
use crate::Nanos;
use crate::nvme::Status;
use crate::nvme::identify::OptionalEvents;
use crate::nvme::property::ControllerStatus;

/// Result of an Abort command, DW0 bit 0.
const ABORTED: u64 = 0;
const NOT_ABORTED: u64 = 1;

impl Service {
    /// Notes that a connection has ended, for any reason, and its commands are settled. It has no
    /// effect where that is known already.
    ///
    /// The end of an admin queue's connection ends its controller; the I/O queues' connections are
    /// closed. The end of an I/O queue's connection ends that queue alone: the host may connect it
    /// again.
    pub fn disconnected(&mut self, _now: Nanos, connection: ConnectionId) {
        let Some(attachment) = self.connections.remove(&connection) else { return };
        let id = attachment.controller;
        if attachment.qid == 0 {
            self.end_controller(id, CloseReason::AdminQueueLost);
            return;
        }
        if !attachment.closing
            && let Some(controller) = self.controllers.get_mut(&id)
        {
            controller.queues.remove(&attachment.qid);
            controller.settled.remove(&attachment.qid);
        }
        self.settle_aborts(connection);
        self.finish_quiesce_if_settled(id);
    }

    /// Notes that a queue has nothing left to do, in a target that drains and takes no new
    /// commands. Returns since when its connection may be closed: an I/O queue's once all I/O
    /// queues of its controller have nothing left, for a host that loses one of them gives up what
    /// the others have under way; an admin queue's once those are gone.
    pub fn settle_queue(&mut self, now: Nanos, connection: ConnectionId) -> Option<Nanos> {
        let attachment = self.connections.get(&connection).filter(|a| !a.closing);
        let Some(Attachment { controller, qid, .. }) = attachment else { return Some(Nanos(0)) };
        let Some(controller) = self.controllers.get_mut(controller) else {
            return Some(Nanos(0));
        };
        if *qid == 0 {
            return controller.queues.is_empty().then_some(Nanos(0));
        }
        controller.settled.insert(*qid);
        if controller.settled.len() < controller.queues.len() {
            return None;
        }
        Some(*controller.settled_at.get_or_insert(now))
    }

    /// Says whether a connection is a queue of a controller that its host has shut down (CC.SHN),
    /// or is shutting down.
    #[must_use]
    pub fn is_shut_down(&self, connection: ConnectionId) -> bool {
        let attachment = self.connections.get(&connection);
        let controller = attachment.and_then(|a| self.controllers.get(&a.controller));
        let shutdown = ControllerStatus::SHUTDOWN_OCCURRING | ControllerStatus::SHUTDOWN_COMPLETE;
        controller.is_some_and(|c| c.properties.status.intersects(shutdown))
    }

    /// Takes the daemon's answer to [`Action::Abort`]: whether the command was found and will be
    /// completed as aborted. It has no effect where the ticket is no longer valid.
    pub fn abort_done(&mut self, ticket: AbortTicket, aborted: bool) {
        let Some(abort) = self.aborts.remove(&ticket) else { return };
        self.complete_abort(abort, aborted);
    }

    fn complete_abort(&mut self, abort: PendingAbort, aborted: bool) {
        let Some(controller) = self.controllers.get(&abort.controller) else { return };
        self.actions.push_back(Action::Complete {
            connection: controller.admin,
            cid: abort.cid,
            result: if aborted { ABORTED } else { NOT_ABORTED },
            status: Status::SUCCESS,
        });
    }

    /// Completes aborts whose target queue is gone: they have found nothing.
    fn settle_aborts(&mut self, target: ConnectionId) {
        let settled: Vec<AbortTicket> =
            self.aborts.iter().filter(|(_, a)| a.target == target).map(|(&t, _)| t).collect();
        for ticket in settled {
            self.abort_done(ticket, false);
        }
    }

    /// Orders the I/O queues' connections of a controller closed; their identifiers are free at
    /// once.
    pub(super) fn close_queues(&mut self, id: ControllerId, reason: CloseReason) {
        let Some(controller) = self.controllers.get_mut(&id) else { return };
        controller.settled.clear();
        for connection in std::mem::take(&mut controller.queues).into_values() {
            self.close_queue(connection, reason);
        }
    }

    /// Orders an I/O queue's connection closed.
    pub(super) fn close_queue(&mut self, connection: ConnectionId, reason: CloseReason) {
        if let Some(attachment) = self.connections.get_mut(&connection) {
            attachment.closing = true;
        }
        self.settle_aborts(connection);
        self.actions.push_back(Action::Close { connection, reason });
    }

    /// Reports a reset or shutdown as complete if no I/O queue is left.
    pub(super) fn finish_quiesce_if_settled(&mut self, id: ControllerId) {
        let left = self.connections.values().any(|a| a.controller == id && a.qid != 0 && a.closing);
        if let Some(controller) = self.controllers.get_mut(&id)
            && !left
        {
            controller.properties.finish_quiesce();
        }
    }

    /// Ends a controller: nothing more is answered, all of its connections are closed.
    pub(super) fn end_controller(&mut self, id: ControllerId, reason: CloseReason) {
        let Some(controller) = self.controllers.remove(&id) else { return };
        if let Some(subsystem) = self.subsystems.get_mut(controller.subsystem()) {
            subsystem.controllers.remove(&id);
        }
        controller.shared.ready.store(false, Ordering::Release);
        self.aborts.retain(|_, abort| abort.controller != id);
        self.tables_changed.remove(&id);
        let admin = controller.admin;
        let open = |c: &ConnectionId| self.connections.contains_key(c);
        let close: Vec<ConnectionId> =
            controller.queues.into_values().chain([admin]).filter(open).collect();
        self.connections.retain(|_, attachment| attachment.controller != id);
        // Completions on the admin queue are dropped with its connection.
        self.actions
            .retain(|a| !matches!(a, Action::Complete { connection, .. } if *connection == admin));
        self.actions
            .extend(close.into_iter().map(|connection| Action::Close { connection, reason }));
    }

    /// Advances timers to `now`. Returns the latest time of the next call, none where no timer
    /// runs. A late call expires timers late, which does no harm.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        let mut expired = Vec::new();
        let mut next: Option<Nanos> = None;
        for controller in self.controllers.values_mut() {
            if controller.properties.quiesce.is_some_and(|q| q.until <= now) {
                controller.properties.finish_quiesce();
            }
            if controller.keep_alive.expired(now, &controller.shared) {
                expired.push(controller.id);
                continue;
            }
            let quiesce = controller.properties.quiesce.map(|q| q.until);
            let timers = [controller.keep_alive.deadline(), quiesce];
            next = timers.into_iter().flatten().chain(next).min();
        }
        for id in expired {
            self.end_controller(id, CloseReason::KeepAliveExpired);
        }
        next
    }

    /// Changes [`arbitration`](super::ServiceConfig::arbitration) for controllers that are made or
    /// reset from now on.
    pub fn set_arbitration(&mut self, value: u32) {
        self.config.arbitration = value;
    }

    /// Notes that the daemon is draining: no Connect succeeds any more (Controller Busy: hosts come
    /// back later), and the ANA group is reported inaccessible, so that hosts use other paths or
    /// hold their I/O back until the target is there again. Connected queues go on.
    pub fn begin_shutdown(&mut self, _now: Nanos) {
        if self.draining {
            return;
        }
        self.draining = true;
        self.ana_changes += 1;
        for controller in self.controllers.values_mut() {
            if controller.kind == ControllerKind::Io {
                controller.events.raise(OptionalEvents::ANA_CHANGE);
                controller.pump_events(&mut self.actions);
            }
        }
    }
}
