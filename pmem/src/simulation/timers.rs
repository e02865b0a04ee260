//! What happens at which time.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use units::Nanos;

use crate::message::{Ask, Push};

/// What happens by itself, or because a message arrives. Clients are named by index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The monitor makes its check.
    Monitor,
    /// The monitor is killed.
    MonitorStops,
    /// Another monitor starts.
    MonitorStarts,
    /// A period starts where there is no monitor.
    Period,
    /// A client's engine does what each interval brings.
    Client(usize),
    /// A client makes a request of its period with this number.
    Request(usize, u32),
    /// A push arrives.
    Push(usize, Push),
    /// A request for reports arrives.
    Ask(usize, Ask),
    /// A client vanishes, and the monitor is told or not.
    Vanishes(usize, bool),
    /// A client is stopped.
    Stops(usize),
    /// A client goes on.
    GoesOn(usize),
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Nanos,
    number: u64,
    event: Event,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Events in order of their time; those of the same time in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    set: u64,
}

impl Timers {
    /// Sets an event.
    pub(super) fn set(&mut self, at: Nanos, event: Event) {
        self.set += 1;
        self.heap.push(Reverse(Timer { at, number: self.set, event }));
    }

    /// Returns the time of the first event; [`Nanos::MAX`] where there is none.
    pub(super) fn next(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::MAX, |Reverse(timer)| timer.at)
    }

    /// Takes the first event if its time has come.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Event> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_setting() {
        let mut timers = Timers::default();
        for (at, client) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            timers.set(Nanos(at), Event::Stops(client));
        }
        let mut order = Vec::new();
        while let Some(Event::Stops(client)) = timers.take(Nanos(4)) {
            order.push(client);
        }
        assert_eq!((order, timers.next()), (vec![1, 3], Nanos(5)));
    }
}
