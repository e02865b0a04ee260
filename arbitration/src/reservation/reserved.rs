//! A reservation at work: budgets, charges and what was kept (docs/sources.md, F3: reservations are
//! kept).

use crate::sync::{AtomicU64, Ordering};

use units::Nanos;

use super::broker::Admitted;
use super::demand::{Demand, Periods};
use super::profile::Profile;
use super::promise::Promise;
use super::schedule::Claim;
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
    /// Whether commands go through a scheduling set.
    set: bool,
    periods: Periods,
    limits: Limits,
    /// First charge of the tenant's usual command, in ns. One is due only while this much is left.
    assumed: u64,
    /// The mean time of the tenant's usual command in the device, in ns.
    in_device: u64,
    /// The longest time of the tenant's usual command in the device, in ns.
    longest: u64,
    /// The number of the tenant's usual commands that the device carries out in a period.
    commands: u64,
    /// The number of the present period, from 1 on.
    number: AtomicU64,
    used: Used,
    /// Part of the charges in the present period that was completed.
    done: Used,
    /// Device time that corresponds to the part of the period in which nothing was asked for, in
    /// ns.
    forgone: Tally,
    demand: Demand,
    /// The time in ns by which a budget may be ahead of its period.
    lead: u64,
    /// Deadlines of single commands, where the tenant has an allowed latency.
    promise: Option<Promise>,
}

/// The limits of a period, in operations, bytes and ns of device time; `MOST`: no limit.
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

impl Used {
    /// Says whether anything was counted in a period.
    fn any(&self, number: u64) -> bool {
        [&self.operations, &self.bytes, &self.time].iter().any(|tally| tally.used_in(number) > 0)
    }
}

/// The charge of a command that was dispatched ahead of others. The charge ends by
/// [`Reserved::settle`] or [`Reserved::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Charge {
    number: u64,
    assumed: u64,
    /// When the command must be complete, for the tenant's allowed latency to be kept.
    due: Nanos,
    bytes: u32,
    /// Tells the reservation from another of the same session.
    tag: u32,
}

impl Charge {
    /// Says whether the command has a deadline of its own, by the tenant's allowed latency.
    pub(crate) fn has_deadline(&self) -> bool {
        self.due != Nanos::MAX
    }
}

impl Reserved {
    /// Makes a reservation whose first period begins at `now`.
    #[must_use]
    pub fn new(now: Nanos, admitted: &Admitted) -> Self {
        let Admitted { terms, translation, profile } = admitted;
        let (operations, bytes) = match translation.budget {
            Budget::Operations(n) => (n.min(MOST), MOST),
            Budget::Bytes(n) => (MOST, n.min(MOST)),
            Budget::DeviceTime(_) => (MOST, MOST),
        };
        let time = translation.device_time.0.min(MOST);
        let periods = Periods { start: now, length: translation.period.0.clamp(1, MOST) };
        // A disk pays for two seeks in a period, and periods that keep a latency are short.
        let lead = match profile.seeks || terms.latency.is_some() {
            true => periods.length,
            false => periods.lead(terms.burst, translation.operations),
        };
        let in_device = |share: u64| share.saturating_mul(profile.parallelism.max(1).into());
        Self {
            profile: *profile,
            set: profile.seeks,
            periods,
            limits: Limits { operations, bytes, time },
            assumed: profile.assumed_of(terms).min(time),
            commands: translation.period.0 / profile.mean_of(terms).max(1),
            in_device: in_device(profile.mean_of(terms)),
            longest: in_device(profile.worst_of(terms)),
            number: AtomicU64::new(1),
            used: Used::default(),
            done: Used::default(),
            forgone: Tally::default(),
            demand: Demand::default(),
            lead,
            promise: Promise::new(profile, terms),
        }
    }

    /// Sets whether commands go through a scheduling set; without this, they do on a device that
    /// seeks (see [`Device::is_bounded`](crate::device::Device::is_bounded)).
    #[must_use]
    pub fn in_set(mut self, set: bool) -> Self {
        self.set = set;
        self
    }

    /// Returns what tells this reservation's charges from those of another.
    fn tag(&self) -> u32 {
        u32::try_from(self.periods.start.0 & u64::from(u32::MAX)).unwrap_or(0)
    }

    /// Returns the deadline of the tenant's next command, which is the end of the period, while
    /// budget is left for it at its worst; `None` when it has to take its turn among the others.
    ///
    /// On a disk, a budget is due as soon as there is demand, for it pays for two seeks in a period;
    /// so is a budget whose periods keep a latency. Any other is due bit by bit: its part at the
    /// present point of the period, and a sixteenth ahead, or as many commands as may come at once.
    /// So a tenant with a large budget does not stop all others as each period begins, and what it
    /// gets by its class counts for its budget first.
    #[inline]
    pub fn due(&self, now: Nanos) -> Option<Nanos> {
        let number = self.present(now);
        (self.has_left(number) && self.is_on_time(now, number)).then(|| self.periods.end(number))
    }

    /// Says whether budget is left in the period, so that a command is charged, due or not.
    #[inline]
    #[must_use]
    pub fn has_budget(&self, now: Nanos) -> bool {
        self.has_left(self.present(now))
    }

    #[inline]
    fn has_left(&self, number: u64) -> bool {
        !self.is_used_up(number)
            && self.time_used(number).saturating_add(self.assumed) <= self.limits.time
    }

    /// Says whether nothing is left of a budget in operations or bytes.
    #[inline]
    fn is_used_up(&self, number: u64) -> bool {
        let Limits { operations, bytes, .. } = self.limits;
        (operations != MOST && self.used.operations.used(number) >= operations)
            || (bytes != MOST && self.used.bytes.used(number) >= bytes)
    }

    /// Returns the device time that is used, or was forgone, in ns.
    #[inline]
    fn time_used(&self, number: u64) -> u64 {
        let used = self.used.time.used(number);
        if !self.set {
            return used;
        }
        used.saturating_add(self.forgone.used(number))
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
        let (used, all) = self.progress(number);
        let point = now.ns_since(self.periods.begin(number)).saturating_add(self.lead);
        u128::from(used) * u128::from(self.periods.length) <= u128::from(all) * u128::from(point)
    }

    /// Returns the time at which more of the budget is due.
    fn on_time_at(&self, number: u64) -> Nanos {
        let (used, all) = self.progress(number);
        let length = self.periods.length;
        let at = u128::from(used) * u128::from(length) / u128::from(all.max(1));
        let point = u64::try_from(at).unwrap_or(u64::MAX).saturating_sub(self.lead);
        self.periods.begin(number).after(point.saturating_add(1))
    }

    /// Returns the time at which to ask again whether a command is due, after it was not: at the
    /// end of the period if the budget in operations or bytes is used up; when more of it is due,
    /// where it is ahead of the period. Otherwise device time is wanting, and commands that are in
    /// the device may give some of theirs back: in the mean time that a command is there.
    #[must_use]
    pub fn again(&self, now: Nanos) -> Nanos {
        let number = self.present(now);
        let end = self.periods.end(number);
        if self.is_used_up(number) {
            return end;
        }
        let at =
            if self.has_left(number) { self.on_time_at(number) } else { now.after(self.in_device) };
        at.max(now.after(1)).min(end)
    }

    /// Charges a command that is dispatched ahead of others for its operation, its bytes, and the
    /// most device time that will count until it is settled: on a disk its worst time, elsewhere
    /// what the broker sets aside for a command of its size and kind.
    #[inline]
    pub fn charge(&self, now: Nanos, write: bool, bytes: u32) -> Charge {
        self.charge_waited(now, now, write, bytes)
    }

    /// Charges a command as [`Self::charge`] does, which has waited since `arrived`.
    #[inline]
    pub fn charge_waited(&self, now: Nanos, arrived: Nanos, write: bool, bytes: u32) -> Charge {
        let number = self.present(now);
        let assumed = self.profile.assumed(write, bytes).min(MOST);
        self.count(&self.used, number, bytes);
        self.used.time.add(number, assumed);
        if self.set {
            self.demand.sent(number);
            self.begin_demand(now, number);
        } else {
            // The period had demand, even if nothing had to wait.
            self.demand.end(now, (&self.periods, number), 1);
        }
        let due = self.promise.as_ref().map(|promise| promise.due(arrived, bytes));
        Charge { number, assumed, due: due.unwrap_or(Nanos::MAX), bytes, tag: self.tag() }
    }

    /// Counts a command in what the budget is in, where that is not device time.
    #[inline]
    fn count(&self, into: &Used, number: u64, bytes: u32) {
        if self.limits.operations != MOST {
            into.operations.add(number, 1);
        } else if self.limits.bytes != MOST {
            into.bytes.add(number, bytes.into());
        }
    }

    /// Settles a charged command that has completed: gives back what it did not take of the device
    /// time it was charged, or, on a disk, adds what it took beyond. `actual_ns` is its share of
    /// the device's time (see [`ServiceTime`](super::ServiceTime)). After the end of the period it
    /// was charged in, nothing happens: it was late.
    ///
    /// On a disk all of the time counts, as the seeks are the stream's own. Elsewhere a command's
    /// time tells of what others do as well, and no more counts than the command was charged.
    #[inline]
    pub fn settle(&self, now: Nanos, charge: Charge, actual_ns: u64) {
        // What is complete at the very end of a period is complete in it.
        let number = self.present(Nanos(now.0.saturating_sub(1)));
        if charge.tag != self.tag() {
            return;
        }
        if number == charge.number {
            let mut counted = actual_ns;
            if actual_ns <= charge.assumed {
                self.used.time.take_back(number, charge.assumed - actual_ns);
            } else if self.profile.seeks {
                self.used.time.add(number, actual_ns - charge.assumed);
            } else {
                counted = charge.assumed;
            }
            self.count_done(number, charge.bytes, counted);
        }
        if let Some(promise) = &self.promise {
            promise.note(now, charge.due, number);
        }
        self.note_over(now, charge, number);
    }

    /// Takes note that a command that was not charged has completed: the worst time of those under
    /// way left no budget for it when it went. The tenant has had it all the same. `served` is the
    /// command's share of the device's time, in ns; `None` where the device did not carry it out.
    pub(crate) fn note_back(&self, now: Nanos, bytes: u32, served: Option<u64>) {
        let number = self.present(Nanos(now.0.saturating_sub(1)));
        if let Some(actual_ns) = served {
            self.count_done(number, bytes, actual_ns);
        }
        self.demand.came_back_beside();
        self.end_if_over(now, number);
    }

    /// Takes note that a command of the tenant goes without being charged.
    pub(crate) fn note_beside(&self) {
        if self.set {
            self.demand.sent_beside();
        }
    }

    /// Counts a command as completed in a period, in what the budget is in.
    #[inline]
    fn count_done(&self, number: u64, bytes: u32, actual_ns: u64) {
        if self.limits.operations == MOST && self.limits.bytes == MOST {
            self.done.time.add(number, actual_ns);
        } else {
            self.count(&self.done, number, bytes);
        }
    }

    /// Cancels a charged command that did not reach the device: all of the charge is given back, if
    /// its period is still the present one.
    pub fn cancel(&self, now: Nanos, charge: Charge) {
        if charge.tag != self.tag() {
            return;
        }
        self.used.operations.take_back(charge.number, 1);
        self.used.bytes.take_back(charge.number, charge.bytes.into());
        self.used.time.take_back(charge.number, charge.assumed);
        let number = self.present(now);
        self.note_over(now, charge, number);
    }

    /// Notes that a charged command is no longer under way.
    #[inline]
    fn note_over(&self, now: Nanos, charge: Charge, number: u64) {
        if self.set {
            self.demand.came_back(charge.number);
            self.end_if_over(now, number);
        }
    }

    /// Ends the demand if nothing waits and nothing is under way.
    fn end_if_over(&self, now: Nanos, number: u64) {
        if self.demand.is_over(number) {
            self.demand.end(now, (&self.periods, number), 1);
        }
    }

    /// Takes note that a command of this tenant waits in a reactor. The caller calls this when a
    /// command has come and when, after a round of dispatching, one is still there. The wait ends
    /// with the next charge or with [`Self::note_idle`]; on a disk with the last command that was
    /// charged.
    #[inline]
    pub fn note_demand(&self, now: Nanos, reactor: u32) {
        let number = self.present(now);
        if self.set {
            self.demand.waits_in(reactor);
        }
        self.begin_demand(now, number);
    }

    /// Takes note that the tenant asks for something. On a disk, the device time of the wait before
    /// that is forgone: asked for all at once, it would make others late.
    #[inline]
    fn begin_demand(&self, now: Nanos, number: u64) {
        if self.demand.since().is_some() {
            return;
        }
        let forgone = if self.set { self.forgone_until(now, number) } else { 0 };
        if self.demand.begin(now) && self.set {
            self.forgone.add(number, forgone);
        }
    }

    /// Computes the device time, in ns, that the tenant has forgone since it last asked for
    /// something: the budget for the time since then, at most what it has left beyond the budget
    /// for the rest of the period.
    fn forgone_until(&self, now: Nanos, number: u64) -> u64 {
        let (periods, budget) = (&self.periods, self.limits.time);
        let idle = now.ns_since(self.demand.until().max(periods.begin(number)));
        let rest = periods.part(budget, periods.end(number).ns_since(now));
        let left = budget.saturating_sub(self.time_used(number));
        periods.part(budget, idle).min(left.saturating_sub(rest))
    }

    /// Takes note that no command of this tenant waits in a reactor any more, though none was
    /// charged: the last went among the others, or was withdrawn.
    #[inline]
    pub fn note_idle(&self, now: Nanos, reactor: u32) {
        if (self.set && !self.demand.waits_no_more_in(reactor)) || self.demand.since().is_none() {
            return;
        }
        let number = self.present(now);
        if !self.set || self.demand.is_over(number) {
            self.demand.end(now, (&self.periods, number), 0);
        }
    }

    /// Takes note that the reservation is no longer in force: what waits or is under way no longer
    /// counts for it.
    pub(crate) fn note_end(&self, now: Nanos, reactor: u32) {
        self.demand.forget_beside();
        if self.demand.waits_no_more_in(reactor) {
            let number = self.present(now);
            self.demand.end(now, (&self.periods, number), 0);
        }
    }

    /// Computes what the reservation may yet ask of a device with a scheduling set.
    pub(crate) fn claim(&self, now: Nanos) -> Claim {
        let number = self.present(now);
        let end = self.periods.end(number);
        let (budget, period) = (self.limits.time, self.periods.length);
        let mut left = 0;
        if !self.is_used_up(number) {
            let forgone = match self.demand.since() {
                Some(_) => 0,
                None => self.forgone_until(now, number),
            };
            let gone = self.time_used(number).saturating_add(forgone);
            left = budget.saturating_sub(gone).min(end.ns_since(now));
        }
        let waits = self.demand.waits() && self.has_left(number) && self.is_on_time(now, number);
        Claim { end, left, budget, period, waits }
    }

    /// Returns the device as it was when the reservation was admitted.
    pub(crate) const fn profile(&self) -> &Profile {
        &self.profile
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
        self.periods.end(self.present(now))
    }

    /// Counts the periods that have ended: those in which the tenant asked for something, and those
    /// of them in which the reservation was kept.
    ///
    /// A reservation was kept when all of the budget was completed in the period, or the part of it
    /// that corresponds to the part of the period in which the tenant's commands waited: a tenant that
    /// asks for less than it reserved, or begins in the middle of a period, is not cheated. A
    /// command that is complete after the end of the period does not count for it. With an allowed
    /// latency, a period was kept when no command that was complete in it was late, and when one was
    /// complete where commands waited all the time.
    #[must_use]
    pub fn kept(&self) -> (u64, u64) {
        self.demand.kept()
    }

    /// Returns the number of the period that `now` is in, or of a later one that another thread has
    /// seen.
    #[inline]
    fn present(&self, now: Nanos) -> u64 {
        let number = self.number.load(Ordering::Relaxed);
        if now < self.periods.end(number) { number } else { self.roll(now, number) }
    }

    #[cold]
    fn roll(&self, now: Nanos, old: u64) -> u64 {
        let new = (now.ns_since(self.periods.start) / self.periods.length).saturating_add(1);
        let swap = (Ordering::Relaxed, Ordering::Relaxed);
        match self.number.compare_exchange(old, new, swap.0, swap.1) {
            Ok(_) => {
                let kept = |waited| self.was_kept(old, waited);
                self.demand.count(&self.periods, (old, new), kept);
                new
            }
            Err(other) => other.max(new),
        }
    }

    /// Counts the commands of which each had its deadline, by the tenant's allowed latency, and those
    /// of them that were late. Commands for which no budget was left are not among them.
    #[must_use]
    pub fn late(&self) -> (u64, u64) {
        self.promise.as_ref().map_or((0, 0), Promise::counts)
    }

    /// Says whether what was promised of a period was kept, in which commands waited for so long.
    fn was_kept(&self, number: u64, waited: u64) -> bool {
        let Some(promise) = &self.promise else { return self.had_its_part(number, waited) };
        // The deadlines of commands hold the reserved rate as well, once commands are complete.
        let idle = waited < self.periods.length;
        promise.was_kept(number) && (idle || self.done.any(number))
    }

    /// Says whether what was completed in a period comes up to the reserved rate over the time that
    /// commands waited in it, but for one command of a budget in time. What came in the middle of
    /// the period had to get through the device as well.
    fn had_its_part(&self, number: u64, waited: u64) -> bool {
        let waited = match waited < self.periods.length {
            true => waited.saturating_sub(self.longest),
            false => waited,
        };
        let part = |limit| self.periods.part(limit, waited);
        let Limits { operations, bytes, time } = self.limits;
        if operations != MOST {
            part(operations) <= self.done.operations.used_in(number)
        } else if bytes != MOST {
            part(bytes) <= self.done.bytes.used_in(number)
        } else {
            part(time) <= self.done.time.used_in(number).saturating_add(self.assumed)
        }
    }
}
