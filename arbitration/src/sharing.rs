//! The number of reactors that change a counter: one, or several.

use crate::sync::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, try_update};

/// Reactors that one device may have.
pub const REACTORS_MAX: usize = 64;

/// The threads that change a counter. Every thread may read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Any number of threads.
    #[default]
    Several,
    /// One thread alone: then no change needs a locked instruction, each of which takes as long
    /// as a dozen others.
    One,
}

impl Sharing {
    /// Returns the sharing of a counter that this many reactors change.
    #[must_use]
    pub const fn for_reactors(reactors: usize) -> Self {
        if reactors <= 1 { Self::One } else { Self::Several }
    }

    /// Changes a counter to what `change` makes of its value, and returns the value before.
    ///
    /// # Errors
    /// The value, which stays where `change` returns `None`.
    #[inline]
    pub(crate) fn update(
        self,
        counter: &AtomicU64,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        match self {
            Self::Several => try_update(counter, SeqCst, change),
            Self::One => {
                let before = counter.load(Relaxed);
                counter.store(change(before).ok_or(before)?, Relaxed);
                Ok(before)
            }
        }
    }
}
