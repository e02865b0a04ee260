//! Indices of places in tables. The typed identifiers of this crate are made of them.

use std::num::NonZeroU32;

/// The index of a place in a table. It is stored as the place's number plus 1, so that
/// `Option<Index>` takes no more room than `Index`: commands and nodes fit their cache lines by
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Index(NonZeroU32);

impl Index {
    /// Place 0.
    pub(crate) const FIRST: Self = Self(NonZeroU32::MIN);

    /// Makes the index of the place with this number; the first is 0.
    #[inline]
    pub(crate) fn nth(number: usize) -> Self {
        debug_assert!(number < u32::MAX as usize, "memory ends before a table has 2^32 places");
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    /// Returns the place's number.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// Returns the place's position in a table that leaves its first place unused: the stored
    /// number itself, without a subtraction for each command.
    #[inline]
    pub(crate) const fn behind_unused(self) -> usize {
        self.0.get() as usize
    }

    /// Returns the place's number as a position in a table.
    #[inline]
    pub(crate) const fn at(self) -> usize {
        self.number() as usize
    }
}

/// Finds the place with this number in a table. The table grows where it has no such place.
#[expect(clippy::indexing_slicing, reason = "the table has just been made large enough")]
#[inline]
pub(crate) fn grown<T>(table: &mut Vec<T>, at: usize, make: impl FnMut() -> T) -> &mut T {
    if at >= table.len() {
        table.resize_with(at + 1, make);
    }
    &mut table[at]
}

/// A typed name of a place.
pub(crate) trait Name: Copy {
    /// Names a place.
    fn from_index(index: Index) -> Self;

    /// Returns the place that is named.
    fn index(self) -> Index;
}

/// Makes newtypes of [`Index`] typed names.
macro_rules! names {
    ($($name:ty),+) => {
        $(impl $crate::index::Name for $name {
            #[inline]
            fn from_index(index: $crate::index::Index) -> Self {
                Self(index)
            }

            #[inline]
            fn index(self) -> $crate::index::Index {
                self.0
            }
        })+
    };
}

pub(crate) use names;

const _: () = assert!(size_of::<Option<Index>>() == 4);
