//! Limits on the reads and on the writes of a session.

use std::sync::OnceLock;

use units::Nanos;

use super::turns::{Turns, Waiter};
use super::{Limiter, Rate};

/// The rates of one direction: reads, or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Commands per second; `None`: no limit.
    pub iops: Option<Rate>,
    /// Bytes per second; `None`: no limit.
    pub bandwidth: Option<Rate>,
}

impl Rates {
    /// Returns whether there is a limit.
    #[must_use]
    pub fn is_limited(self) -> bool {
        self.iops.is_some() || self.bandwidth.is_some()
    }
}

/// The content of a command, by which limits per second are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data that the host or the target sends: an operation and its bytes.
    Data,
    /// No data: an operation, and in bytes the time that the command takes at its device.
    Nothing,
    /// A later part of a command without data whose operation was charged with its first part. In bytes, its time is
    /// charged.
    Continued,
}

impl Content {
    /// Returns whether the host or the target sends data.
    #[inline]
    #[must_use]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Data)
    }

    /// Returns what limits are charged when a command of `bytes` goes.
    #[inline]
    pub(crate) const fn amount(self, bytes: u32) -> Amount {
        match self {
            Self::Data => Amount { operations: 1, bytes: bytes as u64 },
            Self::Nothing => Amount { operations: 1, bytes: 0 },
            Self::Continued => Amount { operations: 0, bytes: 0 },
        }
    }
}

/// The cost of a command at limits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

/// The limiters of all commands of a session, or of one direction.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    /// Commands per second.
    pub(crate) iops: Limiter,
    /// Bytes per second.
    pub(crate) bandwidth: Limiter,
    /// Reactors that wait for them.
    turns: Turns,
}

impl Limiters {
    pub(crate) fn set(&self, now: Nanos, rates: Rates, burst: Nanos) {
        self.iops.set_with_burst(now, rates.iops, burst);
        self.bandwidth.set_with_burst(now, rates.bandwidth, burst);
    }

    /// Checks whether one more command may pass now.
    ///
    /// # Errors
    /// The time at which it may, if nothing else is charged until then.
    #[inline]
    pub(crate) fn check(&self, now: Nanos) -> Result<(), Nanos> {
        later(self.iops.check(now), self.bandwidth.check(now))
    }

    /// Checks whether a reactor may let a command pass. A reactor that may not waits for the
    /// limits from then on.
    ///
    /// # Errors
    /// The time at which it may.
    #[inline]
    pub(crate) fn admit(&self, now: Nanos, waiter: Waiter) -> Result<(), Nanos> {
        let open = || self.iops.open_since().max(self.bandwidth.open_since());
        let admitted = self.check(now).and_then(|()| self.turns.check(now, waiter, open));
        admitted.inspect_err(|_| self.turns.wait(waiter))
    }

    /// Counts a command that has passed in a reactor's turn, with its cost over the reactor's weight.
    #[inline]
    pub(crate) fn count_turn(&self, now: Nanos, waiter: Waiter, step: impl FnOnce() -> u64) {
        self.turns.took(waiter, || self.check(now).is_err(), step);
    }

    /// Charges a command that has waited since `since`.
    #[inline]
    pub(crate) fn charge(&self, now: Nanos, since: Nanos, amount: Amount) {
        self.iops.charge(now, since, amount.operations);
        self.bandwidth.charge(now, since, amount.bytes);
    }

    /// Refunds the charge of a command.
    #[inline]
    pub(crate) fn give_back(&self, amount: Amount) {
        self.iops.give_back(amount.operations);
        self.bandwidth.give_back(amount.bytes);
    }

    pub(crate) fn rates(&self) -> Rates {
        Rates { iops: self.iops.rate(), bandwidth: self.bandwidth.rate() }
    }
}

/// The limiters of both directions. They are allocated when a direction is first limited: most
/// sessions never are.
#[derive(Debug, Default)]
pub(crate) struct Directions {
    made: OnceLock<Box<[Limiters; 2]>>,
}

impl Directions {
    /// Returns the limiters of a direction; `None`: none were ever set.
    #[inline]
    pub(crate) fn limiters(&self, write: bool) -> Option<&Limiters> {
        let [reads, writes] = &**self.made.get()?;
        Some(if write { writes } else { reads })
    }

    /// Returns the rates of a direction.
    pub(crate) fn rates(&self, write: bool) -> Rates {
        self.limiters(write).map(Limiters::rates).unwrap_or_default()
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

/// Returns the later of two times at which a command may pass.
#[inline]
fn later(one: Result<(), Nanos>, other: Result<(), Nanos>) -> Result<(), Nanos> {
    match (one, other) {
        (Err(one), Err(other)) => Err(one.max(other)),
        (Err(when), Ok(())) | (Ok(()), Err(when)) => Err(when),
        (Ok(()), Ok(())) => Ok(()),
    }
}
