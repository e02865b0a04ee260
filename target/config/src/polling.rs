//! The behaviour of a reactor without work, and its clock.

use super::table::words;

/// The behaviour of a reactor without work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// Polls for a while, then sleeps until something happens.
    #[default]
    Adaptive,
    /// Never sleeps.
    Always,
    /// Sleeps at once.
    Never,
}

/// The words of `poll`.
pub(crate) const POLL: [(&str, Poll); 3] =
    [("adaptive", Poll::Adaptive), ("always", Poll::Always), ("never", Poll::Never)];

words! { Poll: POLL }

/// The source of the daemon's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockSource {
    /// The CPU's time stamp counter where it is invariant, else the kernel's `CLOCK_MONOTONIC`.
    #[default]
    Auto,
    /// The kernel's `CLOCK_MONOTONIC`.
    Monotonic,
}

/// The words of `clock`.
pub(crate) const CLOCK: [(&str, ClockSource); 2] =
    [("auto", ClockSource::Auto), ("monotonic", ClockSource::Monotonic)];

words! { ClockSource: CLOCK }
