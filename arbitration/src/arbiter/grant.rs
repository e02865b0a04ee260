//! Grants: the resources that a command holds while it is in its device.

use units::Nanos;

use super::ids::{CreditSetId, DeviceId, HostFlowId};
use crate::credit::Cost;
use crate::limit::{Amount, Content};
use crate::order::CommandKind;
use crate::reservation::Charge;
use crate::session::SessionId;
use crate::window::Held;

/// The resources that a command holds while it is in its device. Give the grant back with
/// [`Arbiter::complete`](super::Arbiter::complete).
#[derive(Debug)]
#[must_use = "credits and window are lost unless the grant is given back"]
pub struct Grant {
    pub(super) device: DeviceId,
    pub(super) session: SessionId,
    pub(super) write: bool,
    pub(super) bytes: u32,
    pub(super) content: Content,
    pub(super) operations: u32,
    pub(super) price: u32,
    pub(super) set: Option<CreditSetId>,
    pub(super) at: Nanos,
    /// Commands that the device held when this one came, itself among them.
    pub(super) met: Held,
    /// Whether the command is counted in the device's load.
    pub(super) counted: bool,
    pub(super) charged: Option<Charged>,
}

impl Grant {
    /// Makes the grant of a command that goes to a device.
    #[inline]
    pub(super) fn new(now: Nanos, device: DeviceId, work: Work, holds: Holds) -> Self {
        let Work { session, write, bytes, content, operations } = work;
        let Holds { price, set, charged } = holds;
        let (at, met, counted) = (now, Held::default(), false);
        Self {
            device,
            session,
            write,
            bytes,
            content,
            operations,
            price,
            set,
            at,
            met,
            counted,
            charged,
        }
    }

    /// Returns the time at which the command was dispatched.
    #[must_use]
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// Returns the session that the command is charged to.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }
}

/// The work that a command is charged for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) session: SessionId,
    pub(super) write: bool,
    pub(super) bytes: u32,
    pub(super) content: Content,
    pub(super) operations: u32,
}

impl Work {
    /// Returns what limits are charged when the command goes.
    #[inline]
    pub(super) fn amount(&self) -> Amount {
        self.content.amount(self.bytes)
    }

    /// Returns what decides on the cost of the command.
    #[inline]
    pub(super) const fn kind(&self) -> CommandKind {
        CommandKind { write: self.write, bytes: self.bytes, has_data: self.content.has_data() }
    }

    /// Computes the credits that the command takes.
    #[inline]
    pub(super) fn cost(&self) -> Cost {
        Cost::system(self.operations, u64::from(self.bytes))
    }
}

/// The resources that are taken for a command, and come back with its grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    /// Price of the command: its room in the window, in 1/[`SLOT`](crate::window::SLOT).
    pub(super) price: u32,
    /// The set that credits were taken from; `None`: none were.
    pub(super) set: Option<CreditSetId>,
    /// Charge to a reservation; `None`: there is none.
    pub(super) charged: Option<Charged>,
}

/// The charge to a reservation for a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    pub(super) charge: Charge,
    /// The flow by which the reservation is found.
    pub(super) flow: HostFlowId,
}
