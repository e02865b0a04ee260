//! The time for which a tenant wants its reservation: while a command of it is outstanding, before the
//! arbiter, in it, or in the device, and between one command and the next (docs/research/sources.md, F3:
//! reservations are kept).

use crate::sync::{AtomicU64, Ordering::Relaxed};

use units::Nanos;

use super::cause::Cause;
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

/// A state that begins and ends, seen by all reactors.
#[derive(Debug, Default)]
struct Span {
    /// Time since which the state holds, in ns; 0: it does not hold.
    since: AtomicU64,
    /// Time until which it held, in ns; 0: it has not ended yet.
    until: AtomicU64,
}

impl Span {
    #[inline]
    fn holds(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// Begins the state, unless it holds. Returns whether it did not hold.
    #[inline]
    fn begin(&self, at: Nanos) -> bool {
        !self.holds() && self.since.compare_exchange(0, at.0.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Ends the state. Returns the time since which it held; `None`: it did not hold.
    #[inline]
    fn end(&self, at: Nanos) -> Option<Nanos> {
        if !self.holds() {
            return None;
        }
        let since = Some(self.since.swap(0, Relaxed)).filter(|since| *since != 0)?;
        self.until.store(at.0.max(1), Relaxed);
        Some(Nanos(since))
    }

    /// Computes for how long the state has held, in ns, from `begin` to `end`.
    fn lasts(&self, begin: Nanos, end: Nanos) -> u64 {
        match self.since.load(Relaxed) {
            0 => 0,
            since => end.ns_since(begin.max(Nanos(since))),
        }
    }

    /// Returns the time until which it held, and `more` ns more; 0 if it has not ended yet.
    fn until(&self, more: u64) -> Nanos {
        match self.until.load(Relaxed) {
            0 => Nanos::ZERO,
            until => Nanos(until).after(more),
        }
    }
}

/// The demand of a tenant, over all reactors.
///
/// A tenant wants something while a command of it waits before a reactor's arbiter, waits in the arbiter, or is in
/// the device. A gap after that counts as demand too if it is shorter than the time in which one command is
/// reserved: the tenant thinks. A tenant with longer gaps does not ask for the reserved rate.
///
/// The arbiter and the device know nothing of commands before the arbiter, so these ask for none of their time.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// A command is outstanding.
    wanted: Span,
    /// A command is in the arbiter or in the device.
    here: Span,
    /// A command is in the device.
    served: Span,
    outstanding: Tally,
    thought: Tally,
    gaps: Tally,
    /// Recent think time, in ns.
    think: AtomicU64,
    /// The same of gaps of any length below a period, each of which counts as the time in which one
    /// command is reserved at most.
    pause: AtomicU64,
    /// Reactors in which commands wait in the arbiter, one bit each.
    waiting: AtomicU64,
    /// Reactors in which commands wait for memory or data before they come to the arbiter, one bit each.
    announced: AtomicU64,
    /// Commands in the order by place.
    ordered: AtomicU64,
    /// Commands in the device.
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

fn set(bits: &AtomicU64, reactor: u32) {
    if bits.load(Relaxed) & bit(reactor) == 0 {
        bits.fetch_or(bit(reactor), Relaxed);
    }
}

fn clear(bits: &AtomicU64, reactor: u32) {
    if bits.load(Relaxed) & bit(reactor) != 0 {
        bits.fetch_and(!bit(reactor), Relaxed);
    }
}

impl Demand {
    /// Returns whether a command is outstanding.
    #[inline]
    pub(super) fn is_outstanding(&self) -> bool {
        self.wanted.holds()
    }

    /// Returns whether a command is in the arbiter or in the device.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.here.holds()
    }

    /// Returns until when a command was in the arbiter or in the device, and `interval` ns more: the tenant may think
    /// for so long.
    pub(super) fn here_until(&self, interval: u64) -> Nanos {
        self.here.until(interval)
    }

    /// Returns whether the tenant wants something of the device: a command is in the arbiter or in the device, or was
    /// less than `interval` ns ago.
    pub(super) fn is_wanting(&self, now: Nanos, interval: u64) -> bool {
        self.is_here() || now < self.here_until(interval)
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

    /// Counts the commands that the device may know of: those in it, and the `waiting` ones, at least one where any
    /// waits.
    pub(super) fn depth(&self, waiting: u64) -> u64 {
        let waiting = if self.waits() { waiting.max(1) } else { 0 };
        let sent = self.in_device.load(Relaxed).saturating_add(self.ordered.load(Relaxed));
        sent.saturating_add(waiting)
    }

    /// Notes that a command is outstanding from `arrived` on, which comes to be known in period
    /// `number`. Gaps of less than `interval` ns count as demand.
    #[inline]
    pub(super) fn begin(&self, arrived: Nanos, (periods, number): (&Periods, u64), interval: u64) {
        if self.is_outstanding() {
            return;
        }
        let until = self.wanted.until(0);
        let since = arrived.max(until);
        if !self.wanted.begin(since) {
            return;
        }
        let gap = since.ns_since(until);
        if until != Nanos::ZERO && gap > 0 && gap < periods.length {
            if gap < interval {
                self.thought.add(number, gap.min(since.ns_since(periods.begin(number))));
                self.gaps.add(number, 1);
                follow(&self.think, gap);
            }
            follow(&self.pause, gap.min(interval));
        }
    }

    /// Notes that a command is in the arbiter or the device. Returns whether none was.
    #[inline]
    pub(super) fn come_here(&self, now: Nanos) -> bool {
        self.here.begin(now)
    }

    /// Notes the end of the states that have ended. The demand in period `number` counts as `least` ns or more.
    #[inline]
    pub(super) fn end_if_over(&self, now: Nanos, (periods, number): (&Periods, u64), least: u64) {
        if self.in_device.load(Relaxed) != 0 {
            return;
        }
        self.served.end(now);
        if self.waits() || self.ordered.load(Relaxed) != 0 {
            return;
        }
        self.here.end(now);
        if self.announced.load(Relaxed) != 0 {
            return;
        }
        if let Some(since) = self.wanted.end(now) {
            let began = periods.begin(number).max(since);
            self.outstanding.add(number, now.ns_since(began).max(least));
        }
    }

    /// Notes that commands wait in a reactor's arbiter.
    #[inline]
    pub(super) fn waits_in(&self, reactor: u32) {
        set(&self.waiting, reactor);
    }

    /// Notes that no command waits in a reactor's arbiter.
    #[inline]
    pub(super) fn waits_no_more_in(&self, reactor: u32) {
        clear(&self.waiting, reactor);
    }

    /// Returns whether commands wait in any reactor's arbiter.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    /// Notes whether commands wait for memory or data in a reactor, before they come to the arbiter.
    pub(super) fn set_announced(&self, reactor: u32, are_there: bool) {
        match are_there {
            true => set(&self.announced, reactor),
            false => clear(&self.announced, reactor),
        }
    }

    /// Notes that a command has gone to the order by place.
    pub(super) fn ordered(&self) {
        self.ordered.fetch_add(1, Relaxed);
    }

    /// Notes that a command has gone to the device, from the order by place if `was_ordered`.
    #[inline]
    pub(super) fn sent(&self, now: Nanos, was_ordered: bool) {
        if self.in_device.fetch_add(1, Relaxed) == 0 {
            self.served.begin(now);
        }
        if was_ordered {
            self.came_back(true);
        }
    }

    /// Notes that a command that was [sent](Self::sent) is complete or was taken back, or has left the order by place
    /// if it was `in_order`.
    #[inline]
    pub(super) fn came_back(&self, in_order: bool) {
        let commands = if in_order { &self.ordered } else { &self.in_device };
        let before = commands.fetch_sub(1, Relaxed);
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
        if self.is_outstanding() {
            let tail = self.wanted.lasts(begin, end);
            wanted.outstanding = wanted.outstanding.saturating_add(tail);
        } else {
            // The gap that the period ended in.
            let gap = end.ns_since(self.wanted.until(0));
            if wanted.outstanding > 0 && gap < interval {
                wanted.thought = wanted.thought.saturating_add(gap);
            }
        }
        wanted.outstanding = wanted.outstanding.min(periods.length);
        wanted.thought = wanted.thought.min(periods.length - wanted.outstanding);
        wanted
    }

    /// Returns the cause of a period in which no command was complete, and at whose end some are outstanding: where
    /// they were for the longest time.
    pub(super) fn standstill(&self, periods: &Periods, number: u64) -> Cause {
        let within = |span: &Span| span.lasts(periods.begin(number), periods.end(number));
        let (served, here) = (within(&self.served), within(&self.here));
        let waited = here.saturating_sub(served);
        let before = within(&self.wanted).saturating_sub(here);
        if served > 0 && served >= waited.max(before) {
            Cause::Device
        } else if before > waited {
            Cause::Data
        } else {
            Cause::Order
        }
    }
}
