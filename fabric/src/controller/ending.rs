//! Ended controllers whose queues still have commands in a device.
//!
//! A write of an ended controller must not land after its host may continue: it would overwrite the
//! host's next write to the same blocks. So the host's next controller of the same subsystem
//! becomes ready (CSTS.RDY) only after the previous one has no command left, or after the time that
//! a reset may take.

use std::collections::HashMap;

use super::ControllerId;
use super::instance::Controller;
use crate::Nanos;

#[derive(Debug)]
struct EndedController {
    host_id: [u8; 16],
    subsystem: String,
    /// Number of I/O queues whose connections have not ended.
    left: usize,
    /// The time from which on the host's next controller no longer waits for this one.
    until: Nanos,
}

/// Ended controllers whose queues have not ended.
#[derive(Debug, Default)]
pub(super) struct EndedControllers(HashMap<ControllerId, EndedController>);

impl EndedControllers {
    /// Returns until when a controller waits for others of its host that have ended.
    pub(super) fn waits_until(&self, controller: &Controller, now: Nanos) -> Option<Nanos> {
        let before = self.0.values().filter(|ended| {
            ended.host_id == controller.host_id
                && ended.subsystem == controller.subsystem()
                && ended.until > now
        });
        before.map(|ended| ended.until).max()
    }

    /// Returns whether an identifier is one of a controller that has ended.
    pub(super) fn has(&self, id: ControllerId) -> bool {
        self.0.contains_key(&id)
    }

    /// Notes a controller that has ended, with the number of its queues that have not;
    /// others wait for it until `until`.
    pub(super) fn add(&mut self, controller: &Controller, left: usize, until: Nanos) {
        if left > 0 {
            let (host_id, subsystem) = (controller.host_id, controller.subsystem().to_owned());
            self.0.insert(controller.id, EndedController { host_id, subsystem, left, until });
        }
    }

    /// Notes that a queue's connection has ended. Returns whether it was the last one of an ended
    /// controller.
    pub(super) fn queue_ended(&mut self, id: ControllerId) -> bool {
        let Some(ended) = self.0.get_mut(&id) else { return false };
        ended.left = ended.left.saturating_sub(1);
        ended.left == 0 && self.0.remove(&id).is_some()
    }
}
