//! The number of a period.

/// The number of a period of quality of service. It wraps around after 65,535, which takes 18 hours
/// where a period is a second.
///
/// The paper has no such numbers. They are in every message and every word that the two sides
/// share, so that late messages from an earlier period are recognised and do no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Period(pub u16);

impl Period {
    /// Returns the number of the period that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns how many periods this one comes after `other`; `None` if it is equal or earlier. A
    /// period is later if it is fewer than 32,768 steps ahead.
    #[must_use]
    pub const fn after(self, other: Self) -> Option<u16> {
        match self.0.wrapping_sub(other.0) {
            0 | 0x8000.. => None,
            steps => Some(steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_later_than_another_across_the_wrap() {
        assert_eq!(Period(u16::MAX).next(), Period(0));
        assert_eq!(Period(1).after(Period(u16::MAX)), Some(2));
        assert_eq!(Period(u16::MAX).after(Period(1)), None);
        assert_eq!(Period(7).after(Period(7)), None);
        assert_eq!(Period(0x8000).after(Period(0)), None);
    }
}
