//! Sets of reactors.

/// A set of reactors, by their numbers (0 to 63).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reactors(u64);

impl Reactors {
    /// No reactor.
    pub const NONE: Self = Self(0);

    /// Makes the set of the reactors whose bits are set: bit n for reactor n.
    #[inline]
    pub(crate) const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the set as bits: bit n for reactor n.
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether the set is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a reactor is in the set.
    #[must_use]
    pub const fn contains(self, reactor: u32) -> bool {
        self.0 >> (reactor & 63) & 1 != 0
    }

    #[inline]
    pub(crate) const fn without(self, reactor: u32) -> Self {
        Self(self.0 & !(1 << (reactor & 63)))
    }
}

impl Iterator for Reactors {
    type Item = u32;

    /// Takes the lowest number out.
    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let lowest = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}

impl std::ops::BitOrAssign for Reactors {
    #[inline]
    fn bitor_assign(&mut self, others: Self) {
        self.0 |= others.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_names_each_of_its_reactors_once() {
        let mut some = Reactors::of_bits(1 << 63 | 0b1001);
        assert!(some.contains(63) && some.contains(0) && !some.contains(1));
        assert_eq!(some.without(3).collect::<Vec<_>>(), [0, 63]);
        some |= Reactors::of_bits(2);
        assert_eq!(some.collect::<Vec<_>>(), [0, 1, 3, 63]);
        assert!(Reactors::NONE.is_empty() && !some.is_empty());
    }
}
