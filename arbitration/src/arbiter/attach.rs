//! Attachment of hosts to an arbiter: flows come, are classified, and go.

use std::sync::Arc;

use super::Arbiter;
use super::flows::Lists;
use super::ids::{DeviceId, HostFlowId, HostFlowIndex};
use super::own_order::WeightedQueue;
use crate::session::{HostId, Session};

impl<T: Copy> Arbiter<T> {
    /// Finds the flow of a host on a session at a device, or makes it. Each call is met by a
    /// [`Self::release`]. `None` where the device is not there, or is on its way out.
    ///
    /// A flow ends when nobody uses it and nothing of it waits, or with its device.
    pub fn flow(
        &mut self,
        device: DeviceId,
        session: &Arc<Session>,
        host: HostId,
    ) -> Option<HostFlowId> {
        let id = session.id();
        if let Some(flow) = self.flows.of_host(device, id, host) {
            self.flows.at_mut(flow).references += 1;
            return Some(self.flows.id(flow));
        }
        if self.devices.get(device)?.leaving {
            return None;
        }
        let made = self.sessions.keep(session);
        self.visit(1 + made);
        // A session stays as long as flows of it do.
        self.sessions.count(id);
        let queue = self.devices.get_mut(device)?;
        let node = queue.add_flow(session, host);
        let lists = Lists {
            at_device: &mut queue.flows,
            of_session: &mut self.sessions.links_mut(id).flows,
        };
        let flow = self.flows.insert((device, id, host), (node, None), lists);
        self.classify_flow(flow);
        Some(self.flows.id(flow))
    }

    /// Finds the flow of a queue that its host orders by weights of its own, or makes it, as
    /// [`Self::flow`] does. The queue's commands have their turns within the host's part.
    pub fn flow_of_queue(
        &mut self,
        device: DeviceId,
        session: &Arc<Session>,
        host: HostId,
        queue: &WeightedQueue,
    ) -> Option<HostFlowId> {
        // The flow of a queue uses its host's flow, which keeps the host's leaf.
        let of_host = self.flow(device, session, host)?;
        let (id, node) = (session.id(), self.flows.find(of_host)?.node);
        let at = self.devices.get_mut(device)?;
        if let Some(flow) = at.own.flow(node, queue) {
            self.release(of_host);
            self.flows.at_mut(flow).references += 1;
            return Some(self.flows.id(flow));
        }
        let begins = !at.own.has(node);
        let Self { flows, sessions, entries, .. } = self;
        sessions.count(id);
        let lists =
            Lists { at_device: &mut at.flows, of_session: &mut sessions.links_mut(id).flows };
        let flow = at.own.add(node, queue, |own_queue| {
            flows.insert((device, id, host), (node, Some(own_queue)), lists)
        });
        if begins {
            at.begin_own_order(entries, node);
        }
        self.visit(1);
        self.classify_flow(flow);
        Some(self.flows.id(flow))
    }

    /// Releases one use of a flow. The flow goes when nobody uses it and nothing of it is here.
    pub fn release(&mut self, flow: HostFlowId) {
        if let Some(found) = self.flows.find_mut(flow) {
            debug_assert!(found.references > 0, "a flow is released once for each use");
            found.references = found.references.saturating_sub(1);
            self.forget_flow(flow.0.name);
        }
    }

    /// Forgets a flow if nobody uses it and nothing is left of it.
    pub(super) fn forget_flow(&mut self, flow: HostFlowIndex) {
        if self.flows.at(flow).is_unused() {
            self.remove_flow(flow);
        }
    }

    /// Removes a flow with nothing waiting.
    pub(super) fn remove_flow(&mut self, flow: HostFlowIndex) {
        self.visit(1);
        self.changes.step_over_flow(&self.flows, flow);
        let gone = *self.flows.at(flow);
        if let Some(queue) = self.devices.kept_mut(gone.device) {
            let lists = Lists {
                at_device: &mut queue.flows,
                of_session: &mut self.sessions.links_mut(gone.session).flows,
            };
            self.flows.remove(flow, lists);
            match gone.own_queue {
                Some(own_queue) => queue.own.remove(gone.node, own_queue),
                None => queue.remove_flow(gone.session, gone.node),
            }
            self.forget_dropped(gone.device);
        }
        self.leave_session(gone.session);
        if gone.own_queue.is_some()
            && let Some(of_host) = self.flows.of_host(gone.device, gone.session, gone.host)
        {
            self.release(self.flows.id(of_host));
        }
    }

    /// Clears the notes in other tables about sessions that no longer have a place at a device.
    fn forget_dropped(&mut self, device: DeviceId) {
        let Some(queue) = self.devices.kept_mut(device) else { return };
        for dropped in queue.sessions.take_dropped() {
            if dropped.noted {
                self.sessions.forget_blocked_at(dropped.session, device);
            }
            if dropped.timed {
                self.timers.note_idle();
            }
        }
        self.sift_timers();
    }

    /// Removes the timers that nobody needs, once they are the most.
    pub(super) fn sift_timers(&mut self) {
        let Self { timers, devices, .. } = self;
        timers.sift(|timer| {
            let queue = devices.get(timer.device);
            queue.is_some_and(|queue| queue.sessions.has_timer(timer.session, timer.when))
        });
    }

    /// Classifies a flow as plain or not.
    pub(super) fn classify_flow(&mut self, flow: HostFlowIndex) {
        self.visit(1);
        let found = self.flows.at(flow);
        let free = self.sessions.kept(found.session).is_some_and(|local| local.free);
        let plain = self.devices.kept(found.device).is_some_and(|queue| {
            let bounded = queue.is_ordered() || queue.is_bounded();
            free && !bounded && queue.sessions.covering(found.session).is_none()
        });
        self.flows.at_mut(flow).plain = plain;
    }

    /// Returns whether a flow's commands need nothing but room in the window: neither limits nor
    /// credits nor a reservation concern the flow.
    #[inline]
    #[must_use]
    pub fn is_plain(&self, flow: HostFlowId) -> bool {
        self.flows.find(flow).is_some_and(|flow| flow.plain)
    }

    /// Finds the session that a flow is charged to.
    #[must_use]
    pub fn session_of(&self, flow: HostFlowId) -> Option<&Arc<Session>> {
        Some(&self.sessions.kept(self.flows.find(flow)?.session)?.session)
    }
}
