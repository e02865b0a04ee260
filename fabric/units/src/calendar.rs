//! An event calendar: pending events, ordered by time.
//!
//! A radix heap: time never goes back, so an event is stored by the highest bit in which its time
//! differs from the time of the last event that was removed. Insertion takes one step. Removal
//! moves the events of one bucket, each to a lower one; an event moves at most once for each bit of
//! its time, and mostly twice or three times. Buckets keep their memory: a calendar allocates
//! nothing once its buckets have been as full as they get.

use core::marker::PhantomData;
use std::collections::VecDeque;

use crate::Nanos;

/// Pending events, ordered by time. Events of one time leave in the order of their insertion, so
/// that a run is reproducible.
///
/// Times are [`Nanos`], or a number in any other unit.
#[derive(Debug)]
pub struct Calendar<E, T = Nanos> {
    /// The time of the event that was removed last.
    last: u64,
    /// The events at that time.
    current: VecDeque<E>,
    /// The later events: bucket `i` has the events whose times differ from `last` in bit `i`, and
    /// in no higher one.
    buckets: [Bucket<E>; 64],
    /// The buckets that are not empty, a bit for each.
    filled: u64,
    /// The memory of the bucket that was emptied last.
    spare: Vec<(u64, E)>,
    len: usize,
    times: PhantomData<T>,
}

#[derive(Debug)]
struct Bucket<E> {
    events: Vec<(u64, E)>,
    /// The least time of the events; the greatest number where there is none.
    least: u64,
}

impl<E, T: From<u64> + Into<u64>> Default for Calendar<E, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E, T: From<u64> + Into<u64>> Calendar<E, T> {
    /// Makes an empty calendar that begins at the time 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            last: 0,
            current: VecDeque::new(),
            buckets: core::array::from_fn(|_| Bucket { events: Vec::new(), least: u64::MAX }),
            filled: 0,
            spare: Vec::new(),
            len: 0,
            times: PhantomData,
        }
    }

    /// Inserts an event. An event earlier than the last removed one counts as simultaneous with it.
    #[inline]
    pub fn insert(&mut self, at: T, event: E) {
        self.len += 1;
        self.place(at.into().max(self.last), event);
    }

    /// Puts an event into its bucket.
    #[inline]
    fn place(&mut self, at: u64, event: E) {
        let Some(bit) = (at ^ self.last).checked_ilog2() else {
            self.current.push_back(event);
            return;
        };
        if let Some(bucket) = self.buckets.get_mut(bit as usize) {
            bucket.events.push((at, event));
            bucket.least = bucket.least.min(at);
            self.filled |= 1 << bit;
        }
    }

    /// Returns the time of the next event; `None` where the calendar is empty.
    #[must_use]
    #[inline]
    pub fn next_time(&self) -> Option<T> {
        if !self.current.is_empty() {
            return Some(self.last.into());
        }
        let bucket = self.buckets.get(self.filled.trailing_zeros() as usize)?;
        Some(bucket.least.into())
    }

    /// Removes the next event, and returns it with its time; `None` where there is none by `now`.
    #[inline]
    pub fn pop_due(&mut self, now: T) -> Option<(T, E)> {
        let now = now.into();
        if self.current.is_empty() {
            self.advance(now)?;
        } else if self.last > now {
            return None;
        }
        let event = self.current.pop_front()?;
        self.len -= 1;
        Some((self.last.into(), event))
    }

    /// Advances to the time of the next event, unless that is later than `now`.
    #[inline]
    fn advance(&mut self, now: u64) -> Option<()> {
        let lowest = self.filled.trailing_zeros();
        let bucket = self.buckets.get_mut(lowest as usize)?;
        if bucket.least > now {
            return None;
        }
        self.last = core::mem::replace(&mut bucket.least, u64::MAX);
        self.filled &= !(1 << lowest);
        let mut events = core::mem::replace(&mut bucket.events, core::mem::take(&mut self.spare));
        for (at, event) in events.drain(..) {
            self.place(at, event);
        }
        self.spare = events;
        Some(())
    }

    /// Returns the number of pending events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no event is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_leave_by_time_then_insertion(
            // The time of an event, the number of removals after it, and which events are due then.
            steps in prop::collection::vec((0u64..1 << 20, 0u32..4, 0u64..1 << 20), 1..300)
        ) {
            let mut calendar = Calendar::<_, u64>::new();
            let mut expected: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, (time, removals, patience)) in steps.into_iter().enumerate() {
                // Near, immediate, distant and past times.
                let at = match number % 4 {
                    0 => now + time,
                    1 => now + time % 4,
                    2 => now + (time << 20),
                    _ => now.saturating_sub(time),
                };
                calendar.insert(at, number);
                // A late event is due at once.
                let at = at.max(now);
                expected.insert(expected.partition_point(|(time, _)| *time <= at), (at, number));
                let due = match patience % 3 {
                    0 => u64::MAX,
                    1 => now + patience,
                    _ => now.saturating_sub(1),
                };
                for _ in 0..removals {
                    let next = expected.first().copied();
                    prop_assert_eq!(calendar.next_time(), next.map(|(time, _)| time));
                    let event = calendar.pop_due(due);
                    prop_assert_eq!(event, next.filter(|(time, _)| *time <= due));
                    let Some((time, _)) = event else { break };
                    expected.remove(0);
                    now = time;
                }
                prop_assert_eq!(calendar.len(), expected.len());
            }
            let left: Vec<_> = core::iter::from_fn(|| calendar.pop_due(u64::MAX)).collect();
            prop_assert_eq!(left, expected);
            prop_assert!(calendar.is_empty());
        }
    }
}
