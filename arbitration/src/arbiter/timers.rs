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
    /// Fewest idle timers that are worth sifting.
    const FEW: usize = 64;

    pub(super) fn start(&mut self, timer: Timer) {
        self.heap.push(Reverse(timer));
    }

    /// Answers when the next timer runs out.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(timer)| timer.when)
    }

    /// Takes out a timer that has run out by now.
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

    /// Removes the idle timers once they are the most. `is_needed` tells the others.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(when: u64, session: u32) -> Timer {
        Timer { when: Nanos(when), device: DeviceId(0), session: SessionId(session) }
    }

    #[test]
    fn timers_expire_in_order_and_on_time() {
        let mut timers = Timers::default();
        for when in [30, 10, 20] {
            timers.start(timer(when, 0));
        }
        assert_eq!(timers.next(), Some(Nanos(10)));
        assert_eq!(timers.pop(Nanos(9)), None);
        assert_eq!(timers.pop(Nanos(10)), Some(timer(10, 0)));
        assert_eq!(timers.pop(Nanos(25)), Some(timer(20, 0)));
        assert_eq!((timers.pop(Nanos(25)), timers.next()), (None, Some(Nanos(30))));
    }

    #[test]
    fn stale_timers_are_removed_and_others_kept() {
        let mut timers = Timers::default();
        for when in 0..10 {
            timers.start(timer(when, 1));
        }
        for when in 0..10_000 {
            timers.start(timer(when, 0));
            timers.note_idle();
            let few = when < 63;
            timers.sift(|timer| {
                assert!(!few, "all timers are looked at for the sake of a few");
                timer.session == SessionId(1)
            });
            assert!(timers.len() <= 10 + Timers::FEW, "{} timers", timers.len());
        }
        let needed = std::iter::from_fn(|| timers.pop(Nanos::MAX));
        assert_eq!(needed.filter(|timer| timer.session == SessionId(1)).count(), 10);
    }
}
