//! Units that their device was too busy for (EAGAIN, EBUSY): they are submitted again, after longer
//! and longer waits, and given up after a while. Errors that may be effects of a device's removal wait here
//! too, to be classified once more. Time is an argument.

use std::time::Duration;

use units::{Calendar, Nanos};

/// The wait before a unit is submitted again for the first time; it doubles with each time.
const FIRST: Duration = Duration::from_micros(100);
/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_millis(10);
/// The time after which a unit is given up that its device was too busy for each time: less than
/// the 30 s after which a Linux host resets its controller.
const GIVE_UP: Duration = Duration::from_secs(10);

/// The delay before an error is classified once more. By then the kernel reports a removed device as gone: an NVMe device
/// that is removed under load returned EIO for 0.2 s before that.
const DOUBT: Duration = Duration::from_millis(500);

/// The tries of one unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    /// The time at which the device was too busy first.
    since: Option<Nanos>,
    wait: Duration,
}

impl Tries {
    /// Notes that the device was too busy. Returns the time of the next try; `None`: there is none.
    fn again(&mut self, now: Nanos) -> Option<Nanos> {
        let since = *self.since.get_or_insert(now);
        self.wait = (self.wait * 2).clamp(FIRST, LONGEST);
        (now.since(since) < GIVE_UP).then(|| now + self.wait)
    }
}

/// The units of a reactor that wait for devices, the earliest due ones in front.
#[derive(Debug, Default)]
pub(super) struct Busy {
    waiting: Calendar<u32>,
}

impl Busy {
    /// Takes a unit that its device was too busy for. Returns whether it is tried again.
    pub(super) fn take(&mut self, unit: u32, tries: &mut Tries, now: Nanos) -> bool {
        let due = tries.again(now);
        due.map(|due| self.waiting.insert(due, unit)).is_some()
    }

    /// Takes a unit whose error is to be classified once more.
    pub(super) fn doubt(&mut self, unit: u32, now: Nanos) {
        self.waiting.insert(now + DOUBT, unit);
    }

    /// Returns the time of the next try; `None`: nothing waits.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.waiting.next_time()
    }

    /// Takes out a unit whose time has come.
    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<u32> {
        self.waiting.pop_due(now).map(|(_, unit)| unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_device_is_tried_less_and_less_often_and_then_no_more() {
        let (mut busy, mut tries, mut now) = (Busy::default(), Tries::default(), Nanos(5));
        let start = now;
        let mut waits = Vec::new();
        while busy.take(7, &mut tries, now) {
            let due = busy.next().unwrap();
            assert_eq!(busy.pop_due(Nanos(due.0 - 1)), None);
            waits.push(due.since(now));
            assert!(waits.len() < 1100, "it is never given up");
            now = due;
            assert_eq!((busy.pop_due(now), busy.next()), (Some(7), None));
        }
        assert_eq!(waits[..3], [1, 2, 4].map(|n| Duration::from_micros(n * 100)));
        assert_eq!(waits.last(), Some(&LONGEST));
        assert!((GIVE_UP..GIVE_UP + LONGEST).contains(&now.since(start)));
    }

    #[test]
    fn an_error_is_looked_at_again_when_the_kernel_knows_whether_the_device_is_there() {
        let mut busy = Busy::default();
        busy.doubt(3, Nanos(7));
        assert_eq!(busy.next(), Some(Nanos(7) + DOUBT));
        let due = [6, 7].map(|at| busy.pop_due(Nanos(at) + DOUBT));
        assert_eq!(due, [None, Some(3)]);
    }

    #[test]
    fn units_are_due_in_the_order_of_their_times() {
        let mut busy = Busy::default();
        let mut tried = Tries::default();
        assert!(busy.take(1, &mut tried, Nanos(0)));
        assert!(busy.take(2, &mut tried, Nanos(0)), "its second wait is longer");
        assert!(busy.take(3, &mut Tries::default(), Nanos(0)));
        assert_eq!(busy.next(), Some(Nanos(100_000)));
        let due: Vec<u32> = std::iter::from_fn(|| busy.pop_due(Nanos(100_000))).collect();
        assert_eq!((due, busy.next()), (vec![1, 3], Some(Nanos(200_000))));
    }
}
