//! The I/O buffers of one reactor, and the commands that wait for one: memory for reads and
//! in-capsule data, and the budget of data that hosts are asked for.

use std::collections::VecDeque;
use std::time::Duration;

use arbitration::memory;
use fabric::Nanos;
use fabric::queue::SlotId;

use super::budget::{DataBudget, Promise};
use super::held::HeldTotal;
use crate::machine::arena::{Memory, Use};
use crate::machine::key::Key;

/// Largest read in bytes that does not wait behind reads that need a larger buffer.
const SMALL: usize = 64 << 10;

/// The memory of a reactor that commands take turns for, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The most that hosts are asked for at one time, with buffers and promised.
    pub(crate) window: usize,
    /// Buffers for reads and for data that hosts are asked for.
    pub(crate) memory: usize,
    /// Buffers for in-capsule data.
    pub(crate) capsules: usize,
}

/// The I/O buffers of one reactor.
#[derive(Debug)]
pub(crate) struct Buffers<M: Memory> {
    pool: M,
    /// Buffers for in-capsule data. These buffers are apart from the others because a connection
    /// that finds none here is not read from, while commands that hold the others may be waiting
    /// for data of that connection.
    capsules: M,
    /// Blocks that devices hold for answers, in place of buffers of the pool.
    held: HeldTotal,
    budget: DataBudget,
    /// Commands with memory for read data that wait for a contiguous buffer, first come, first served.
    pub(crate) reads: VecDeque<(Key, SlotId)>,
    /// Commands that wait for a buffer for data from their hosts. Hosts may take their time, so no
    /// other command waits behind these.
    pub(crate) data: VecDeque<(Key, SlotId)>,
}

impl<M: Memory> Buffers<M> {
    /// Makes the buffers of a reactor from its pool, and from the pool for in-capsule data.
    pub(crate) fn new(pool: M, capsules: M) -> Self {
        let budget = DataBudget::new(pool.usage().1);
        let (held, reads, data) = Default::default();
        Self { pool, capsules, held, budget, reads, data }
    }

    /// Returns the sizes of what commands take turns for.
    pub(crate) fn sizes(&self) -> Sizes {
        let (window, memory) = (self.budget.window(), self.pool.usage().1);
        Sizes { window, memory, capsules: self.capsules.usage().1 }
    }

    /// Returns the bytes in use for data that hosts were asked for, and the bytes kept for such data of hosts that
    /// hold little.
    #[inline]
    pub(crate) fn not_for_reads(&self) -> (usize, usize) {
        (self.pool.data_used(), self.reserve_left())
    }

    /// Returns how many bytes are left of the reserve for data of hosts that hold little.
    #[inline]
    fn reserve_left(&self) -> usize {
        self.budget.reserve().saturating_sub(self.pool.reserve_used())
    }

    /// Returns how many bytes are promised now.
    pub(crate) fn promised(&self) -> usize {
        self.budget.promised()
    }

    /// Returns the bytes in use, and in total. Blocks that devices hold in place of buffers are in use.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let ((used, total), (more_used, more)) = (self.pool.usage(), self.capsules.usage());
        (used + self.held.bytes() + more_used, total + more)
    }

    /// Returns the total of the blocks that devices hold for answers.
    pub(crate) fn held(&self) -> &HeldTotal {
        &self.held
    }

    /// Takes a buffer for read data, unless it is large and others have waited longer for one.
    #[inline]
    pub(crate) fn for_read(&self, bytes: usize) -> Option<M::Buffer> {
        let in_turn = bytes <= SMALL || self.reads.is_empty();
        if in_turn { self.pool.take(bytes, Use::Any) } else { None }
    }

    /// Takes a buffer for the read that has waited longest.
    pub(crate) fn for_first_read(&self, bytes: usize) -> Option<M::Buffer> {
        self.pool.take(bytes, Use::Any)
    }

    /// Takes a buffer for in-capsule data.
    pub(crate) fn for_capsule(&self, bytes: usize) -> Option<M::Buffer> {
        self.capsules.take(bytes, Use::Any)
    }

    /// Returns whether [`Self::for_capsule`] would return a buffer now.
    #[inline]
    pub(crate) fn has_for_capsule(&self, bytes: usize) -> bool {
        self.capsules.has(bytes)
    }

    /// Takes a buffer for data from a host, if the share of the buffers for such data has room that is not
    /// promised.
    pub(crate) fn for_data(&self, bytes: usize) -> Option<M::Buffer> {
        // The reserve for data and for reads of hosts that hold little stays free.
        self.leaves(2 * self.budget.reserve(), bytes)
            .then(|| self.beside(self.budget.promised(), bytes))?
    }

    /// Returns whether `rest` bytes are left when `bytes` bytes more are in use. One command may always proceed.
    fn leaves(&self, rest: usize, bytes: usize) -> bool {
        let (used, all) = self.pool.usage();
        self.pool.data_used() == 0 || used + self.held.bytes() + bytes + rest <= all
    }

    /// Takes a buffer for data that has come: promises to others stand back.
    pub(crate) fn for_arrived(&self, bytes: usize) -> Option<M::Buffer> {
        self.beside(0, bytes)
    }

    /// Takes a buffer for data of a host that holds little, out of turn and of the reserve for data.
    /// Reads hold `read` bytes of theirs, of which the rest stays free.
    pub(crate) fn for_reserved(&self, bytes: usize, read: usize) -> Option<M::Buffer> {
        let [all, left, more] = [self.pool.usage().1, self.reserve_left(), bytes]
            .map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let fits = memory::fits_reserve(all, left, 0, more);
        let rest = self.budget.reserve().saturating_sub(read);
        if fits && self.leaves(rest, bytes) { self.pool.take(bytes, Use::Reserve) } else { None }
    }

    /// Takes a buffer for data of a tenant that memory is set aside for, out of turn.
    pub(crate) fn for_tenant(&self, bytes: usize) -> Option<M::Buffer> {
        let room = self.budget.has_reserve(self.pool.data_used(), bytes);
        let leaves = self.leaves(self.budget.reserve(), bytes);
        if room && leaves { self.pool.take(bytes, Use::Data) } else { None }
    }

    fn beside(&self, promised: usize, bytes: usize) -> Option<M::Buffer> {
        let used = self.pool.data_used() + promised;
        if self.budget.has_room(used, bytes) { self.pool.take(bytes, Use::Data) } else { None }
    }

    /// Promises `bytes` that will be free within `time`.
    pub(crate) fn promise(&mut self, bytes: usize, time: Duration) -> Option<Promise> {
        self.budget.promise(bytes, time)
    }

    /// Learns the rate at which buffers become free, while commands wait for one.
    pub(crate) fn learn(&mut self, now: Nanos) {
        if !self.data.is_empty() {
            self.budget.learn(now, self.pool.data_freed());
        }
    }

    /// Forgets a command that waits.
    pub(crate) fn forget(&mut self, command: (Key, SlotId)) {
        for waiting in [&mut self.reads, &mut self.data] {
            waiting.retain(|waiter| *waiter != command);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::testing::HeapArena;

    fn arena(bytes: usize) -> HeapArena {
        HeapArena::new(bytes, bytes.min(2 * SMALL))
    }

    fn buffers() -> Buffers<HeapArena> {
        Buffers::new(arena(1 << 20), arena(8 * 8192))
    }

    const BLOCK: usize = 64 << 10;

    #[test]
    fn f5_data_from_hosts_leaves_a_quarter_to_reads() {
        let buffers = buffers();
        let held: Vec<_> = std::iter::from_fn(|| buffers.for_data(BLOCK)).collect();
        assert_eq!(held.len() * BLOCK, 3 << 18, "three quarters");
        let reads: Vec<_> = std::iter::from_fn(|| buffers.for_read(BLOCK)).collect();
        assert_eq!(reads.len() * BLOCK, 1 << 18, "the rest");
        assert_eq!(buffers.usage(), (1 << 20, (1 << 20) + 8 * 8192));
        let capsules: Vec<_> = std::iter::from_fn(|| buffers.for_capsule(8192)).collect();
        assert!(capsules.len() == 8 && !buffers.has_for_capsule(8192));
    }

    #[test]
    fn hosts_that_hold_little_find_buffers_when_those_for_data_are_gone() {
        const KIB: usize = 1 << 10;
        let buffers = buffers();
        let _held: Vec<_> = std::iter::from_fn(|| buffers.for_data(BLOCK)).collect();
        assert!(buffers.for_reserved(BLOCK, 0).is_none(), "no more than a quarter of an eighth");
        assert_eq!(buffers.not_for_reads(), (768 * KIB, 128 * KIB));
        let large: Vec<_> = std::iter::from_fn(|| buffers.for_reserved(16 * KIB, 0)).collect();
        assert_eq!(large.len(), 5, "until a quarter of the rest is less");
        assert_eq!(buffers.not_for_reads(), (848 * KIB, 48 * KIB), "what is used is not kept too");
        let small: Vec<_> = std::iter::from_fn(|| buffers.for_reserved(4 * KIB, 0)).collect();
        assert_eq!(small.len(), 9, "small commands go on");
        let read = buffers.for_read(BLOCK);
        assert!(read.is_some(), "and reads have another eighth");
        assert_eq!(buffers.not_for_reads().0, 884 * KIB, "data alone");
        drop((large, small, read));
        assert_eq!(buffers.not_for_reads(), (768 * KIB, 128 * KIB));
    }

    #[test]
    fn f5_one_command_may_always_go_on() {
        let buffers = Buffers::new(arena(BLOCK), arena(8192));
        let only = buffers.for_data(BLOCK);
        assert!(only.is_some(), "more than the part for data, but nothing else is taken");
        assert!(buffers.for_data(1).is_none());
    }

    #[test]
    fn f5_what_was_promised_is_kept_for_what_comes() {
        let mut buffers = buffers();
        let held = RefCell::new(Vec::new());
        buffers.data.push_back((Key { index: 0, generation: 0 }, SlotId(0)));
        assert!(buffers.promise(BLOCK, Duration::from_millis(1)).is_none(), "nothing was freed");
        for ms in 0..1000_u64 {
            held.borrow_mut().extend(buffers.for_data(BLOCK));
            held.borrow_mut().clear();
            buffers.learn(Nanos(ms * 1_000_000));
        }
        // Of twelve buffers, one is free.
        let filled: Vec<_> = (0..11).map(|_| buffers.for_data(BLOCK).unwrap()).collect();

        let promise = buffers.promise(BLOCK, Duration::from_millis(4)).unwrap();
        assert!(buffers.for_data(BLOCK).is_none(), "the one that is free was promised");
        assert!(buffers.for_arrived(BLOCK).is_some(), "to data that has come");
        drop(promise);
        assert!(buffers.for_data(BLOCK).is_some());
        drop(filled);
    }

    #[test]
    fn a_large_read_does_not_overtake_those_that_wait() {
        let mut buffers = buffers();
        let first = (Key { index: 1, generation: 0 }, SlotId(3));
        buffers.reads.push_back(first);
        assert!(buffers.for_read(SMALL + 1).is_none());
        assert!(buffers.for_read(SMALL).is_some(), "it may fit where a large one does not");
        assert!(buffers.for_first_read(SMALL + 1).is_some());
        buffers.forget(first);
        assert!(buffers.for_read(SMALL + 1).is_some());
    }
}
