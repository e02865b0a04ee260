//! Events in the order of their times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A time in picoseconds since the start: a byte takes 80 of them at 100 Gb/s.
pub(crate) type Time = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NANO: Time = 1000;
/// Picoseconds in a microsecond.
pub(crate) const MICRO: Time = 1000 * NANO;
/// Picoseconds in a millisecond.
pub(crate) const MILLI: Time = 1000 * MICRO;
/// Picoseconds in a second.
pub(crate) const SECOND: Time = 1000 * MILLI;

/// Converts seconds to a time: zero where they are negative, the longest time where they are too
/// many.
pub(crate) fn from_seconds(seconds: f64) -> Time {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let time = (seconds * SECOND as f64).round() as Time;
    time
}

/// Converts a time to seconds.
pub(crate) fn seconds(time: Time) -> f64 {
    time as f64 / SECOND as f64
}

/// Events in the order of their times. Events of one time are in the order in which they were
/// announced, so that a run is the same each time.
#[derive(Debug)]
pub(crate) struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    announced: u64,
}

#[derive(Debug)]
struct Entry<E> {
    time: Time,
    number: u64,
    event: E,
}

impl<E> Events<E> {
    /// Makes an empty queue, with room for some events.
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::with_capacity(4096), announced: 0 }
    }

    /// Announces an event.
    #[inline]
    pub(crate) fn at(&mut self, time: Time, event: E) {
        self.announced += 1;
        self.heap.push(Entry { time, number: self.announced, event });
    }

    /// Takes the next event, unless it is later than `end`.
    #[inline]
    pub(crate) fn next(&mut self, end: Time) -> Option<(Time, E)> {
        if self.heap.peek()?.time > end {
            return None;
        }
        self.heap.pop().map(|entry| (entry.time, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// Orders the earliest as the greatest, since the heap hands out its greatest.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_then_in_the_order_of_their_announcement(
            times in prop::collection::vec(0u64..20, 1..200)
        ) {
            let mut events = Events::new();
            let mut expected: Vec<(Time, usize)> = times.iter().copied().zip(0..).collect();
            expected.iter().for_each(|&(time, event)| events.at(time, event));
            expected.sort();
            let taken: Vec<_> = std::iter::from_fn(|| events.next(Time::MAX)).collect();
            prop_assert_eq!(taken, expected);
        }
    }

    #[test]
    fn nothing_later_than_the_end_is_taken() {
        let mut events = Events::new();
        events.at(5, 'a');
        events.at(6, 'b');
        assert_eq!(events.next(5), Some((5, 'a')));
        assert_eq!(events.next(5), None);
        assert_eq!(events.next(6), Some((6, 'b')), "and it is still there afterwards");
    }

    #[test]
    fn times_and_seconds_are_the_same() {
        assert_eq!(from_seconds(98e-6), 98 * MICRO);
        assert_eq!(seconds(3 * MILLI), 0.003);
        assert_eq!(from_seconds(-1.0), 0);
    }
}
