//! The one way in which grants are made.

use units::Nanos;

use super::{Charged, DeviceQueue, Grant};
use crate::credit::Cost;

/// What a command is charged for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) session: u32,
    pub(super) write: bool,
    pub(super) bytes: u32,
    pub(super) operations: u32,
}

impl Work {
    #[inline]
    pub(super) fn cost(&self) -> Cost {
        Cost::system(self.operations, u64::from(self.bytes))
    }
}

/// What a command holds while it is in its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    /// Room in the window.
    pub(super) price: u32,
    /// Credits: the set that they were taken from.
    pub(super) set: u32,
    /// What a reservation was charged.
    pub(super) charged: Option<Charged>,
}

impl DeviceQueue {
    /// Makes the grant of a command that goes to the device.
    #[inline]
    pub(super) fn grant(&mut self, now: Nanos, device: u32, work: &Work, holds: Holds) -> Grant {
        self.granted += 1;
        let Work { session, write, bytes, .. } = *work;
        let Holds { price, set, charged } = holds;
        let cost = work.cost();
        Grant { device, session, set, price, cost, write, bytes, at: now, charged }
    }
}
