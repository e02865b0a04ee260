//! Units: times and rates.

use core::time::Duration;

/// A time in nanoseconds since some start that all times of one process share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The time from `earlier` until this one; zero where that is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add<Duration> for Nanos {
    type Output = Self;

    #[inline]
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A rate in bytes of payload per second, finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);

    /// So many bytes per second; anything that is not a number, or negative, is none.
    #[must_use]
    #[inline]
    pub const fn new(bytes_per_second: f64) -> Self {
        if bytes_per_second > 0.0 && bytes_per_second < f64::INFINITY {
            Self(bytes_per_second)
        } else {
            Self::ZERO
        }
    }

    /// So many bits per second.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits_per_second: f64) -> Self {
        Self::new(bits_per_second / 8.0)
    }

    /// `bytes` in `time`; none where there was no time.
    #[must_use]
    #[inline]
    pub fn over(bytes: f64, time: Duration) -> Self {
        Self::new(bytes / time.as_secs_f64())
    }

    /// Bytes per second.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> f64 {
        self.0
    }

    /// Bits per second.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> f64 {
        self.0 * 8.0
    }

    /// This rate, scaled.
    #[must_use]
    #[inline]
    pub const fn times(self, factor: f64) -> Self {
        Self::new(self.0 * factor)
    }
}

impl core::ops::Add for Rate {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self::new(self.0 + other.0)
    }
}

impl core::ops::Sub for Rate {
    type Output = Self;

    /// Never below none.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self::new(self.0 - other.0)
    }
}

impl core::iter::Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        rates.fold(Self::ZERO, |sum, rate| sum + rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_always_a_number() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY] {
            assert_eq!(Rate::new(bad), Rate::ZERO);
        }
        assert_eq!(Rate::over(5.0, Duration::ZERO), Rate::ZERO);
        assert_eq!(Rate::new(1.0) - Rate::new(2.0), Rate::ZERO);
        assert_eq!(Rate::from_bits(8e6).bytes(), 1e6);
    }
}
