//! A reservation at work: budgets, charges and what was kept (docs/sources.md, F3: reservations are
//! kept).

use crate::sync::{AtomicU64, Ordering};

use units::Nanos;

use super::broker::Admitted;
use super::profile::Profile;
use super::tally::{MOST, Tally};
use super::terms::Budget;

/// An admitted reservation at work, shared by all reactors.
///
/// Periods follow each other without a gap from the start on; the first reactor to come after the
/// end of one goes on to the next. A budget in operations or bytes is kept in these units, and the
/// device time that the broker set aside for it keeps a tenant whose commands cost more than it
/// said from hurting others. What is not used in a period is not carried over.
///
/// Threads that find budget left at the same moment may each charge: a period may exceed its
/// budget by one command for each further thread. Nothing else is inexact.
#[derive(Debug)]
pub struct Reserved {
    profile: Profile,
    start: Nanos,
    period: u64,
    limits: Limits,
    /// Charge of the tenant's usual command at first, which must be left for one to be due.
    assumed: u64,
    /// The mean time of the tenant's usual command in the device.
    in_device: u64,
    /// The number of the tenant's usual commands that the device carries out in a period.
    commands: u64,
    /// The number of the present period, from 1 on.
    number: AtomicU64,
    used: Used,
    demand: Demand,
}

/// Divisor of a budget that gives the part by which it may be ahead of its period.
const LEAD: u64 = 16;

/// The limits of a period; `MOST` stands for no limit.
#[derive(Debug)]
struct Limits {
    operations: u64,
    bytes: u64,
    time: u64,
}

#[derive(Debug, Default)]
struct Used {
    operations: Tally,
    bytes: Tally,
    time: Tally,
}

/// The time for which commands waited, and the outcome of the periods in which they did.
#[derive(Debug, Default)]
struct Demand {
    /// Since when a command waits, in ns; 0: none waits.
    since: AtomicU64,
    /// ns of the present period in which commands waited.
    waited: Tally,
    periods: AtomicU64,
    kept: AtomicU64,
}

/// The charge of a command that was dispatched ahead of others. The charge ends by
/// [`Reserved::settle`] or [`Reserved::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Charge {
    number: u64,
    bytes: u32,
    assumed: u64,
}

impl Reserved {
    /// Makes a reservation whose first period begins at `now`.
    #[must_use]
    pub fn new(now: Nanos, admitted: &Admitted) -> Self {
        let Admitted { terms, translation, profile } = admitted;
        let (operations, bytes) = match terms.budget {
            Budget::Operations(n) => (n.min(MOST), MOST),
            Budget::Bytes(n) => (MOST, n.min(MOST)),
            Budget::DeviceTime(_) => (MOST, MOST),
        };
        let time = translation.device_time.0.min(MOST);
        Self {
            profile: *profile,
            start: now,
            period: terms.period.0.clamp(1, MOST),
            limits: Limits { operations, bytes, time },
            assumed: profile.assumed_of(terms).min(time),
            commands: terms.period.0 / profile.mean_of(terms).max(1),
            in_device: profile.mean_of(terms).saturating_mul(profile.parallelism.max(1).into()),
            number: AtomicU64::new(1),
            used: Used::default(),
            demand: Demand::default(),
        }
    }

    /// Returns the deadline of the tenant's next command, which is the end of the period, while
    /// budget is left for it at its worst; `None` when it has to take its turn among the others.
    ///
    /// A disk serves a budget as soon as there is demand, for it pays for two seeks in a period.
    /// Elsewhere the budget is due bit by bit: what it is at the present point of the period, and a
    /// sixteenth ahead. So a tenant with a large budget does not stop all others at the begin of
    /// every period, and what it gets by its class counts for its budget first.
    #[inline]
    pub fn due(&self, now: Nanos) -> Option<Nanos> {
        let number = self.present(now);
        (self.has_left(number) && self.is_on_time(now, number)).then(|| self.end(number))
    }

    /// Says whether budget is left in the period, so that a command is charged, due or not.
    #[inline]
    #[must_use]
    pub fn has_budget(&self, now: Nanos) -> bool {
        self.has_left(self.present(now))
    }

    #[inline]
    fn has_left(&self, number: u64) -> bool {
        let Limits { operations, bytes, time } = self.limits;
        (operations == MOST || self.used.operations.used(number) < operations)
            && (bytes == MOST || self.used.bytes.used(number) < bytes)
            && self.used.time.used(number).saturating_add(self.assumed) <= time
    }

    /// Returns the part of the budget that is used, and all of it.
    #[inline]
    fn progress(&self, number: u64) -> (u64, u64) {
        let Limits { operations, bytes, time } = self.limits;
        if operations != MOST {
            (self.used.operations.used(number), operations)
        } else if bytes != MOST {
            (self.used.bytes.used(number), bytes)
        } else {
            (self.used.time.used(number), time)
        }
    }

    /// Says whether no more of the budget is used than is due by now.
    #[inline]
    fn is_on_time(&self, now: Nanos, number: u64) -> bool {
        if self.profile.seeks {
            return true;
        }
        let (used, all) = self.progress(number);
        let point = now.ns_since(self.end(number - 1)).saturating_add(self.period / LEAD);
        u128::from(used) * u128::from(self.period) <= u128::from(all) * u128::from(point)
    }

    /// Returns the time at which more of the budget is due.
    fn on_time_at(&self, number: u64) -> Nanos {
        let (used, all) = self.progress(number);
        let at = u128::from(used) * u128::from(self.period) / u128::from(all.max(1));
        let point = u64::try_from(at).unwrap_or(u64::MAX).saturating_sub(self.period / LEAD);
        self.end(number - 1).after(point.saturating_add(1))
    }

    /// Returns the time at which to ask again whether a command is due, after it was not: at the
    /// end of the period if the budget in operations or bytes is used up; when more of it is due,
    /// where it is ahead of the period. Otherwise device time is wanting, and commands that are in
    /// the device may give some of theirs back: in the mean time that a command is there.
    #[must_use]
    pub fn again(&self, now: Nanos) -> Nanos {
        let number = self.present(now);
        let Limits { operations, bytes, .. } = self.limits;
        let used_up = (operations != MOST && self.used.operations.used(number) >= operations)
            || (bytes != MOST && self.used.bytes.used(number) >= bytes);
        let end = self.end(number);
        if used_up {
            return end;
        }
        let at =
            if self.has_left(number) { self.on_time_at(number) } else { now.after(self.in_device) };
        at.max(now.after(1)).min(end)
    }

    /// Charges a command that is dispatched ahead of others: its operation and its bytes, and the
    /// most of device time that will count until it is settled: its worst time on a disk, what the
    /// broker sets aside for a command of its size and kind elsewhere.
    #[inline]
    pub fn charge(&self, now: Nanos, write: bool, bytes: u32) -> Charge {
        let number = self.present(now);
        let assumed = self.profile.assumed(write, bytes).min(MOST);
        // Only what the budget is in is kept count of.
        if self.limits.operations != MOST {
            self.used.operations.add(number, 1);
        } else if self.limits.bytes != MOST {
            self.used.bytes.add(number, bytes.into());
        }
        self.used.time.add(number, assumed);
        // The period had demand, even if nothing had to wait.
        self.end_wait(now, number, 1);
        Charge { number, bytes, assumed }
    }

    /// Settles a charged command that has completed: gives back what it did not take of the device
    /// time it was charged, or, on a disk, adds what it took beyond. `actual_ns` is its share of
    /// the device's time (see [`ServiceTime`](super::ServiceTime)). After the end of the period it
    /// was charged in, nothing happens.
    ///
    /// On a disk all of it counts, as the seeks are the stream's own. Elsewhere a command's time
    /// tells of what others do as well, and no more counts than it was charged.
    #[inline]
    pub fn settle(&self, now: Nanos, charge: Charge, actual_ns: u64) {
        if self.present(now) != charge.number {
            return;
        }
        if actual_ns <= charge.assumed {
            self.used.time.take_back(charge.number, charge.assumed - actual_ns);
        } else if self.profile.seeks {
            self.used.time.add(charge.number, actual_ns - charge.assumed);
        }
    }

    /// Cancels a charged command that did not reach the device: all of the charge is given back, if
    /// its period is still the present one.
    pub fn cancel(&self, charge: Charge) {
        self.used.operations.take_back(charge.number, 1);
        self.used.bytes.take_back(charge.number, charge.bytes.into());
        self.used.time.take_back(charge.number, charge.assumed);
    }

    /// Takes note that a command of this tenant waits: to be called when one has come and when,
    /// after a round of dispatching, one is still there. The wait ends with the next charge or with
    /// [`Self::note_idle`].
    #[inline]
    pub fn note_demand(&self, now: Nanos) {
        self.present(now);
        let since = &self.demand.since;
        if since.load(Ordering::Relaxed) == 0 {
            let _ = since.compare_exchange(0, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes note that no command of this tenant waits any more, though none was charged: it went
    /// among the others, or was withdrawn.
    #[inline]
    pub fn note_idle(&self, now: Nanos) {
        if self.demand.since.load(Ordering::Relaxed) != 0 {
            let number = self.present(now);
            self.end_wait(now, number, 0);
        }
    }

    /// Computes how many of the tenant's usual commands the device carries out in a period, if it
    /// does nothing else.
    #[must_use]
    pub(crate) fn commands(&self) -> u64 {
        self.commands
    }

    /// Returns the end of the present period.
    #[must_use]
    pub fn next_period(&self, now: Nanos) -> Nanos {
        self.end(self.present(now))
    }

    /// Counts the periods that have ended: those in which commands waited, and those of them in
    /// which the reservation was kept.
    ///
    /// It was kept when the budget was used up, or when the tenant had the part of the budget that
    /// corresponds to the part of the period in which its commands waited: a tenant that asks for
    /// less than it reserved, or begins in the middle of a period, is not cheated.
    #[must_use]
    pub fn kept(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.demand.periods), load(&self.demand.kept))
    }

    fn end(&self, number: u64) -> Nanos {
        self.start.after(number.saturating_mul(self.period))
    }

    /// Returns the number of the period that `now` is in, or of a later one that another thread has
    /// seen.
    #[inline]
    fn present(&self, now: Nanos) -> u64 {
        let number = self.number.load(Ordering::Relaxed);
        if now < self.end(number) { number } else { self.roll(now, number) }
    }

    #[cold]
    fn roll(&self, now: Nanos, old: u64) -> u64 {
        let new = (now.ns_since(self.start) / self.period).saturating_add(1);
        let swap = (Ordering::Relaxed, Ordering::Relaxed);
        match self.number.compare_exchange(old, new, swap.0, swap.1) {
            Ok(_) => {
                self.count_periods(old, new);
                new
            }
            Err(other) => other.max(new),
        }
    }

    /// Ends the present wait, and counts it in period `number`, as `least` ns or more.
    #[inline]
    fn end_wait(&self, now: Nanos, number: u64, least: u64) {
        let since = Nanos(self.demand.since.load(Ordering::Relaxed));
        if since == Nanos::ZERO || self.demand.since.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        let began = self.end(number - 1).max(since);
        self.demand.waited.add(number, now.ns_since(began).max(least));
    }

    /// Counts period `old`, and those that passed before `new` without a call, as kept or not.
    fn count_periods(&self, old: u64, new: u64) {
        let since = Nanos(self.demand.since.load(Ordering::Relaxed));
        let waits = since != Nanos::ZERO;
        let tail = if waits { self.end(old).ns_since(since.max(self.end(old - 1))) } else { 0 };
        let waited = self.demand.waited.used_in(old).saturating_add(tail).min(self.period);
        if waited == 0 {
            return;
        }
        let kept = self.had_its_part(old, waited);
        // In the periods between, something waited and nothing was charged.
        let missed = if waits { new.saturating_sub(old + 1) } else { 0 };
        self.demand.periods.fetch_add(1 + missed, Ordering::Relaxed);
        self.demand.kept.fetch_add(u64::from(kept), Ordering::Relaxed);
    }

    /// Says whether a period's use comes up to the reserved rate over the time that commands waited
    /// in it, but for one command.
    fn had_its_part(&self, number: u64, waited: u64) -> bool {
        let part = |limit: u64| {
            let part = u128::from(limit) * u128::from(waited) / u128::from(self.period);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let Limits { operations, bytes, time } = self.limits;
        if operations != MOST {
            part(operations) <= self.used.operations.used_in(number)
        } else if bytes != MOST {
            part(bytes) <= self.used.bytes.used_in(number)
        } else {
            part(time) <= self.used.time.used_in(number).saturating_add(self.assumed)
        }
    }
}
