//! What the reactor knows of each command in the target, beside what the protocol knows.

use std::sync::Arc;

use arbitration::arbiter::Grant;
use fabric::Nanos;
use fabric::nvm::IoCommand;
use fabric::nvme::Status;
use fabric::tcp::SlotId;

use super::credits::Promise;
use super::ordered::{Charged, Ticket};
use super::pool::Buffer;
use super::sweep::Sweep;
use crate::devices::Device;

/// How far a command has come.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// No command here.
    #[default]
    Free,
    /// An admin command whose data arrives.
    Collecting(Vec<u8>),
    /// Waits for an I/O buffer; the host's data has not been asked for.
    Waiting,
    /// The host was asked for data for which there will be a buffer when it comes.
    Promised(Promise),
    /// The host's data arrives.
    Filling(Buffer),
    /// The host's data arrives, or is there, and there is no buffer for it after all.
    Parked(Vec<u8>, Promise),
    /// To be completed with this status once all of the host's data has arrived.
    Failing(Status),
    /// Has what it needs of the host, and waits for its turn at its device.
    Ordered(Option<Buffer>),
    /// A large deallocation, carried out slice by slice.
    Sweeping(Box<Sweep>),
    /// In a backend.
    Busy,
    /// Deferred (asynchronous event request, abort).
    Deferred,
}

/// One command.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) phase: Phase,
    pub(super) command: Option<IoCommand>,
    pub(super) device: Option<Arc<Device>>,
    pub(super) arrived: Nanos,
    pub(super) charged: Charged,
    pub(super) ticket: Ticket,
    /// What its data's buffer takes of the memory for data.
    pub(super) memory: Option<Grant>,
    /// It waits with a buffer for in-capsule data in hand.
    pub(super) in_capsules: bool,
}

/// The commands of a connection; as many places as its queue has entries.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    active: u32,
}

impl Slots {
    /// The slot, made if it is new.
    pub(super) fn slot(&mut self, id: SlotId) -> &mut Slot {
        let index = usize::from(id.0);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::default);
        }
        #[expect(clippy::indexing_slicing, reason = "the line above made it")]
        &mut self.slots[index]
    }

    /// Takes a command into the table.
    pub(super) fn occupy(&mut self, id: SlotId, slot: Slot) {
        debug_assert!(matches!(self.slot(id).phase, Phase::Free), "slot {id:?} holds a command");
        self.active += 1;
        *self.slot(id) = slot;
    }

    /// Takes a command out of the table.
    pub(super) fn release(&mut self, id: SlotId) -> Slot {
        let slot = std::mem::take(self.slot(id));
        if !matches!(slot.phase, Phase::Free) {
            self.active = self.active.saturating_sub(1);
        }
        slot
    }

    /// Commands whose data is still to come from the host. Of those that are parked it may all be
    /// there: what they hold is bounded apart.
    pub(super) fn awaiting_data(&self) -> usize {
        let waits = |slot: &Slot| {
            matches!(slot.phase, Phase::Promised(_) | Phase::Filling(_) | Phase::Collecting(_))
        };
        self.slots.iter().filter(|slot| waits(slot)).count()
    }

    /// The names of all places.
    pub(super) fn ids(&self) -> impl Iterator<Item = SlotId> + use<> {
        (0..u16::try_from(self.slots.len()).unwrap_or(u16::MAX)).map(SlotId)
    }

    /// Number of commands in the table.
    pub(super) fn active(&self) -> u32 {
        self.active
    }

    /// Puts a piece of the host's data where it belongs.
    #[inline]
    pub(super) fn fill(&mut self, id: SlotId, offset: u32, bytes: &[u8]) {
        let into: &mut [u8] = match &mut self.slot(id).phase {
            Phase::Filling(buffer) => buffer,
            Phase::Collecting(data) | Phase::Parked(data, _) => data,
            _ => return,
        };
        // A host may send more than the command needs (Dataset Management).
        let room = into.get_mut(offset as usize..).unwrap_or_default();
        let length = room.len().min(bytes.len());
        if let (Some(to), Some(from)) = (room.get_mut(..length), bytes.get(..length)) {
            to.copy_from_slice(from);
        }
    }
}
