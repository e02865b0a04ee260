//! The commands of one connection that are not yet answered.

use super::grants::Grants;
use crate::nvme::{Sqe, Status};

/// Index into the connection's table of outstanding commands, and into the shell's own parallel
/// table: below the queue's number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u16);

impl SlotId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What is still to come from the host for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaiting {
    /// The slot holds no command.
    Free,
    /// Nothing: the command is the shell's.
    Nothing,
    /// In-capsule data.
    Capsule,
    /// Data that R2T PDUs asked for.
    Granted,
}

/// One outstanding command: what every command touches.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) sqe: Sqe,
    pub(crate) awaiting: Awaiting,
    pub(crate) digest_ok: bool,
    next_free: u16,
}

/// What only a command with data from the host touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) grants: Grants,
    /// An answer that waits until all of the command's data has arrived.
    pub(crate) deferred: Option<(u64, Status)>,
}

/// The table of outstanding commands. It grows to the most that were outstanding at once.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// By the same index.
    transfers: Vec<Transfer>,
    /// Head of the list of free slots, last freed first: its memory is still in the cache.
    free: Option<u16>,
    in_use: usize,
}

impl Slots {
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    /// A slot for a command, unless `limit` are in use.
    #[inline]
    pub(crate) fn take(&mut self, sqe: Sqe, limit: usize) -> Option<SlotId> {
        if self.in_use >= limit {
            return None;
        }
        let id = match self.free {
            Some(id) => id,
            None => self.grow()?,
        };
        let slot = self.slots.get_mut(usize::from(id))?;
        self.free = (slot.next_free != u16::MAX).then_some(slot.next_free);
        (slot.sqe, slot.awaiting, slot.digest_ok) = (sqe, Awaiting::Nothing, true);
        self.in_use += 1;
        Some(SlotId(id))
    }

    fn grow(&mut self) -> Option<u16> {
        let id = u16::try_from(self.slots.len()).ok().filter(|id| *id != u16::MAX)?;
        self.slots.push(Slot {
            sqe: Sqe::default(),
            awaiting: Awaiting::Free,
            digest_ok: true,
            next_free: u16::MAX,
        });
        self.transfers.push(Transfer::default());
        Some(id)
    }

    /// The command in that slot, if it holds one.
    #[inline]
    pub(crate) fn get(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id.index()).filter(|slot| slot.awaiting != Awaiting::Free)
    }

    /// The command in that slot, if it holds one.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index()).filter(|slot| slot.awaiting != Awaiting::Free)
    }

    /// The command in that slot and the transfer of its data.
    pub(crate) fn receiving(&mut self, id: SlotId) -> Option<(&mut Slot, &mut Transfer)> {
        let slot = self.slots.get_mut(id.index())?;
        let transfer = self.transfers.get_mut(id.index())?;
        (slot.awaiting != Awaiting::Free).then_some((slot, transfer))
    }

    /// The transfer of the data of the command in that slot.
    pub(crate) fn transfer(&self, id: SlotId) -> Option<&Transfer> {
        self.get(id).and_then(|_| self.transfers.get(id.index()))
    }

    #[inline]
    pub(crate) fn release(&mut self, id: SlotId) {
        let free = self.free.unwrap_or(u16::MAX);
        if let Some(slot) = self.get_mut(id) {
            slot.awaiting = Awaiting::Free;
            slot.next_free = free;
            self.free = Some(id.0);
            self.in_use -= 1;
        }
    }

    /// The slots that hold commands.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        let ids = (0..u16::MAX).map(SlotId);
        ids.zip(&self.slots).filter(|(_, slot)| slot.awaiting != Awaiting::Free)
    }
}
