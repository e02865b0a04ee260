//! Commands of a limit whose hosts were told to send them again later.
//!
//! A host that waits for a retry leaves the limit unused. Without this account, commands that were
//! sent back would find themselves behind those that came meanwhile, again and again: a Linux host
//! fails a command after five retries.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, try_update};

use units::Nanos;

/// Commands that were sent back. All amounts are in the unit of the limit's rate.
///
/// Threads may pass present times that differ a little. Amounts may be off by a command where
/// several threads change them at once; all are forgotten at the end of `until`.
#[derive(Debug, Default)]
pub(super) struct SentBack {
    /// Commands that have not come again.
    out: AtomicU64,
    /// Commands that were sent back since nothing was out: the most unused time that is kept.
    kept: AtomicU64,
    /// Time by which all have come again, in ns; 0: none was sent back.
    until: AtomicU64,
}

impl SentBack {
    /// Adds a command that will have come again by `until`.
    pub(super) fn add(&self, now: Nanos, amount: u64, until: Nanos) {
        self.forget_old(now);
        let grown = |held: &AtomicU64| {
            _ = try_update(held, Relaxed, |held| Some(held.saturating_add(amount)));
        };
        grown(&self.out);
        grown(&self.kept);
        self.until.fetch_max(until.0.max(1), Relaxed);
    }

    /// Removes a command that has come again.
    pub(super) fn remove(&self, amount: u64) {
        let less = |out: u64| Some(out.saturating_sub(amount));
        _ = try_update(&self.out, Relaxed, less);
    }

    /// Returns the amount of the commands that are to come again.
    pub(super) fn out(&self, now: Nanos) -> u64 {
        self.forget_old(now);
        self.out.load(Relaxed)
    }

    /// Returns the most that may be made up for of the time in which the limit was not used.
    #[inline]
    pub(super) fn kept(&self, now: Nanos) -> u64 {
        if self.until.load(Relaxed) == 0 {
            return 0;
        }
        self.forget_old(now);
        self.kept.load(Relaxed)
    }

    /// Forgets what has not come again in time: its host has given up.
    fn forget_old(&self, now: Nanos) {
        let until = self.until.load(Relaxed);
        if until != 0
            && until < now.0
            && self.until.compare_exchange(until, 0, Relaxed, Relaxed).is_ok()
        {
            self.out.store(0, Relaxed);
            self.kept.store(0, Relaxed);
        }
    }
}
