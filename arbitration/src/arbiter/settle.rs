//! Changes that are carried out while commands are under way, and the removal of a device.

use std::sync::Arc;

use units::{Class, Nanos};

use super::Arbiter;
use super::changes::Step;
use super::elevator::Elevator;
use super::ids::DeviceId;
use crate::session::Session;

impl<T: Copy> Arbiter<T> {
    /// Announces that the limits or credits of a session, or of one above it, are others than
    /// before, or that one of them has a weight of its own now, or has none any more.
    pub fn touch_session(&mut self, session: &Arc<Session>) {
        self.changes.touch_session(session);
    }

    /// Announces that other reservations are in force at a device.
    pub fn touch_device(&mut self, device: DeviceId) {
        self.changes.touch_device(device);
    }

    /// Carries out changes in at most `steps` steps. Each step looks at one session, flow or
    /// device; the others keep their earlier state. Returns whether changes remain.
    pub fn settle(&mut self, now: Nanos, steps: usize) -> bool {
        for _ in 0..steps {
            let Some(step) = self.changes.step(&mut self.sessions, &self.flows) else {
                return false;
            };
            self.carry_out(now, step);
        }
        self.is_changing()
    }

    /// Returns whether there are changes to carry out.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.changes.is_changing()
    }

    fn carry_out(&mut self, now: Nanos, step: Step) {
        match step {
            Step::Pass => {}
            Step::Classify(flow) => {
                self.classify_flow(flow);
                let flow = self.flows.at(flow);
                if let Some(queue) = self.devices.kept_mut(flow.device) {
                    queue.note_weights(flow.session);
                }
            }
            Step::Derive(session) => {
                self.visit(1);
                self.sessions.derive(session);
            }
            Step::Unblock(session, device) => {
                // The device may have gone since the session was blocked there.
                if let Some(queue) = self.devices.get_mut(device) {
                    queue.sessions.forget_note(session);
                    queue.unblock(now, session);
                }
            }
            Step::Adopt(device) => {
                self.visit(1);
                // The device may have gone since its reservations were changed.
                if let Some(queue) = self.devices.get_mut(device) {
                    queue.adopt_reservations(now);
                    self.changes.go_through_flows(queue.flows);
                }
            }
        }
    }

    /// Removes a device in `steps` steps at most. Each withdraws one command that waits there, into
    /// `back`, or removes one flow. Nothing new comes there from now on. Returns whether the device
    /// is gone, which it is once the commands that were dispatched have completed.
    pub fn retire_device(
        &mut self,
        now: Nanos,
        id: DeviceId,
        steps: usize,
        back: &mut Vec<T>,
    ) -> bool {
        for _ in 0..steps {
            let Some(queue) = self.devices.get_mut(id) else { return true };
            queue.leaving = true;
            if let Some(entry) = queue.elevator.as_ref().and_then(Elevator::any) {
                back.extend(self.cancel(now, entry));
                continue;
            }
            let Some(flow) = queue.flows else { break };
            let node = self.flows.at(flow).node;
            let mut waiting = Class::ALL.into_iter().filter_map(|c| queue.queue_of(c, node));
            match waiting.next() {
                // The flow may go with its last command.
                Some(waiting) => back.extend(self.cancel(now, waiting.first)),
                None => self.remove_flow(flow),
            }
        }
        let Some(queue) = self.devices.get(id) else { return true };
        let over = queue.flows.is_none() && queue.granted == 0;
        if over {
            self.devices.remove(id);
        }
        over
    }

    /// Returns whether [`Self::retire_device`] has more to take back: if not, only commands that
    /// were dispatched keep the device.
    #[must_use]
    pub fn is_retiring(&self, id: DeviceId) -> bool {
        self.devices.get(id).is_some_and(|queue| queue.leaving && queue.flows.is_some())
    }
}
