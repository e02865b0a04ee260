//! Commands of a limit whose hosts were asked to send them again later.
//!
//! A host that waits for a retry leaves the limit unused. Without this account, commands that were
//! sent back would queue behind later arrivals, again and again: a Linux host fails a command after
//! five retries.
//!
//! The limit compensates for the time for which it was unused while commands were out, as far as
//! these take at its rate: a host is asked to stay away for no longer than it would have waited.
//! Compensation ends once these hosts are gone, or once the time of their retry has passed. Ten
//! seconds after all commands have come again, the rest is forgotten.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, try_update};

use units::Nanos;

use crate::overload::WAIT_MAX;

/// Commands that were sent back. Amounts are in the unit of the limit's rate, times in ns.
///
/// Threads may pass present times that differ a little. Amounts may be off by a command where
/// several threads change them at once; all are forgotten at the end of `until`.
#[derive(Debug, Default)]
pub(super) struct SentBack {
    /// Commands that have not come again.
    out: AtomicU64,
    /// The most that were out at once.
    most: AtomicU64,
    /// Time since which commands are out. Unused time before it is not made up for.
    since: AtomicU64,
    /// Time at which the last one came again; 0: some are out.
    back: AtomicU64,
    /// Time by which all commands have come again, or the returned ones have gone; 0: none was sent
    /// back.
    until: AtomicU64,
}

impl SentBack {
    /// Adds a command that will have come again by `until`.
    pub(super) fn add(&self, now: Nanos, amount: u64, until: Nanos) {
        if amount == 0 {
            return;
        }
        self.forget_old(now);
        let back = self.back.swap(0, Relaxed);
        if self.until.load(Relaxed) == 0 {
            self.since.store(now.0, Relaxed);
            self.most.store(0, Relaxed);
        } else if back != 0 {
            // The unused part of returned ones stays as it is.
            self.since.fetch_add(now.0.saturating_sub(back), Relaxed);
        }
        let more = |out: u64| out.saturating_add(amount);
        let before = try_update(&self.out, Relaxed, |out| Some(more(out)));
        self.most.fetch_max(before.map_or(0, more), Relaxed);
        self.until.fetch_max(until.0.max(1), Relaxed);
    }

    /// Notes that the hosts of the commands that are out may send them as late as `until`.
    pub(super) fn postpone(&self, until: Nanos) {
        if self.until.load(Relaxed) != 0 && self.out.load(Relaxed) != 0 {
            self.until.fetch_max(until.0, Relaxed);
        }
    }

    /// Removes a command that has come again. The limit was used until `paid`. A command waits in the
    /// target for [`WAIT_MAX`] at most.
    pub(super) fn remove(&self, now: Nanos, amount: u64, paid: Nanos) {
        if self.is_last(amount) && self.until.load(Relaxed) != 0 {
            self.since.fetch_max(paid.0.min(now.0), Relaxed);
            self.back.store(now.0.max(1), Relaxed);
            self.until.fetch_min(now.after(WAIT_MAX).0, Relaxed);
        }
    }

    /// Removes a command whose host has gone. Nothing is made up for where it was the last.
    pub(super) fn lose(&self, amount: u64) {
        if self.is_last(amount) {
            self.until.store(0, Relaxed);
        }
    }

    /// Takes out a command. Returns whether it was the last.
    fn is_last(&self, amount: u64) -> bool {
        let less = |out: u64| (out != 0).then_some(out.saturating_sub(amount));
        amount != 0 && try_update(&self.out, Relaxed, less).is_ok_and(|out| out <= amount)
    }

    /// Returns the amount of the commands that are to come again.
    pub(super) fn out(&self, now: Nanos) -> u64 {
        self.forget_old(now);
        self.out.load(Relaxed)
    }

    /// Returns the earliest time that may still be paid with: `now` where nothing is made up for.
    /// `time_of` computes the time of an amount at the limit's rate.
    #[inline]
    pub(super) fn earliest(&self, now: Nanos, time_of: impl Fn(u64) -> u64) -> Nanos {
        if self.until.load(Relaxed) == 0 { now } else { self.earliest_unused(now, time_of) }
    }

    #[cold]
    fn earliest_unused(&self, now: Nanos, time_of: impl Fn(u64) -> u64) -> Nanos {
        self.forget_old(now);
        if self.until.load(Relaxed) == 0 {
            return now;
        }
        let back = match self.back.load(Relaxed) {
            0 => 0,
            back => now.0.saturating_sub(back),
        };
        let since = self.since.load(Relaxed).saturating_add(back);
        let longest = time_of(self.most.load(Relaxed));
        Nanos(since.max(now.0.saturating_sub(longest)).min(now.0))
    }

    /// Forgets commands that were not resent in time: their hosts have given up.
    fn forget_old(&self, now: Nanos) {
        let until = self.until.load(Relaxed);
        if until != 0
            && until < now.0
            && self.until.compare_exchange(until, 0, Relaxed, Relaxed).is_ok()
        {
            self.out.store(0, Relaxed);
        }
    }
}
