//! The atomics that reactors share: the standard library's. With the feature `interleavings` they
//! are shuttle's, so that the models in `interleavings.rs` run in one order of steps after the
//! other.

#[cfg(not(feature = "interleavings"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

#[cfg(feature = "interleavings")]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Changes a counter to what `change` makes of its value, and returns the value before; an error with the value,
/// which stays, where `change` returns `None`.
#[inline]
pub(crate) fn try_update(
    counter: &AtomicU64,
    order: Ordering,
    change: impl Fn(u64) -> Option<u64>,
) -> Result<u64, u64> {
    // Shuttle's atomics have the method by its former name, which the standard library deprecates.
    #[cfg(feature = "interleavings")]
    return counter.fetch_update(order, order, change);
    #[cfg(not(feature = "interleavings"))]
    counter.try_update(order, order, change)
}
