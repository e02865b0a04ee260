//! Rates.

use core::time::Duration;

/// A rate in bytes of payload per second, finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// No bytes at all.
    pub const ZERO: Self = Self(0.0);

    /// Makes a rate of bytes per second; NaN, infinite and negative input becomes zero.
    #[must_use]
    #[inline]
    pub const fn new(bytes_per_second: f64) -> Self {
        if bytes_per_second > 0.0 && bytes_per_second < f64::INFINITY {
            Self(bytes_per_second)
        } else {
            Self::ZERO
        }
    }

    /// Makes a rate of bits per second, as [`Rate::new`] does.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits_per_second: f64) -> Self {
        Self::new(bits_per_second / 8.0)
    }

    /// Computes the rate of `bytes` in `time`; zero where there was no time.
    #[must_use]
    #[inline]
    pub fn over(bytes: f64, time: Duration) -> Self {
        Self::new(bytes / time.as_secs_f64())
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> f64 {
        self.0
    }

    /// Returns the rate in whole bytes per second, rounded down.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
    pub const fn whole(self) -> u64 {
        self.0 as u64
    }

    /// Computes how many whole bytes the rate is in a time.
    #[must_use]
    #[inline]
    pub fn bytes_in(self, time: Duration) -> u64 {
        self.times(time.as_secs_f64()).whole()
    }

    /// Returns the rate in bits per second.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> f64 {
        self.0 * 8.0
    }

    /// Returns the lesser of two rates.
    #[must_use]
    #[inline]
    pub const fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }

    /// Returns the greater of two rates.
    #[must_use]
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// Multiplies the rate with a factor.
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

    /// Subtracts, down to zero.
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
        assert_eq!((Rate::new(3.9).whole(), Rate::new(1e30).whole()), (3, u64::MAX));
        assert_eq!(Rate::new(3.0).bytes_in(Duration::from_millis(1500)), 4);
    }
}
