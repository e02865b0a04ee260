//! Limits on the reads and on the writes of a session.

use std::sync::OnceLock;

use units::Nanos;

use super::{Limiter, Rate, Turns, later};

/// The rates of one direction: reads, or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Commands per second; `None`: no limit.
    pub iops: Option<Rate>,
    /// Bytes per second; `None`: no limit.
    pub bandwidth: Option<Rate>,
}

impl Rates {
    /// Says whether there is a limit.
    #[must_use]
    pub fn is_limited(self) -> bool {
        self.iops.is_some() || self.bandwidth.is_some()
    }
}

/// The limiters of one direction.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// Commands per second.
    pub(crate) iops: Limiter,
    /// Bytes per second.
    pub(crate) bandwidth: Limiter,
    /// Reactors that wait for them.
    pub(crate) turns: Turns,
}

impl Direction {
    fn set(&self, now: Nanos, rates: Rates, burst: Nanos) {
        self.iops.set_with_burst(now, rates.iops, burst);
        self.bandwidth.set_with_burst(now, rates.bandwidth, burst);
    }

    /// Says whether one more command may pass now.
    ///
    /// # Errors
    /// The time at which it may, if nothing else is charged until then.
    #[inline]
    pub(crate) fn check(&self, now: Nanos) -> Result<(), Nanos> {
        later(self.iops.check(now), self.bandwidth.check(now))
    }

    /// Returns the time since which the limits let the next command pass.
    pub(crate) fn open_since(&self) -> Nanos {
        self.iops.open_since().max(self.bandwidth.open_since())
    }

    fn rates(&self) -> Rates {
        Rates { iops: self.iops.rate(), bandwidth: self.bandwidth.rate() }
    }
}

/// The limiters of both directions. They are allocated when a direction is first limited: most
/// sessions never are.
#[derive(Debug, Default)]
pub(crate) struct Directions {
    made: OnceLock<Box<[Direction; 2]>>,
}

impl Directions {
    /// Returns the limiters of a direction; `None`: none were ever set.
    #[inline]
    pub(crate) fn limiters(&self, write: bool) -> Option<&Direction> {
        let [reads, writes] = &**self.made.get()?;
        Some(if write { writes } else { reads })
    }

    /// Returns the rates of a direction.
    pub(crate) fn rates(&self, write: bool) -> Rates {
        self.limiters(write).map(Direction::rates).unwrap_or_default()
    }

    /// Sets the rates of reads and of writes.
    pub(crate) fn set(&self, now: Nanos, [reads, writes]: [Rates; 2], burst: Nanos) {
        if self.made.get().is_none() && !reads.is_limited() && !writes.is_limited() {
            return;
        }
        let [of_reads, of_writes] = &**self.made.get_or_init(Box::default);
        of_reads.set(now, reads, burst);
        of_writes.set(now, writes, burst);
    }
}
