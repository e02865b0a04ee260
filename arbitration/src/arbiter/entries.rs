//! The commands that wait in an arbiter.

use units::{Class, Nanos};

use super::ids::{CreditSetId, EntryId, HostFlowIndex};
use super::table::{Place, Table};
use crate::index::{Name, grown};
use crate::limit::Content;
use crate::order::Ends;
use crate::reservation::Charge;

/// A command that waits. The data that every command needs is in one cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<T> {
    /// The entry before it in its flow's queue; meaningless in the first.
    prev: Option<EntryId>,
    /// The entry behind it in its flow's queue.
    next: Option<EntryId>,
    pub(super) flow: HostFlowIndex,
    pub(super) bytes: u32,
    pub(super) operations: u32,
    pub(super) class: Class,
    pub(super) write: bool,
    pub(super) content: Content,
    /// Whether the command has left its flow's queue for the elevator.
    pub(super) in_elevator: bool,
    /// Arrival of the command at the target. It may have waited elsewhere before it was enqueued.
    pub(super) arrived: Nanos,
    pub(super) entered: Nanos,
    /// The caller's name for the command. `None`: an output mark (docs/research/sources.md, I1: outputs end
    /// containers), which waits for its turn and goes nowhere.
    pub(super) item: Option<T>,
}

/// A place of the table is one cache line, with a caller's name of three words.
const _: () = assert!(Place::<Entry<[u32; 3]>>::SIZE == 64);

impl<T> Entry<T> {
    /// Makes an entry that is in no queue yet.
    #[inline]
    pub(super) fn new(
        (now, flow, class): (Nanos, HostFlowIndex, Class),
        write: bool,
        (bytes, operations): (u32, u32),
        item: Option<T>,
    ) -> Self {
        Self {
            prev: None,
            next: None,
            flow,
            bytes,
            operations,
            class,
            write,
            content: Content::Data,
            in_elevator: false,
            arrived: now,
            entered: now,
            item,
        }
    }

    /// Returns the rest of a queue once this command, its first, leaves.
    #[inline]
    pub(super) fn rest(&self, queue: Ends<EntryId>) -> Option<Ends<EntryId>> {
        Some(Ends { first: self.next?, last: queue.last })
    }
}

/// Blocks of a command at a device that orders by LBA, and its resources there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Located {
    pub(super) lba: u64,
    pub(super) blocks: u32,
    held: Option<Held>,
}

/// The resources that a command in the elevator holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The command's number in the elevator.
    pub(super) number: u32,
    /// The set that credits were taken from; `None`: none were.
    pub(super) set: Option<CreditSetId>,
    /// Charge to a reservation; `None`: there is none.
    pub(super) charge: Option<Charge>,
}

/// All commands that wait, each in its flow's queue or in an elevator.
#[derive(Debug)]
pub(super) struct Entries<T> {
    table: Table<EntryId, Entry<T>>,
    /// The commands' blocks, by entry; empty while no device orders by LBA.
    located: Vec<Located>,
}

impl<T: Copy> Entries<T> {
    pub(super) fn with_capacity(entries: usize) -> Self {
        let unused =
            Entry::new((Nanos::ZERO, HostFlowIndex::NONE, Class::Low), false, (0, 0), None);
        Self { table: Table::with_capacity(entries, unused), located: Vec::new() }
    }

    /// Makes room for the blocks of all commands that the table has room for.
    pub(super) fn make_located(&mut self) {
        self.located.resize(self.table.capacity(), Located::default());
    }

    /// Finds a command that a queue or an elevator names.
    #[inline]
    pub(super) fn at(&self, id: EntryId) -> &Entry<T> {
        self.table.at(id)
    }

    /// Finds a command that a caller outside names, if it waits.
    pub(super) fn get(&self, id: EntryId) -> Option<&Entry<T>> {
        self.table.get(id)
    }

    /// Finds the command behind another in its host's queue.
    pub(super) fn behind(&self, id: EntryId) -> Option<EntryId> {
        self.at(id).next
    }

    /// Forgets a command that is in no queue.
    #[inline]
    pub(super) fn remove(&mut self, id: EntryId) -> Entry<T> {
        self.table.remove(id)
    }

    /// Adds a command at the end of its flow's queue. Returns the queue with it.
    #[inline]
    pub(super) fn append(
        &mut self,
        queue: Option<Ends<EntryId>>,
        entry: Entry<T>,
    ) -> Ends<EntryId> {
        let prev = queue.map(|queue| queue.last);
        let last = self.table.insert(Entry { prev, ..entry });
        let Some(Ends { first, last: before }) = queue else { return Ends { first: last, last } };
        self.table.at_mut(before).next = Some(last);
        Ends { first, last }
    }

    /// Removes a command from its flow's queue. Returns the rest of the queue.
    pub(super) fn without(&mut self, queue: Ends<EntryId>, id: EntryId) -> Option<Ends<EntryId>> {
        if queue.first == id {
            return self.at(id).rest(queue);
        }
        let Entry { prev, next, .. } = *self.at(id);
        debug_assert!(prev.is_some(), "only the first of a queue has none before it");
        let before = prev?;
        self.table.at_mut(before).next = next;
        if let Some(next) = next {
            self.table.at_mut(next).prev = prev;
        }
        Some(Ends { last: if queue.last == id { before } else { queue.last }, ..queue })
    }

    /// Notes a command's blocks.
    pub(super) fn locate(&mut self, id: EntryId, lba: u64, blocks: u32) {
        *self.located_mut(id) = Located { lba, blocks, held: None };
    }

    /// Finds a command's blocks.
    fn located_mut(&mut self, id: EntryId) -> &mut Located {
        // This table grows only where the table of entries had to.
        grown(&mut self.located, id.index().at(), Located::default)
    }

    /// Moves a command that has left its flow's queue into the elevator. `enter` inserts it and
    /// returns its resources there.
    pub(super) fn enter_elevator(
        &mut self,
        id: EntryId,
        enter: impl FnOnce(&Entry<T>, &Located) -> Option<Held>,
    ) {
        let located = *self.located_mut(id);
        let held = enter(self.at(id), &located);
        self.located_mut(id).held = held;
        self.table.at_mut(id).in_elevator = held.is_some();
    }

    /// Takes the resources of a command that is or was in the elevator.
    pub(super) fn take_held(&mut self, id: EntryId) -> Option<Held> {
        let held = self.located_mut(id).held.take();
        debug_assert!(held.is_some(), "a command in the elevator holds its number there");
        held
    }

    /// Counts the commands, and the places.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        self.table.sizes()
    }
}
