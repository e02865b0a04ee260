//! Tokens and the rates at which they are used up.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

/// A number of tokens, of which each stands for one I/O (docs/research/sources.md, H1: clients hold tokens).
/// Also a number of I/Os that had one. All arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No token.
    pub const ZERO: Self = Self(0);

    /// Computes the part of these tokens that belongs to `part` of the time `whole`, rounded down;
    /// no token where `whole` is zero.
    #[must_use]
    pub fn for_part(self, part: Duration, whole: Duration) -> Self {
        let tokens = u128::from(self.0).saturating_mul(part.as_nanos());
        let tokens = tokens.checked_div(whole.as_nanos()).unwrap_or(0);
        Self(u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    /// Rounds to the nearest number of tokens; negative values and NaN become zero.
    #[must_use]
    pub fn rounded(tokens: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast of a float saturates"
        )]
        Self(tokens.round() as u64)
    }

    /// Returns whether there is no token.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Tokens {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Tokens {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(tokens: I) -> Self {
        tokens.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A capacity in I/Os per second: C_G of a data node, C_L of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Iops(pub u64);

impl Iops {
    /// Computes the number of I/Os that the capacity suffices for in `time`, rounded down.
    #[must_use]
    pub fn in_time(self, time: Duration) -> Tokens {
        Tokens(self.0).for_part(time, Duration::from_secs(1))
    }
}

impl fmt::Display for Iops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IOPS", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_saturate_instead_of_wrapping_around() {
        assert_eq!(Tokens(3) - Tokens(5), Tokens::ZERO);
        assert_eq!(Tokens(u64::MAX) + Tokens(5), Tokens(u64::MAX));
        let all: Tokens = [Tokens(u64::MAX), Tokens(1)].into_iter().sum();
        assert_eq!(all, Tokens(u64::MAX));
        assert_eq!(Tokens::rounded(-3.0), Tokens::ZERO);
        assert_eq!(Tokens::rounded(f64::NAN), Tokens::ZERO);
        assert_eq!(Tokens::rounded(2.5), Tokens(3));
    }

    #[test]
    fn tokens_are_proportional_to_time() {
        let second = Duration::from_secs(1);
        assert_eq!(Tokens(50).for_part(Duration::from_millis(600), second), Tokens(30));
        assert_eq!(Tokens(50).for_part(second, Duration::ZERO), Tokens::ZERO);
        assert_eq!(Tokens(u64::MAX).for_part(Duration::MAX, second), Tokens(u64::MAX));
        assert_eq!(Iops(1_570_000).in_time(Duration::from_millis(1)), Tokens(1570));
    }
}
