//! What happens next: events in the order of their times.
//!
//! A radix heap: simulated time never goes back, so an event is kept by the highest bit in which
//! its time differs from the time of the last event that was taken. Adding one is a step; taking
//! one moves the events of one bucket, each to a lower one, so an event moves no more often than
//! its time has bits, and mostly twice or three times. Buckets keep their memory: nothing is
//! allocated once they have been as full as they get.

use std::collections::VecDeque;

/// Events that are still to come. Those of one time come in the order in which they were added, so
/// that a run is the same each time.
#[derive(Debug)]
pub struct Calendar<E> {
    /// The time of the event that was taken last.
    last: u64,
    /// The events at that time.
    now: VecDeque<E>,
    /// The later ones: bucket `i` has those whose times differ from `last` in bit `i`, and in no
    /// higher one.
    buckets: [Bucket<E>; 64],
    /// The buckets that are not empty, a bit for each.
    filled: u64,
    /// The bucket that is being emptied, kept for its memory.
    spare: Vec<(u64, E)>,
    count: usize,
}

#[derive(Debug)]
struct Bucket<E> {
    events: Vec<(u64, E)>,
    /// The least time of the events.
    least: u64,
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Calendar<E> {
    /// Makes an empty calendar that begins at the time 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            last: 0,
            now: VecDeque::new(),
            buckets: core::array::from_fn(|_| Bucket { events: Vec::new(), least: u64::MAX }),
            filled: 0,
            spare: Vec::new(),
            count: 0,
        }
    }

    /// Adds an event. One whose time is over happens next.
    #[inline]
    pub fn add(&mut self, time: u64, event: E) {
        self.count += 1;
        let time = time.max(self.last);
        self.keep(time, event);
    }

    /// Puts an event where it belongs.
    #[inline]
    fn keep(&mut self, time: u64, event: E) {
        let Some(bit) = (time ^ self.last).checked_ilog2() else {
            self.now.push_back(event);
            return;
        };
        if let Some(bucket) = self.buckets.get_mut(bit as usize) {
            bucket.events.push((time, event));
            bucket.least = bucket.least.min(time);
            self.filled |= 1 << bit;
        }
    }

    /// Returns the time of the next event.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<u64> {
        if !self.now.is_empty() {
            return Some(self.last);
        }
        let bucket = self.buckets.get(self.filled.trailing_zeros() as usize)?;
        Some(bucket.least)
    }

    /// Takes the next event with its time, unless it is later than `end`.
    #[inline]
    pub fn take(&mut self, end: u64) -> Option<(u64, E)> {
        if self.now.is_empty() {
            self.turn(end)?;
        } else if self.last > end {
            return None;
        }
        let event = self.now.pop_front()?;
        self.count -= 1;
        Some((self.last, event))
    }

    /// Goes on to the time of the next event, unless that is later than `end`.
    #[inline]
    fn turn(&mut self, end: u64) -> Option<()> {
        let at = self.filled.trailing_zeros();
        let bucket = self.buckets.get_mut(at as usize)?;
        if bucket.least > end {
            return None;
        }
        self.last = core::mem::replace(&mut bucket.least, u64::MAX);
        self.filled &= !(1 << at);
        let mut events = core::mem::replace(&mut bucket.events, core::mem::take(&mut self.spare));
        for (time, event) in events.drain(..) {
            self.keep(time, event);
        }
        self.spare = events;
        Some(())
    }

    /// Returns how many events are still to come.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no event is to come.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_then_in_the_order_in_which_they_were_added(
            // How long after the last event that was taken one comes, and how many are then taken.
            steps in prop::collection::vec((0u64..1 << 20, 0u32..4), 1..300)
        ) {
            let mut calendar = Calendar::new();
            let mut expected: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, (after, taken)) in steps.into_iter().enumerate() {
                // Some in the near, some at once, some in the far.
                let after = match number % 3 { 0 => after, 1 => after % 4, _ => after << 20 };
                calendar.add(now + after, number);
                let at = expected.partition_point(|(time, _)| *time <= now + after);
                expected.insert(at, (now + after, number));
                for _ in 0..taken {
                    prop_assert_eq!(calendar.next(), expected.first().map(|(time, _)| *time));
                    let Some(event) = calendar.take(u64::MAX) else { break };
                    prop_assert_eq!(event, expected.remove(0));
                    now = event.0;
                }
                prop_assert_eq!(calendar.len(), expected.len());
            }
            let left: Vec<_> = core::iter::from_fn(|| calendar.take(u64::MAX)).collect();
            prop_assert_eq!(left, expected);
            prop_assert!(calendar.is_empty());
        }
    }

    #[test]
    fn nothing_later_than_the_end_is_taken_and_what_is_earlier_may_still_come() {
        let mut calendar = Calendar::new();
        calendar.add(1000, 'c');
        assert_eq!(calendar.take(999), None);
        calendar.add(5, 'a');
        calendar.add(6, 'b');
        assert_eq!(calendar.take(5), Some((5, 'a')));
        assert_eq!(calendar.take(5), None);
        assert_eq!((calendar.next(), calendar.take(6)), (Some(6), Some((6, 'b'))));
        calendar.add(2, 'd');
        assert_eq!(calendar.take(6), Some((6, 'd')), "what is late comes at once");
        assert_eq!(calendar.take(u64::MAX), Some((1000, 'c')));
        assert_eq!(calendar.next(), None);
    }
}
