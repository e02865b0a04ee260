//! Shares of a device's time, exact enough to be added up.

use std::fmt;

/// A share of a device's time, in parts of 10^9. Sums saturate; a share derived from a budget is
/// rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utilisation(u64);

impl Utilisation {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The whole device.
    pub const WHOLE: Self = Self(1_000_000_000);

    /// Makes a utilisation of this many per cent.
    #[must_use]
    pub fn percent(percent: u8) -> Self {
        Self(u64::from(percent) * 10_000_000)
    }

    /// Makes the utilisation of `ns` out of every `period` ns, rounded up; with a period of 0, more
    /// than any device has.
    #[must_use]
    pub fn ratio(ns: u64, period: u64) -> Self {
        if period == 0 {
            return Self(u64::MAX);
        }
        let parts = (u128::from(ns) * u128::from(Self::WHOLE.0)).div_ceil(u128::from(period));
        Self(u64::try_from(parts).unwrap_or(u64::MAX))
    }

    /// Returns the time in ns that this share is of every `period` ns, rounded down.
    #[must_use]
    pub fn within(self, period: u64) -> u64 {
        let ns = u128::from(self.0) * u128::from(period) / u128::from(Self::WHOLE.0);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Adds two utilisations.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Subtracts `other`; nothing is left where that is more.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the utilisation in per cent, rounded down.
    #[must_use]
    pub const fn whole_percent(self) -> u64 {
        self.0 / 10_000_000
    }

    /// Returns the utilisation as a fraction: 1 is the whole device.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
    pub fn fraction(self) -> f64 {
        self.0 as f64 / Self::WHOLE.0 as f64
    }
}

impl std::iter::Sum for Utilisation {
    fn sum<I: Iterator<Item = Self>>(shares: I) -> Self {
        shares.fold(Self::NONE, Self::plus)
    }
}

impl fmt::Display for Utilisation {
    /// Writes the utilisation in per cent with two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} %", self.fraction() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_to_the_safe_side() {
        let thirds = Utilisation::ratio(1, 3).plus(Utilisation::ratio(2, 3));
        assert_eq!(thirds, Utilisation(1_000_000_001));
        assert_eq!(Utilisation::ratio(1, 3).within(3_000_000_000), 1_000_000_002);
        assert_eq!(Utilisation::percent(100), Utilisation::WHOLE);
        assert_eq!(Utilisation::ratio(1, 0).plus(Utilisation::WHOLE), Utilisation(u64::MAX));
        assert_eq!(Utilisation::percent(20).to_string(), "20.00 %");
    }
}
