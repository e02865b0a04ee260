//! The requests that a device has taken, in the order in which they end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

/// Requests under way whose ends are known.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// The requests by their ends, then by the order in which they were taken.
    by_end: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    taken: u64,
}

impl UnderWay {
    /// Takes a request that ends at that time.
    pub(super) fn push(&mut self, at: Nanos, id: u64) {
        self.taken += 1;
        self.by_end.push(Reverse((at, self.taken, id)));
    }

    /// Returns the next end.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.by_end.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes out what ends by then, with the time of each end.
    pub(super) fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        while self.next().is_some_and(|at| at <= until)
            && let Some(Reverse((at, _, id))) = self.by_end.pop()
        {
            done.push((at, id));
        }
    }
}
