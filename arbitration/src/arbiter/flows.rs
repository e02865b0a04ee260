//! Flows: who waits where.

use super::{Arbiter, DeviceId, Flow, FlowId};
use crate::session::{Session, SessionId};
use crate::time::Nanos;

impl<T: Copy> Arbiter<T> {
    /// The flow of a host on a session at a device; made where it is not there. Each call is to
    /// be met by a [`Self::release`]. `None` where the device or the session is not there.
    pub fn flow(&mut self, device: DeviceId, session: SessionId, host: u64) -> Option<FlowId> {
        let same =
            |flow: &Flow| flow.device == device.0 && flow.session == session.0 && flow.host == host;
        let known = self.flows.iter().find(|(_, flow)| same(flow)).map(|(id, _)| id);
        if let Some(id) = known {
            self.flows.get_mut(id)?.references += 1;
            return Some(FlowId(id));
        }
        self.local(session.0)?.session.as_ref()?;
        let node = match self.queue_mut(device.0)?.add_flow(session.0) {
            Some(node) => node,
            None => {
                // The session's first flow at this device.
                self.adopt(Nanos::ZERO, device.0 as usize, Some(session.0));
                self.queue_mut(device.0)?.add_flow(session.0)?
            }
        };
        let id = self.flows.insert(Flow {
            device: device.0,
            session: session.0,
            host,
            node,
            references: 1,
            waiting: 0,
            holds: 0,
            plain: false,
        });
        // A session stays as long as flows of it do.
        self.sessions.get_mut(session.0 as usize)?.here += 1;
        self.judge(id);
        Some(FlowId(id))
    }

    /// A flow is used by one less; it goes when nobody uses it and nothing of it is here.
    pub fn release(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.get_mut(flow.0) {
            entry.references = entry.references.saturating_sub(1);
        }
        self.forget_flow(flow.0);
    }

    pub(super) fn forget_flow(&mut self, id: u32) {
        let Some(&flow) = self.flows.get(id) else { return };
        if flow.references > 0 || flow.waiting > 0 || flow.holds > 0 {
            return;
        }
        self.flows.remove(id);
        if let Some(local) = self.sessions.get_mut(flow.session as usize) {
            local.here = local.here.saturating_sub(1);
        }
        if let Some(queue) = self.queue_mut(flow.device) {
            queue.remove_node(flow.node);
        }
    }

    /// Finds out whether a flow is plain.
    pub(super) fn judge(&mut self, id: u32) {
        let Some(&flow) = self.flows.get(id) else { return };
        let free = self.local(flow.session).is_some_and(|local| local.free);
        let plain = self.queue(flow.device).is_some_and(|queue| {
            let rules = &queue.device.rules;
            !rules.memory
                && rules.containers.is_none()
                && free
                && queue.covering(flow.session).is_none()
        });
        if let Some(flow) = self.flows.get_mut(id) {
            flow.plain = plain;
        }
    }

    /// Whether a flow's commands need nothing but room in the window: neither limits nor credits
    /// nor a reservation concern it.
    #[must_use]
    pub fn is_plain(&self, flow: FlowId) -> bool {
        self.flows.get(flow.0).is_some_and(|flow| flow.plain)
    }

    /// The session that a flow is charged to.
    #[must_use]
    pub fn session_of(&self, flow: FlowId) -> Option<&Session> {
        self.local(self.flows.get(flow.0)?.session)?.session.as_deref()
    }
}
