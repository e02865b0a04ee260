//! Round trips, and the time after which something is taken for lost (RFC 6298, as Linux has it).

use crate::network::time::{MILLI, Picos, SECOND};

/// The least part of the time-out that stands for how round trips vary: Linux's `TCP_RTO_MIN`.
const LEAST: Picos = 200 * MILLI;
/// The longest time-out: Linux's `TCP_RTO_MAX`.
const LONGEST: Picos = 120 * SECOND;
/// The time-out before the first round trip (RFC 6298, section 2.1).
const FIRST: Picos = SECOND;

/// The round trips of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    /// The smoothed round trip; 0 before the first.
    pub(super) smoothed: Picos,
    /// The shortest; 0 before the first.
    pub(super) least: Picos,
    /// How far round trips are from the smoothed one.
    varies: Picos,
    /// How often in a row the time-out was over.
    doubled: u32,
}

impl RoundTrips {
    /// Adds a round trip.
    #[inline]
    pub(super) fn add(&mut self, time: Picos) {
        let time = time.max(1);
        self.doubled = 0;
        if self.smoothed == 0 {
            (self.smoothed, self.varies, self.least) = (time, time / 2, time);
            return;
        }
        self.least = self.least.min(time);
        self.varies = (self.varies * 3 + self.smoothed.abs_diff(time)) / 4;
        self.smoothed = (self.smoothed * 7 + time) / 8;
    }

    /// Doubles the time-out until the next round trip (RFC 6298, section 5.5).
    pub(super) const fn back_off(&mut self) {
        self.doubled = self.doubled.saturating_add(1);
    }

    /// Computes the time-out.
    #[inline]
    pub(super) fn time_out(&self) -> Picos {
        let time = if self.smoothed == 0 {
            FIRST
        } else {
            self.smoothed + self.varies.saturating_mul(4).max(LEAST)
        };
        time.saturating_mul(1 << self.doubled.min(16)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::time::MICRO;

    #[test]
    fn the_time_out_is_200_ms_beyond_the_round_trip_and_doubles() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.time_out(), SECOND);
        trips.add(100 * MICRO);
        assert_eq!(trips.time_out(), 200 * MILLI + 100 * MICRO);
        trips.back_off();
        trips.back_off();
        assert_eq!(trips.time_out(), 4 * (200 * MILLI + 100 * MICRO));
        trips.add(180 * MICRO);
        assert_eq!((trips.smoothed, trips.least), (110 * MICRO, 100 * MICRO));
        assert_eq!(trips.time_out(), 200 * MILLI + 110 * MICRO);
        (0..40).for_each(|_| trips.back_off());
        assert_eq!(trips.time_out(), LONGEST);
    }

    #[test]
    fn round_trips_that_vary_much_lengthen_it() {
        let mut trips = RoundTrips::default();
        trips.add(400 * MILLI);
        assert_eq!(trips.time_out(), 400 * MILLI + 800 * MILLI);
    }
}
