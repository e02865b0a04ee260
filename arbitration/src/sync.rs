//! The atomics that reactors share: the standard library's. With the feature `interleavings` they
//! are shuttle's, so that the models in `interleavings.rs` run in one order of steps after the
//! other.

#[cfg(not(feature = "interleavings"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

#[cfg(feature = "interleavings")]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
