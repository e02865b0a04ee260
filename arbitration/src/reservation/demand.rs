//! The time for which a tenant wants its reservation: while a command of it is outstanding, in the
//! target or in the device, and between one command and the next (docs/research/sources.md, F3: reservations
//! are kept).

use crate::sync::{AtomicU64, Ordering::Relaxed};

use units::Nanos;

use super::tally::Tally;

/// Divisor of a period that gives the time by which a budget may be ahead, at least.
const LEAD: u64 = 16;
/// Divisor of the difference by which a recent gap that became shorter is followed.
const FADE: u64 = 64;

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

/// Demand in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Time in ns for which a command was outstanding.
    pub(super) outstanding: u64,
    /// Time in ns between commands that counts as demand.
    pub(super) thought: u64,
    /// Number of these gaps that have ended.
    pub(super) gaps: u64,
}

/// The demand of a tenant, over all reactors.
///
/// A tenant wants something while a command of it waits in a reactor or is in the device. A gap
/// after that counts as demand too if it is shorter than the time in which one command is
/// reserved: the tenant thinks. A tenant with longer gaps does not ask for the reserved rate.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Time since which a command is outstanding, in ns; 0: none is.
    since: AtomicU64,
    /// Time until which a command was outstanding, in ns; 0: none was yet.
    until: AtomicU64,
    outstanding: Tally,
    thought: Tally,
    gaps: Tally,
    /// Recent think time, in ns.
    think: AtomicU64,
    /// The same of gaps of any length below a period, each of which counts as the time in which one
    /// command is reserved at most.
    pause: AtomicU64,
    /// Reactors in which commands wait, one bit each.
    waiting: AtomicU64,
    /// Commands in the device, or in its order by place.
    in_device: AtomicU64,
}

const fn bit(reactor: u32) -> u64 {
    1 << (reactor & 63)
}

/// Follows a longer gap quickly and a shorter one slowly: the window that a reservation asks for
/// depends on it.
fn follow(recent: &AtomicU64, gap: u64) {
    let before = recent.load(Relaxed);
    let next = match gap > before {
        true => before + (gap - before).div_ceil(2),
        false => before - (before - gap) / FADE,
    };
    recent.store(next, Relaxed);
}

impl Demand {
    /// Returns whether a command is outstanding.
    #[inline]
    pub(super) fn is_outstanding(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// Returns until when the tenant wanted something, or will have wanted it if no command comes:
    /// gaps of less than `interval` ns count.
    pub(super) fn until(&self, interval: u64) -> Nanos {
        match self.until.load(Relaxed) {
            0 => Nanos::ZERO,
            until => Nanos(until).after(interval),
        }
    }

    /// Returns whether the tenant wants something: a command is outstanding, or was less than
    /// `interval` ns ago.
    pub(super) fn is_wanting(&self, now: Nanos, interval: u64) -> bool {
        self.is_outstanding() || now < self.until(interval)
    }

    /// Returns the recent time between a completion and the next command, in ns, of gaps that
    /// count as demand.
    pub(super) fn think(&self) -> u64 {
        self.think.load(Relaxed)
    }

    /// Returns the recent time between a completion and the next command, in ns, also of gaps that are
    /// too long to count as demand: at most the time in which one command is reserved.
    pub(super) fn pause(&self) -> u64 {
        self.pause.load(Relaxed)
    }

    /// Counts the commands that the tenant has outstanding: those in the device and the `waiting`
    /// ones, at least one where any waits.
    pub(super) fn depth(&self, waiting: u64) -> u64 {
        let waiting = if self.waits() { waiting.max(1) } else { 0 };
        self.in_device.load(Relaxed).saturating_add(waiting)
    }

    /// Takes note that a command is outstanding from `arrived` on, which comes to be known in period
    /// `number`. Gaps of less
    /// than `interval` ns count as demand. Returns whether none was outstanding before.
    #[inline]
    pub(super) fn begin(
        &self,
        arrived: Nanos,
        (periods, number): (&Periods, u64),
        interval: u64,
    ) -> bool {
        if self.is_outstanding() {
            return false;
        }
        let until = self.until.load(Relaxed);
        let since = arrived.0.max(until).max(1);
        if self.since.compare_exchange(0, since, Relaxed, Relaxed).is_err() {
            return false;
        }
        let gap = since.saturating_sub(until);
        if until != 0 && gap > 0 && gap < periods.length {
            if gap < interval {
                self.thought.add(number, gap.min(Nanos(since).ns_since(periods.begin(number))));
                self.gaps.add(number, 1);
                follow(&self.think, gap);
            }
            follow(&self.pause, gap.min(interval));
        }
        true
    }

    /// Takes note that no command is outstanding any more, if that is so. The demand in period
    /// `number` counts as `least` ns or more.
    #[inline]
    pub(super) fn end_if_over(&self, now: Nanos, (periods, number): (&Periods, u64), least: u64) {
        if self.waits() || self.is_in_device() {
            return;
        }
        let since = self.since.load(Relaxed);
        if since == 0 || self.since.swap(0, Relaxed) == 0 {
            return;
        }
        self.until.store(now.0.max(1), Relaxed);
        let began = periods.begin(number).max(Nanos(since));
        self.outstanding.add(number, now.ns_since(began).max(least));
    }

    /// Notes that commands wait in a reactor.
    #[inline]
    pub(super) fn waits_in(&self, reactor: u32) {
        if self.waiting.load(Relaxed) & bit(reactor) == 0 {
            self.waiting.fetch_or(bit(reactor), Relaxed);
        }
    }

    /// Notes that no command waits in a reactor.
    #[inline]
    pub(super) fn waits_no_more_in(&self, reactor: u32) {
        if self.waiting.load(Relaxed) & bit(reactor) != 0 {
            self.waiting.fetch_and(!bit(reactor), Relaxed);
        }
    }

    /// Returns whether commands wait in any reactor.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    /// Returns whether a command is in the device, or in its order by place.
    pub(super) fn is_in_device(&self) -> bool {
        self.in_device.load(Relaxed) != 0
    }

    /// Notes that a command has gone to the device.
    #[inline]
    pub(super) fn sent(&self) {
        self.in_device.fetch_add(1, Relaxed);
    }

    /// Notes that a command that was [sent](Self::sent) is complete, or was taken back.
    #[inline]
    pub(super) fn came_back(&self) {
        let before = self.in_device.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a command comes back once");
    }

    /// Sums up the demand in a period that has ended.
    pub(super) fn in_period(&self, periods: &Periods, number: u64, interval: u64) -> Wanted {
        let (begin, end) = (periods.begin(number), periods.end(number));
        let mut wanted = Wanted {
            outstanding: self.outstanding.used_in(number),
            thought: self.thought.used_in(number),
            gaps: self.gaps.used_in(number),
        };
        match self.since.load(Relaxed) {
            0 => {
                // The gap that the period ended in.
                let gap = end.ns_since(self.until(0));
                if wanted.outstanding > 0 && gap < interval {
                    wanted.thought = wanted.thought.saturating_add(gap);
                }
            }
            since => {
                let tail = end.ns_since(begin.max(Nanos(since)));
                wanted.outstanding = wanted.outstanding.saturating_add(tail);
            }
        }
        wanted.outstanding = wanted.outstanding.min(periods.length);
        wanted.thought = wanted.thought.min(periods.length - wanted.outstanding);
        wanted
    }
}
