//! The goal of a class on a link.

use core::time::Duration;

use crate::Rate;

/// The goal of a class on a congested link. Goals belong to classes, not to flows (docs/research/sources.md, E8): a new
/// flow takes from its own class only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ClassGoal {
    /// A share of the rest that the other goals leave, relative to other classes' shares: positive.
    Share(f64),
    /// A throughput.
    Rate(Rate),
    /// Round trips no longer than this, queues included.
    Latency(Duration),
    /// No goal: its flows send freely.
    #[default]
    Free,
}

impl ClassGoal {
    /// Returns whether classes of this goal are never held back.
    #[must_use]
    #[inline]
    pub const fn is_free(&self) -> bool {
        matches!(self, Self::Free | Self::Latency(_))
    }
}
