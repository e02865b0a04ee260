//! Jobs that were carried out at once and complete later: the model of a slow device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabric::Nanos;
use slab::Slab;

use crate::job::Ended;

/// Jobs that were carried out and complete later.
#[derive(Debug)]
pub(crate) struct Timed<V, B> {
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    ended: Slab<Ended<V, B>>,
}

impl<V, B> Default for Timed<V, B> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), ended: Slab::new() }
    }
}

impl<V, B> Timed<V, B> {
    /// Keeps a job until the time at which it completes.
    pub(crate) fn insert(&mut self, until: Nanos, ended: Ended<V, B>) {
        self.order.push(Reverse((until, self.ended.insert(ended))));
    }

    /// Takes the next job that completes by now.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<Ended<V, B>> {
        self.next_due().filter(|until| *until <= now)?;
        let Reverse((_, place)) = self.order.pop()?;
        self.ended.try_remove(place)
    }

    /// Returns the time at which the next job completes.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.order.peek().map(|Reverse((until, _))| *until)
    }
}
