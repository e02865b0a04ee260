//! Flows: who waits where.

use std::sync::Arc;

use super::{Arbiter, DeviceId, Flow, FlowId, Neighbours};
use crate::order::NONE;
use crate::session::Session;

impl<T: Copy> Arbiter<T> {
    /// The flow of a host on a session at a device; made where it is not there. Each call is to
    /// be met by a [`Self::release`]. `None` where the device is not there, or is on its way out.
    ///
    /// A flow ends when nobody uses it and nothing of it waits, or with its device.
    pub fn flow(&mut self, device: DeviceId, session: &Arc<Session>, host: u64) -> Option<FlowId> {
        let place = session.id().0;
        if let Some(&id) = self.flow_places.get(&(device.0, place, host)) {
            self.flows.get_mut(id)?.references += 1;
            return Some(FlowId(self.flows.key(id)));
        }
        if self.queue(device.0)?.leaving {
            return None;
        }
        self.visit();
        self.keep_session(session);
        // A session stays as long as flows of it do.
        self.sessions.get_mut(place as usize)?.here += 1;
        let line: Vec<u32> = session.line().map(|session| session.id().0).collect();
        let queue = self.queue_mut(device.0)?;
        let node = queue.add_flow(&line)?;
        let first = queue.flows;
        let first_of_session = self.kin.get(place as usize).map_or(NONE, |kin| kin.flows);
        let id = self.flows.insert(Flow {
            device: device.0,
            session: place,
            host,
            node,
            references: 1,
            waiting: 0,
            plain: false,
            charged: 0,
            at_device: Neighbours { prev: NONE, next: first },
            of_session: Neighbours { prev: NONE, next: first_of_session },
        });
        if let Some(next) = self.flows.get_mut(first) {
            next.at_device.prev = id;
        }
        if let Some(next) = self.flows.get_mut(first_of_session) {
            next.of_session.prev = id;
        }
        if let Some(queue) = self.queue_mut(device.0) {
            queue.flows = id;
        }
        if let Some(kin) = self.kin.get_mut(place as usize) {
            kin.flows = id;
        }
        self.flow_places.insert((device.0, place, host), id);
        self.classify_flow(id);
        Some(FlowId(self.flows.key(id)))
    }

    /// A flow is used by one less; it goes when nobody uses it and nothing of it is here.
    pub fn release(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.find_mut(flow.0) {
            entry.references = entry.references.saturating_sub(1);
            self.forget_flow(flow.0.index);
        }
    }

    /// Forgets a flow that nobody uses and nothing is left of.
    pub(super) fn forget_flow(&mut self, id: u32) {
        let Some(flow) = self.flows.get(id) else { return };
        if flow.references == 0 && flow.waiting == 0 && flow.charged == 0 {
            self.remove_flow(id);
        }
    }

    /// Takes a flow away of which nothing waits.
    pub(super) fn remove_flow(&mut self, id: u32) {
        self.visit();
        self.step_over_flow(id);
        let Some(flow) = self.flows.remove(id) else { return };
        let Flow { device, session, host, node, at_device, of_session, .. } = flow;
        self.flow_places.remove(&(device, session, host));
        if let Some(next) = self.flows.get_mut(at_device.next) {
            next.at_device.prev = at_device.prev;
        }
        if let Some(next) = self.flows.get_mut(of_session.next) {
            next.of_session.prev = of_session.prev;
        }
        match self.flows.get_mut(at_device.prev) {
            Some(prev) => prev.at_device.next = at_device.next,
            None => {
                if let Some(queue) = self.queue_mut(device) {
                    queue.flows = at_device.next;
                }
            }
        }
        match self.flows.get_mut(of_session.prev) {
            Some(prev) => prev.of_session.next = of_session.next,
            None => {
                if let Some(kin) = self.kin.get_mut(session as usize) {
                    kin.flows = of_session.next;
                }
            }
        }
        if let Some(queue) = self.queue_mut(device) {
            queue.remove_flow(session, node);
            if !queue.dropped.is_empty() {
                self.forget_dropped(device);
            }
        }
        self.leave_session(session);
    }

    /// Classifies a flow as plain or not.
    pub(super) fn classify_flow(&mut self, id: u32) {
        self.visit();
        let Some(&flow) = self.flows.get(id) else { return };
        let free = self.local(flow.session).is_some_and(|local| local.free);
        let plain = self.queue(flow.device).is_some_and(|queue| {
            let rules = &queue.device.rules;
            rules.containers.is_none() && free && queue.covering(flow.session).is_none()
        });
        if let Some(flow) = self.flows.get_mut(id) {
            flow.plain = plain;
        }
    }

    /// Whether a flow's commands need nothing but room in the window: neither limits nor credits
    /// nor a reservation concern it.
    #[inline]
    #[must_use]
    pub fn is_plain(&self, flow: FlowId) -> bool {
        self.flows.find(flow.0).is_some_and(|flow| flow.plain)
    }

    /// The session that a flow is charged to.
    #[must_use]
    pub fn session_of(&self, flow: FlowId) -> Option<&Session> {
        self.local(self.flows.find(flow.0)?.session)?.session.as_deref()
    }
}
