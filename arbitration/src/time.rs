//! Time as the stages see it: an argument, never read.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since a start that the caller chooses. All arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all, and the start.
    pub const ZERO: Self = Self(0);
    /// Never.
    pub const MAX: Self = Self(u64::MAX);

    /// How long after `earlier` this is, in ns; 0 where it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This many ns later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Add<Duration> for Nanos {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        self.after(nanos(time))
    }
}

impl Sub<Duration> for Nanos {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(time)))
    }
}

/// A duration in ns; what does not fit is as long as can be.
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
