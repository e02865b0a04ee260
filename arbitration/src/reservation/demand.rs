//! The time for which a tenant asked for what it reserved, and what became of the periods in which
//! it did (docs/sources.md, F3: reservations are kept).

use crate::sync::{AtomicU64, Ordering::Relaxed};

use units::Nanos;

use super::tally::Tally;

/// Divisor of a period that gives the time by which a budget may be ahead, at least.
const LEAD: u64 = 16;

/// Periods of a reservation: they follow each other without a gap, numbered from 1 on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    pub(super) start: Nanos,
    /// Length of each in ns, at least 1.
    pub(super) length: u64,
}

impl Periods {
    /// Returns the end of a period, where the next one begins.
    #[inline]
    pub(super) fn end(&self, number: u64) -> Nanos {
        self.start.after(number.saturating_mul(self.length))
    }

    /// Returns when a period begins.
    #[inline]
    pub(super) fn begin(&self, number: u64) -> Nanos {
        self.end(number.saturating_sub(1))
    }

    /// Computes by how much time a budget may be ahead of a period, in ns, where it is due bit by
    /// bit: a sixteenth of the period, or so much that as many of `operations` commands may go as
    /// come at once.
    pub(super) fn lead(&self, burst: u32, operations: u64) -> u64 {
        let ahead = u128::from(self.length) * u128::from(burst.saturating_sub(1));
        let ahead = u64::try_from(ahead / u128::from(operations.max(1))).unwrap_or(u64::MAX);
        ahead.clamp(self.length / LEAD, self.length)
    }

    /// Computes the part of an amount that corresponds to `ns` of a period.
    pub(super) fn part(&self, amount: u64, ns: u64) -> u64 {
        let part = u128::from(amount) * u128::from(ns) / u128::from(self.length);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// The time for which commands waited, and the outcome of the periods in which they did.
///
/// On most devices the tenant asks for something while a command of it waits to be dispatched. On
/// one with a scheduling set it does so until its last charged command is complete: its commands
/// wait in the set too.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Time since which the tenant asks for something, in ns; 0: it asks for nothing.
    since: AtomicU64,
    /// Time until which the tenant last asked for something, in ns.
    until: AtomicU64,
    /// Time in the present period for which the tenant asked for something, in ns.
    waited: Tally,
    /// Reactors in which commands wait, one bit each.
    waiting: AtomicU64,
    /// Commands that were charged in the present period and are not complete.
    under_way: Tally,
    /// Commands in the set that were not charged.
    beside: AtomicU64,
    periods: AtomicU64,
    kept: AtomicU64,
}

const fn bit(reactor: u32) -> u64 {
    1 << (reactor & 63)
}

impl Demand {
    /// Returns since when the tenant asks for something; `None` while it asks for nothing.
    #[inline]
    pub(super) fn since(&self) -> Option<Nanos> {
        let since = self.since.load(Relaxed);
        (since != 0).then_some(Nanos(since))
    }

    /// Returns until when the tenant asked for something, before it asked for nothing.
    pub(super) fn until(&self) -> Nanos {
        Nanos(self.until.load(Relaxed))
    }

    /// Takes note that the tenant asks for something from `now` on. Returns whether it asked for
    /// nothing before.
    #[inline]
    pub(super) fn begin(&self, now: Nanos) -> bool {
        self.since.load(Relaxed) == 0
            && self.since.compare_exchange(0, now.0.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Takes note that the tenant asks for nothing any more. Its wait counts in period `number`, as
    /// `least` ns or more.
    #[inline]
    pub(super) fn end(&self, now: Nanos, (periods, number): (&Periods, u64), least: u64) {
        let since = self.since.load(Relaxed);
        if since == 0 || self.since.swap(0, Relaxed) == 0 {
            return;
        }
        self.until.store(now.0, Relaxed);
        let began = periods.begin(number).max(Nanos(since));
        self.waited.add(number, now.ns_since(began).max(least));
    }

    /// Notes that commands wait in a reactor.
    pub(super) fn waits_in(&self, reactor: u32) {
        if self.waiting.load(Relaxed) & bit(reactor) == 0 {
            self.waiting.fetch_or(bit(reactor), Relaxed);
        }
    }

    /// Notes that no command waits in a reactor. Returns whether none waits in any.
    pub(super) fn waits_no_more_in(&self, reactor: u32) -> bool {
        self.waiting.fetch_and(!bit(reactor), Relaxed) & !bit(reactor) == 0
    }

    /// Notes that a command that was charged in period `number` is on its way.
    pub(super) fn sent(&self, number: u64) {
        self.under_way.add(number, 1);
    }

    /// Notes that a command that was charged in period `number` is complete, or was taken back.
    pub(super) fn came_back(&self, number: u64) {
        self.under_way.take_back(number, 1);
    }

    /// Notes that a command that was not charged is on its way.
    pub(super) fn sent_beside(&self) {
        self.beside.fetch_add(1, Relaxed);
    }

    /// Notes that a command that was not charged is complete, or was taken back.
    pub(super) fn came_back_beside(&self) {
        // Commands that went before the reservation came into force were not counted.
        let _ = self.beside.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
    }

    /// Forgets the commands on their way that were not charged.
    pub(super) fn forget_beside(&self) {
        self.beside.store(0, Relaxed);
    }

    /// Says whether commands wait in any reactor.
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    /// Says whether nothing waits and nothing is under way, of what was charged in period `number`.
    pub(super) fn is_over(&self, number: u64) -> bool {
        !self.waits() && self.beside.load(Relaxed) == 0 && self.under_way.used_in(number) == 0
    }

    /// Counts period `old`, and those that passed before `new` without a call, as kept or not.
    /// `kept` says whether period `old` was, given the ns in it for which something was asked for.
    pub(super) fn count(
        &self,
        periods: &Periods,
        (old, new): (u64, u64),
        kept: impl FnOnce(u64) -> bool,
    ) {
        let since = self.since();
        let tail =
            since.map_or(0, |since| periods.end(old).ns_since(since.max(periods.begin(old))));
        let waited = self.waited.used_in(old).saturating_add(tail).min(periods.length);
        if waited == 0 {
            return;
        }
        let kept = kept(waited);
        // In the periods between, something waited and nothing was charged.
        let missed = if since.is_some() { new.saturating_sub(old + 1) } else { 0 };
        self.periods.fetch_add(1 + missed, Relaxed);
        self.kept.fetch_add(u64::from(kept), Relaxed);
    }

    /// Counts the periods that have ended: those in which something was asked for, and those of
    /// them that were kept.
    pub(super) fn kept(&self) -> (u64, u64) {
        (self.periods.load(Relaxed), self.kept.load(Relaxed))
    }
}
