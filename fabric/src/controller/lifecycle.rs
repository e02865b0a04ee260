//! The ends of controllers and queues: lost connections, timers, aborts, draining.

use core::sync::atomic::Ordering;
use std::net::IpAddr;

use super::instance::{Controller, ControllerKind};
use super::service::{Attachment, PendingAbort};
use super::{AbortTicket, Action, CloseReason, ConnectionId, ControllerId, Service};
use crate::Nanos;
use crate::nvme::Status;
use crate::nvme::identify::OptionalEvents;
use crate::nvme::property::ControllerStatus;

/// Result of an Abort command that aborted one: DW0 bit 0 is 0.
const ABORTED: u64 = 0;
/// Result of an Abort command that found nothing to abort: DW0 bit 0 is 1.
pub(super) const NOT_ABORTED: u64 = 1;

impl Service {
    /// Notes a new connection from `address`, before its first command. If more connections than
    /// [`max_waiting`](super::ServiceConfig::max_waiting) have sent no Connect, orders one closed
    /// and returns it: the oldest one of the address with the most of them.
    pub fn accepted(&mut self, connection: ConnectionId, address: IpAddr) -> Option<ConnectionId> {
        let gone = self.room.come(connection, address, &self.config)?;
        let reason = CloseReason::TooManyWaiting;
        self.actions.push_back(Action::Close { connection: gone, reason });
        Some(gone)
    }

    /// Notes that a connection has ended, for any reason, and its commands are settled. The call
    /// has no effect where that is known already.
    ///
    /// The end of an admin queue's connection ends its controller; the I/O queues' connections are
    /// closed. The end of an I/O queue's connection ends that queue alone: the host may connect it
    /// again.
    pub fn disconnected(&mut self, now: Nanos, connection: ConnectionId) {
        self.room.not_waiting(connection);
        self.gate.forget(now, connection);
        self.channels.forget(connection);
        let Some(attachment) = self.connections.remove(&connection) else { return };
        let id = attachment.controller;
        if attachment.qid == 0 {
            self.end_controller(now, id, CloseReason::AdminQueueLost);
            return;
        }
        if self.ending.queue_ended(id) {
            self.start_waiting(now);
        }
        if !attachment.closing {
            self.remove_queue(id, attachment.qid);
        }
        self.settle_aborts(connection);
        self.finish_quiesce_if_settled(id);
    }

    /// Frees the identifier of a controller's I/O queue.
    pub(super) fn remove_queue(&mut self, id: ControllerId, qid: u16) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.queues.remove(&qid);
            controller.settled.remove(&qid);
        }
    }

    /// Notes that a queue is idle in a target that drains and takes no new commands. Returns the
    /// time from which on its connection may be closed. An I/O queue may be closed once all I/O
    /// queues of its controller are idle, for a host that loses one of them gives up the
    /// outstanding commands of the others. An admin queue may be closed once the I/O queues are
    /// gone.
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

    /// Returns whether a connection is a queue of a controller that its host has shut down
    /// (CC.SHN), or is shutting down.
    #[must_use]
    pub fn is_shut_down(&self, connection: ConnectionId) -> bool {
        let attachment = self.connections.get(&connection);
        let controller = attachment.and_then(|a| self.controllers.get(&a.controller));
        let shutdown = ControllerStatus::SHUTDOWN_OCCURRING | ControllerStatus::SHUTDOWN_COMPLETE;
        controller.is_some_and(|c| c.properties.status.intersects(shutdown))
    }

    /// Handles the daemon's answer to [`Action::Abort`]: whether the command was found and will be completed as
    /// aborted. The answer has no effect if the ticket is no longer valid.
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

    /// Completes aborts whose target queue is gone as having found nothing.
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

    /// Ends a controller: nothing more is answered, all of its connections are closed, and its grants
    /// of regions end.
    pub(super) fn end_controller(&mut self, now: Nanos, id: ControllerId, reason: CloseReason) {
        let Some(controller) = self.controllers.remove(&id) else { return };
        self.room.give_back(&controller);
        self.users.ended(now, id, false);
        if let Some(subsystem) = self.subsystems.get_mut(controller.subsystem()) {
            subsystem.controllers.remove(&id);
        }
        controller.shared.ready.store(false, Ordering::Release);
        self.aborts.retain(|_, abort| abort.controller != id);
        self.tables_changed.remove(&id);
        let admin = controller.admin;
        let open = |c: &ConnectionId| self.connections.contains_key(c);
        let all = controller.queues.values().copied().chain([admin]);
        let close: Vec<ConnectionId> = all.filter(open).collect();
        self.remember_queues(now, &controller);
        // Completions on the admin queue are dropped with its connection.
        self.actions
            .retain(|a| !matches!(a, Action::Complete { connection, .. } if *connection == admin));
        self.actions
            .extend(close.into_iter().map(|connection| Action::Close { connection, reason }));
    }

    /// Keeps an ended controller's I/O queues known until their connections have ended.
    fn remember_queues(&mut self, now: Nanos, controller: &Controller) {
        self.connections.remove(&controller.admin);
        let mut left = 0;
        for attachment in self.connections.values_mut() {
            if attachment.controller == controller.id {
                attachment.closing = true;
                left += 1;
            }
        }
        self.ending.add(controller, left, now + self.config.quiesce_limit);
    }

    /// Returns until when an enabled controller waits for others of its host before it is ready.
    pub(super) fn start_waits(&self, now: Nanos, id: ControllerId) -> Option<Nanos> {
        self.ending.waits_until(self.controllers.get(&id)?, now)
    }

    /// Starts controllers that no longer wait for others.
    fn start_waiting(&mut self, now: Nanos) {
        let waits = |controller: &&Controller| controller.properties.starts.is_some();
        let waiting: Vec<ControllerId> =
            self.controllers.values().filter(waits).map(|controller| controller.id).collect();
        for id in waiting {
            let until = self.start_waits(now, id);
            if let Some(controller) = self.controllers.get_mut(&id) {
                controller.properties.starts = until;
                if until.is_none() {
                    controller.start(now);
                }
            }
        }
    }

    /// Advances timers to `now`. Returns the latest time of the next call; `None` where no timer
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
            self.end_controller(now, id, CloseReason::KeepAliveExpired);
        }
        let unproved = self.end_unproved(now);
        let lost = self.users.expire(now);
        self.start_waiting(now);
        let starts = self.controllers.values().filter_map(|c| c.properties.starts).min();
        next.into_iter().chain(starts).chain(unproved).chain(lost).min()
    }

    /// Changes [`arbitration`](super::ServiceConfig::arbitration), which all controllers show
    /// unless their hosts have set weights of their own.
    pub fn set_arbitration(&mut self, value: u32) {
        self.config.arbitration = value;
        for controller in self.controllers.values() {
            controller.shared.weights.set(controller.arbitration(&self.config));
        }
    }

    /// Notes that the daemon is draining. No Connect succeeds any more (Controller Busy: hosts come
    /// back later), and all ANA groups are reported inaccessible, so that hosts use other paths or
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
