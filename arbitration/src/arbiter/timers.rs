//! Timers of sessions that wait for their rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

use super::ids::DeviceId;
use crate::session::SessionId;

/// A session's timer at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) when: Nanos,
    pub(super) device: DeviceId,
    pub(super) session: SessionId,
}

/// All timers of an arbiter. A timer that is not needed any more stays until it runs out, or until
/// most of them are such.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    /// Timers that are not needed any more.
    idle: usize,
}

impl Timers {
    /// Fewer idle timers than this are not worth sifting.
    const FEW: usize = 64;

    pub(super) fn start(&mut self, timer: Timer) {
        self.heap.push(Reverse(timer));
    }

    /// Answers when the next timer runs out.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(timer)| timer.when)
    }

    /// Takes a timer out that has run out by now.
    #[inline]
    pub(super) fn pop(&mut self, now: Nanos) -> Option<Timer> {
        self.next().filter(|when| *when <= now)?;
        self.heap.pop().map(|Reverse(timer)| timer)
    }

    /// Notes that a timer in the heap is not needed any more.
    pub(super) fn note_idle(&mut self) {
        self.idle += 1;
    }

    /// Notes that a timer which was not needed has run out.
    pub(super) fn idle_ran_out(&mut self) {
        self.idle = self.idle.saturating_sub(1);
    }

    /// Takes the idle timers out once they are the most. `is_needed` tells the others.
    pub(super) fn sift(&mut self, is_needed: impl Fn(&Timer) -> bool) {
        if self.idle < Self::FEW || self.idle * 2 < self.heap.len() {
            return;
        }
        self.heap.retain(|Reverse(timer)| is_needed(timer));
        self.idle = 0;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}
