//! What the reactor knows of each command in the target, beside what the protocol knows.

use std::sync::Arc;

use arbitration::memory::MemoryGrant;
use fabric::Nanos;
use fabric::nvm::IoCommand;
use fabric::nvme::Status;
use fabric::queue::SlotId;

use crate::credits::Promise;
use crate::driver::{Buffer, Driver};
use crate::ordered::{Charged, Ticket};
use crate::sweep::Sweep;

/// How far a command has come.
#[derive(Debug, Default)]
pub(crate) enum Phase<D: Driver> {
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
    Filling(Buffer<D>),
    /// The host's data arrives, or is there, and there is no buffer for it after all.
    Parked(Vec<u8>, Promise),
    /// To be completed with this status once all of the host's data has arrived.
    Failing(Status),
    /// Has what it needs of the host, and waits for its turn at its device.
    Ordered(Option<Buffer<D>>),
    /// A large deallocation, carried out slice by slice.
    Sweeping(Box<Sweep<D>>),
    /// In a backend.
    Busy,
    /// Deferred (asynchronous event request, abort).
    Deferred,
}

impl<D: Driver> Phase<D> {
    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Collecting(_) => "collecting",
            Self::Waiting => "waiting",
            Self::Promised(_) => "promised",
            Self::Filling(_) => "filling",
            Self::Parked(..) => "parked",
            Self::Failing(_) => "failing",
            Self::Ordered(_) => "ordered",
            Self::Sweeping(_) => "sweeping",
            Self::Busy => "busy",
            Self::Deferred => "deferred",
        }
    }
}

/// One command.
#[derive(Debug)]
pub(crate) struct Slot<D: Driver> {
    pub(crate) phase: Phase<D>,
    pub(crate) command: Option<IoCommand>,
    pub(crate) device: Option<Arc<D::Device>>,
    pub(crate) arrived: Nanos,
    pub(crate) charged: Charged,
    pub(crate) ticket: Ticket,
    /// What its data's buffer takes of the memory for data.
    pub(crate) memory: Option<MemoryGrant>,
    /// It waits with a buffer for in-capsule data in hand.
    pub(crate) in_capsules: bool,
}

impl<D: Driver> Default for Slot<D> {
    fn default() -> Self {
        Self {
            phase: Phase::Free,
            command: None,
            device: None,
            arrived: Nanos::default(),
            charged: Charged::default(),
            ticket: Ticket::None,
            memory: None,
            in_capsules: false,
        }
    }
}

/// The commands of a connection; as many places as its queue has entries.
#[derive(Debug)]
pub(crate) struct Slots<D: Driver> {
    slots: Vec<Slot<D>>,
    active: u32,
}

impl<D: Driver> Default for Slots<D> {
    fn default() -> Self {
        Self { slots: Vec::new(), active: 0 }
    }
}

impl<D: Driver> Slots<D> {
    /// The slot, made if it is new.
    pub(crate) fn slot(&mut self, id: SlotId) -> &mut Slot<D> {
        let index = usize::from(id.0);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::default);
        }
        #[expect(clippy::indexing_slicing, reason = "the line above made it")]
        &mut self.slots[index]
    }

    /// Takes a command into the table.
    pub(crate) fn occupy(&mut self, id: SlotId, slot: Slot<D>) {
        debug_assert!(matches!(self.slot(id).phase, Phase::Free), "slot {id:?} holds a command");
        self.active += 1;
        *self.slot(id) = slot;
    }

    /// Takes a command out of the table.
    pub(crate) fn release(&mut self, id: SlotId) -> Slot<D> {
        let slot = std::mem::take(self.slot(id));
        if !matches!(slot.phase, Phase::Free) {
            self.active = self.active.saturating_sub(1);
        }
        slot
    }

    /// Commands whose data is still to come from the host. Of those that are parked it may all be
    /// there: what they hold is bounded apart.
    pub(crate) fn awaiting_data(&self) -> usize {
        let waits = |slot: &Slot<D>| {
            matches!(slot.phase, Phase::Promised(_) | Phase::Filling(_) | Phase::Collecting(_))
        };
        self.slots.iter().filter(|slot| waits(slot)).count()
    }

    /// The names of all places.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SlotId> + use<D> {
        (0..u16::try_from(self.slots.len()).unwrap_or(u16::MAX)).map(SlotId)
    }

    /// The phases of all places.
    pub(crate) fn phases(&self) -> impl Iterator<Item = &Phase<D>> {
        self.slots.iter().map(|slot| &slot.phase)
    }

    /// Number of commands in the table that do not wait for something to happen (asynchronous event
    /// requests, aborts).
    pub(crate) fn at_work(&self) -> usize {
        let at_work = |phase: &&Phase<D>| !matches!(phase, Phase::Free | Phase::Deferred);
        self.phases().filter(at_work).count()
    }

    /// Number of commands in the table.
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// Puts a piece of the host's data where it belongs.
    #[inline]
    pub(crate) fn fill(&mut self, id: SlotId, offset: u32, bytes: &[u8]) {
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
