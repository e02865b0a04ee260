//! Time as the state machines see it: an argument, never a clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time, in nanoseconds since an origin that all times of one run share. All arithmetic
/// saturates: at the origin, and 584 years after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin. As a setting that is a length of time: no time.
    pub const ZERO: Self = Self(0);
    /// The end of all time, for a time that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time that has passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }

    /// Returns the time that has passed since `earlier`, in ns; 0 if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the point in time that is `ns` nanoseconds later.
    #[must_use]
    #[inline]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl From<u64> for Nanos {
    #[inline]
    fn from(time: u64) -> Self {
        Self(time)
    }
}

impl From<Nanos> for u64 {
    #[inline]
    fn from(time: Nanos) -> Self {
        time.0
    }
}

impl Add<Duration> for Nanos {
    type Output = Self;

    #[inline]
    fn add(self, time: Duration) -> Self {
        self.after(nanos(time))
    }
}

impl Sub<Duration> for Nanos {
    type Output = Self;

    #[inline]
    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(time)))
    }
}

/// Converts a duration to nanoseconds; one of more than 584 years becomes `u64::MAX`.
#[must_use]
#[inline]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_has_passed_since_a_later_point() {
        let (early, late) = (Nanos(3), Nanos(1_000_000_005));
        assert_eq!(late.since(early), Duration::new(1, 2));
        assert_eq!(late.ns_since(early), 1_000_000_002);
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.ns_since(late), 0);
    }

    #[test]
    fn time_stops_at_its_ends_instead_of_wrapping_around() {
        assert_eq!(Nanos(5) - Duration::from_nanos(7), Nanos::ZERO);
        assert_eq!(Nanos(5) - Duration::from_nanos(2), Nanos(3));
        assert_eq!(Nanos(5) + Duration::from_nanos(2), Nanos(7));
        assert_eq!(Nanos(5).after(2), Nanos(7));
        assert_eq!(Nanos(5) + Duration::MAX, Nanos::MAX);
        assert_eq!(Nanos(5) - Duration::MAX, Nanos::ZERO);
        assert_eq!(Nanos(5).after(u64::MAX), Nanos::MAX);
    }

    #[test]
    fn oversized_duration_saturates() {
        assert_eq!(nanos(Duration::from_micros(7)), 7_000);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
