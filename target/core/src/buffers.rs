//! The I/O buffers of one reactor, and the commands that wait for one: what reads and in-capsule
//! data take, and the budget of what hosts are asked for.

use std::collections::VecDeque;
use std::time::Duration;

use fabric::Nanos;
use fabric::queue::SlotId;

use crate::budget::{DataBudget, Promise};
use crate::key::Key;
use crate::memory::{Memory, Use};

/// The I/O buffers of one reactor.
#[derive(Debug)]
pub(crate) struct Buffers<M: Memory> {
    pool: M,
    /// Buffers for in-capsule data. They are apart from the others because a connection that
    /// finds none here is not read from, and the others may be waiting for data that is still to
    /// be read from it.
    capsules: M,
    budget: DataBudget,
    /// Commands that wait for a buffer for what they read, first come, first served.
    pub(crate) reads: VecDeque<(Key, SlotId)>,
    /// Commands that wait for one for data from their hosts: hosts may take their time, and nobody
    /// else is to wait for them.
    pub(crate) data: VecDeque<(Key, SlotId)>,
}

impl<M: Memory> Buffers<M> {
    /// The buffers of a pool, and those for in-capsule data.
    pub(crate) fn new(pool: M, capsules: M) -> Self {
        let budget = DataBudget::new(pool.usage().1);
        Self { pool, capsules, budget, reads: VecDeque::new(), data: VecDeque::new() }
    }

    /// Bytes that hosts may be asked for at one time: with buffers, and promised.
    pub(crate) fn window(&self) -> usize {
        self.budget.window()
    }

    /// Bytes that are promised now.
    pub(crate) fn promised(&self) -> usize {
        self.budget.promised()
    }

    /// Bytes in use, and bytes in all.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let ((used, total), (more_used, more)) = (self.pool.usage(), self.capsules.usage());
        (used + more_used, total + more)
    }

    /// Takes a buffer for what a command reads, unless others have waited longer for one.
    #[inline]
    pub(crate) fn for_read(&self, bytes: usize) -> Option<M::Buffer> {
        if self.reads.is_empty() { self.pool.take(bytes, Use::Any) } else { None }
    }

    /// Takes a buffer for what the command reads that has waited longest.
    pub(crate) fn for_first_read(&self, bytes: usize) -> Option<M::Buffer> {
        self.pool.take(bytes, Use::Any)
    }

    /// Takes a buffer for in-capsule data.
    pub(crate) fn for_capsule(&self, bytes: usize) -> Option<M::Buffer> {
        self.capsules.take(bytes, Use::Any)
    }

    /// Whether [`Self::for_capsule`] would give a buffer now.
    #[inline]
    pub(crate) fn has_for_capsule(&self, bytes: usize) -> bool {
        self.capsules.has(bytes)
    }

    /// Whether a connection has as many of the buffers for in-capsule data, of `each` bytes, as are
    /// left: of k connections that flood, each gets no more than one part in k + 1, and one is left
    /// for the others.
    pub(crate) fn is_part_of_capsules(&self, held: u32, each: usize) -> bool {
        let (used, total) = self.capsules.usage();
        held > 0 && held as usize >= total.saturating_sub(used) / each.max(1)
    }

    /// Takes a buffer for data from a host, if its part of the buffers has one beside those that
    /// were promised to others.
    pub(crate) fn for_data(&self, bytes: usize) -> Option<M::Buffer> {
        self.beside(self.budget.promised(), bytes)
    }

    /// Takes a buffer for data that has come: promises to others stand back.
    pub(crate) fn for_arrived(&self, bytes: usize) -> Option<M::Buffer> {
        self.beside(0, bytes)
    }

    fn beside(&self, promised: usize, bytes: usize) -> Option<M::Buffer> {
        let used = self.pool.data_used() + promised;
        if self.budget.has_room(used, bytes) { self.pool.take(bytes, Use::Data) } else { None }
    }

    /// Promises `bytes` that will be free within `time`.
    pub(crate) fn promise(&mut self, bytes: usize, time: Duration) -> Option<Promise> {
        self.budget.promise(bytes, time)
    }

    /// Learns how fast buffers become free, while commands wait for one.
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
