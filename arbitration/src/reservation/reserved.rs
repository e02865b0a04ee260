//! A reservation at work: budgets, charges and verdicts (docs/research/sources.md, F3: reservations are
//! kept).

use std::sync::atomic::AtomicU32;

use crate::sync::{AtomicU64, Ordering};

use units::Nanos;

use super::broker::{Admitted, interval};
use super::ceiling::QueueBound;
use super::demand::{Demand, Periods};
use super::profile::Profile;
use super::promise::Promise;
use super::record::{Finished, Record};
use super::schedule::Claim;
use super::tally::{MOST, Tally};
use super::terms::Budget;
use super::verdict::{Miss, Missed, PeriodObservation, Usual, Verdicts};

/// Number of reservations that were made. It only tells them apart, so no model needs to follow it.
static MADE: AtomicU32 = AtomicU32::new(0);

/// An admitted reservation at work, shared by all reactors.
///
/// Periods follow each other without a gap from the start on. The first reactor after the end of a
/// period begins the next one. A budget in operations or bytes is kept in these units. The device
/// time that the broker set aside for it stops a tenant whose commands cost more than announced
/// from hurting others. Unused budget is not carried over.
///
/// Threads that find budget left at the same moment may each charge: a period may exceed its
/// budget by one command for each further thread. Nothing else is inexact.
#[derive(Debug)]
pub struct Reserved {
    /// Distinguishes this reservation's charges from all others.
    tag: u32,
    profile: Profile,
    /// Whether commands go through a scheduling set.
    set: bool,
    periods: Periods,
    limits: Limits,
    /// First charge of the tenant's usual command, in ns. One is due only while this much is left.
    assumed: u64,
    /// The tenant's usual command, and the reservation.
    usual: Usual,
    /// The time in which one command is reserved, in ns.
    interval: u64,
    /// The number of the tenant's usual commands that the device carries out in a period.
    commands: u64,
    /// The number of the present period, from 1 on.
    number: AtomicU64,
    used: Used,
    /// The amount completed in the present period, charged or not.
    record: Record,
    verdicts: Verdicts,
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

/// A tenant's command in the device, and the charge of its reservation for it. The charge ends by
/// [`Reserved::settle`] or [`Reserved::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Charge {
    /// The period whose budget was charged; 0: none had budget left.
    number: u64,
    assumed: u64,
    /// When the command must be complete, for the tenant's allowed latency to be kept.
    due: Nanos,
    arrived: Nanos,
    /// When the command came to the arbiter, which is later if it waited for memory or data.
    entered: Nanos,
    /// When the command went to the device.
    at: Nanos,
    /// Whether the command is in the order by place.
    is_ordered: bool,
    bytes: u32,
    /// Tells the reservation from any other.
    tag: u32,
}

impl Charge {
    /// Returns whether the command has a deadline of its own, by the tenant's allowed latency.
    pub(crate) fn has_deadline(&self) -> bool {
        self.due != Nanos::MAX
    }

    /// Returns whether a budget was charged.
    pub(crate) fn has_budget(&self) -> bool {
        self.number != 0
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
        let assumed = profile.assumed_of(terms).min(time);
        let share = profile.mean_of(terms);
        let whole = match translation.budget {
            Budget::DeviceTime(_) => time,
            budget => budget.amount(),
        };
        // Periods that keep a latency set more aside, for bursts.
        let reserved = if terms.latency.is_some() {
            let of_rate = u128::from(terms.budget.amount()) * u128::from(periods.length);
            let of_rate = of_rate.div_ceil(u128::from(terms.period.0.max(1)));
            whole.min(u64::try_from(of_rate).unwrap_or(u64::MAX))
        } else {
            whole
        };
        let (allowance, amount) = match translation.budget {
            Budget::Operations(_) => (0, 1),
            Budget::Bytes(_) => (0, terms.request_bytes.into()),
            Budget::DeviceTime(_) => (assumed, share),
        };
        let usual = Usual {
            period: periods.length,
            reserved,
            allowance,
            amount,
            in_device: in_device(share),
            longest: in_device(profile.worst_of(terms)),
            share,
        };
        Self {
            tag: MADE.fetch_add(1, Ordering::Relaxed),
            profile: *profile,
            set: profile.seeks,
            periods,
            limits: Limits { operations, bytes, time },
            assumed,
            commands: translation.period.0 / share.max(1),
            usual,
            interval: interval(profile, terms),
            number: AtomicU64::new(1),
            used: Used::default(),
            record: Record::default(),
            verdicts: Verdicts::default(),
            forgone: Tally::default(),
            demand: Demand::default(),
            lead,
            promise: Promise::new(profile, terms),
        }
    }

    /// Makes the reservation that replaces this one from `now` on, because the device was measured anew. Its first
    /// period begins at `now`. The counts of periods and of late commands go on.
    #[must_use]
    pub fn renewed(&self, now: Nanos, admitted: &Admitted) -> Self {
        let mut renewed = Self::new(now, admitted).in_set(self.set);
        renewed.verdicts = self.verdicts.copy();
        if let (Some(new), Some(old)) = (&renewed.promise, &self.promise) {
            new.take_counts(old);
        }
        renewed
    }

    /// Returns when the first period began.
    #[must_use]
    pub fn since(&self) -> Nanos {
        self.periods.start
    }

    /// Sets whether commands go through a scheduling set; without this, they do on a device that
    /// seeks (see [`Device::is_bounded`](crate::device::Device::is_bounded)).
    #[must_use]
    pub fn in_set(mut self, set: bool) -> Self {
        self.set = set;
        self
    }

    /// Returns the deadline of the tenant's next command, which is the end of the period, while
    /// budget is left for it at its worst; `None` when it has to take its turn among the others.
    ///
    /// On a disk, a budget is due as soon as there is demand, for it pays for two seeks in a
    /// period; so is a budget whose periods keep a latency. Any other budget becomes due gradually:
    /// its part at the present point of the period, and a sixteenth ahead, or a burst. So a tenant
    /// with a large budget does not stop all others at the begin of each period, and service by its
    /// class counts for its budget first.
    #[inline]
    pub fn due(&self, now: Nanos) -> Option<Nanos> {
        let number = self.present(now);
        (self.has_left(number) && self.is_on_time(now, number)).then(|| self.periods.end(number))
    }

    /// Returns whether budget is left in the period, so that a command is charged, due or not.
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

    /// Returns whether nothing is left of a budget in operations or bytes.
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

    /// Returns whether no more of the budget is used than is due by now.
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
        let at = if self.has_left(number) {
            self.on_time_at(number)
        } else {
            now.after(self.usual.in_device)
        };
        at.max(now.after(1)).min(end)
    }

    /// Charges a command that is dispatched ahead of others for its operation, its bytes, and the
    /// most device time that will count until it is settled. On a disk that is its worst time,
    /// elsewhere the time that the broker sets aside for a command of its size and kind.
    #[inline]
    pub fn charge(&self, now: Nanos, write: bool, bytes: u32) -> Charge {
        self.charge_waited(now, (now, now), write, bytes)
    }

    /// Charges a command as [`Self::charge`] does, which has waited since `arrived`, and in the arbiter since
    /// `entered`.
    #[inline]
    pub fn charge_waited(
        &self,
        now: Nanos,
        (arrived, entered): (Nanos, Nanos),
        write: bool,
        bytes: u32,
    ) -> Charge {
        let number = self.present(now);
        let assumed = self.profile.assumed(write, bytes).min(MOST);
        self.count(&self.used, number, bytes);
        self.used.time.add(number, assumed);
        let due = self.promise.as_ref().map(|promise| promise.due(arrived, bytes));
        let due = due.unwrap_or(Nanos::MAX);
        self.send(now, (number, number), (arrived, entered, due), (assumed, bytes))
    }

    /// Takes note that a command of the tenant goes without being charged, because no budget is
    /// left for it. It counts as demand, and for the tenant, all the same.
    #[inline]
    pub fn pass(
        &self,
        now: Nanos,
        (arrived, entered): (Nanos, Nanos),
        write: bool,
        bytes: u32,
    ) -> Charge {
        let number = self.present(now);
        let assumed = self.profile.assumed(write, bytes).min(MOST);
        self.send(now, (number, 0), (arrived, entered, Nanos::MAX), (assumed, bytes))
    }

    #[inline]
    fn send(
        &self,
        now: Nanos,
        (present, number): (u64, u64),
        (arrived, entered, due): (Nanos, Nanos, Nanos),
        (assumed, bytes): (u64, u32),
    ) -> Charge {
        self.demand.sent(now, false);
        self.begin_demand(now, now, present);
        let (at, is_ordered, tag) = (now, false, self.tag);
        Charge { number, assumed, due, arrived, entered, at, is_ordered, bytes, tag }
    }

    /// Notes that a charged command has gone to the order by place, not to the device.
    pub(crate) fn wait_in_order(&self, charge: &mut Charge) {
        if self.made(charge) && !std::mem::replace(&mut charge.is_ordered, true) {
            self.demand.ordered();
            self.demand.came_back(false);
            let number = self.present(charge.at);
            self.demand.end_if_over(charge.at, (&self.periods, number), 0);
        }
    }

    /// Notes that a charged command goes from the order by place to the device.
    pub(crate) fn enter_device(&self, now: Nanos, charge: &mut Charge) {
        if self.made(charge) && std::mem::take(&mut charge.is_ordered) {
            charge.at = now;
            self.demand.sent(now, true);
        }
    }

    /// Counts a command in the unit of the budget, unless that is device time.
    #[inline]
    fn count(&self, into: &Used, number: u64, bytes: u32) {
        if self.limits.operations != MOST {
            into.operations.add(number, 1);
        } else if self.limits.bytes != MOST {
            into.bytes.add(number, bytes.into());
        }
    }

    /// Returns whether a charge is one of this reservation.
    #[inline]
    pub(crate) fn made(&self, charge: &Charge) -> bool {
        charge.tag == self.tag
    }

    /// Settles a charged command that has completed. Refunds the unused part of its charged device
    /// time or, on a disk, adds the excess. `actual_ns` is its share of the device's time (see
    /// [`ServiceTime`](super::ServiceTime)). After the end of the charged period, nothing is
    /// refunded. The command counts for the period in which it completes, wherever it was charged.
    /// A charge of another reservation changes nothing.
    ///
    /// On a disk all of the time counts, as the seeks are the stream's own. Elsewhere a command's
    /// time tells of what others do as well, and no more counts than the command was charged.
    #[inline]
    pub fn settle(&self, now: Nanos, charge: Charge, actual_ns: u64) {
        self.settle_beside(now, charge, actual_ns, 0);
    }

    /// Settles a charge as [`Self::settle`] does, of a device in which the longest command of any
    /// host takes `foreign` ns.
    #[inline]
    pub(crate) fn settle_beside(&self, now: Nanos, charge: Charge, actual_ns: u64, foreign: u64) {
        // A completion at the very end of a period counts in it.
        let number = self.present(Nanos(now.0.saturating_sub(1)));
        if !self.made(&charge) {
            return;
        }
        let mut counted = actual_ns;
        if actual_ns > charge.assumed && !self.profile.seeks {
            counted = charge.assumed;
        }
        if number == charge.number {
            if counted <= charge.assumed {
                self.used.time.take_back(number, charge.assumed - counted);
            } else {
                self.used.time.add(number, counted - charge.assumed);
            }
        }
        let amount = if self.limits.operations != MOST {
            1
        } else if self.limits.bytes != MOST {
            charge.bytes.into()
        } else {
            counted
        };
        self.record.note(
            number,
            &Finished {
                amount,
                latency: now.ns_since(charge.arrived),
                before: charge.entered.ns_since(charge.arrived),
                in_device: now.ns_since(charge.at),
                took: actual_ns,
                assumed: charge.assumed,
                foreign,
            },
        );
        if charge.has_budget()
            && let Some(promise) = &self.promise
        {
            promise.note(now, charge.due, number);
        }
        self.demand.came_back(charge.is_ordered);
        // The period had demand, even if everything went at once.
        self.demand.end_if_over(now, (&self.periods, number), 1);
    }

    /// Cancels a charged command that did not reach the device: all of the charge is given back, if
    /// its period is still the present one.
    pub fn cancel(&self, now: Nanos, charge: Charge) {
        if !self.made(&charge) {
            return;
        }
        if charge.has_budget() {
            self.used.operations.take_back(charge.number, 1);
            self.used.bytes.take_back(charge.number, charge.bytes.into());
            self.used.time.take_back(charge.number, charge.assumed);
        }
        let number = self.present(now);
        self.demand.came_back(charge.is_ordered);
        self.demand.end_if_over(now, (&self.periods, number), 0);
    }

    /// Takes note that a command of this tenant waits in a reactor. The caller calls this when a
    /// command has come and when, after a round of dispatching, one is still there. The wait ends
    /// with [`Self::note_idle`], the demand with the last command that is complete.
    #[inline]
    pub fn note_demand(&self, now: Nanos, reactor: u32) {
        self.note_demand_since(now, now, reactor);
    }

    /// Takes note that a command waits in a reactor as [`Self::note_demand`] does, which came at
    /// `arrived` and had to wait for something else first.
    #[inline]
    pub fn note_demand_since(&self, now: Nanos, arrived: Nanos, reactor: u32) {
        let number = self.present(now);
        self.demand.waits_in(reactor);
        self.begin_demand(now, arrived.min(now), number);
    }

    /// Takes note whether commands wait in a reactor for memory, or for the data of their hosts, before they come to
    /// the arbiter. They are demand, and the device knows nothing of them yet.
    pub(crate) fn note_announced(&self, now: Nanos, reactor: u32, are_there: bool) {
        let number = self.present(now);
        self.demand.set_announced(reactor, are_there);
        match are_there {
            true => self.demand.begin(now, (&self.periods, number), self.interval),
            false => self.demand.end_if_over(now, (&self.periods, number), 0),
        }
    }

    /// Takes note that the tenant asks for something of the device. On a disk, the device time of the wait before
    /// that is forgone: asked for all at once, it would make others late.
    #[inline]
    fn begin_demand(&self, now: Nanos, arrived: Nanos, number: u64) {
        if !self.demand.is_here() {
            let forgone = if self.set { self.forgone_until(now, number) } else { 0 };
            if self.demand.come_here(now) && self.set {
                self.forgone.add(number, forgone);
            }
        }
        self.demand.begin(arrived, (&self.periods, number), self.interval);
    }

    /// Computes the device time, in ns, that the tenant has forgone since its last demand: the
    /// budget for the time since then, at most the remaining budget beyond the rest of the period.
    fn forgone_until(&self, now: Nanos, number: u64) -> u64 {
        let (periods, budget) = (&self.periods, self.limits.time);
        let until = self.demand.here_until(self.interval);
        let idle = now.ns_since(until.max(periods.begin(number)));
        let rest = periods.part(budget, periods.end(number).ns_since(now));
        let left = budget.saturating_sub(self.time_used(number));
        periods.part(budget, idle).min(left.saturating_sub(rest))
    }

    /// Takes note that no command of this tenant waits in a reactor any more: the last has gone, or
    /// was withdrawn, or a limit holds what waits.
    #[inline]
    pub fn note_idle(&self, now: Nanos, reactor: u32) {
        self.demand.waits_no_more_in(reactor);
        if self.demand.is_outstanding() {
            let number = self.present(now);
            self.demand.end_if_over(now, (&self.periods, number), 0);
        }
    }

    /// Returns the reservation's demands on a device's window.
    #[must_use]
    pub fn queue_bound(&self) -> QueueBound {
        let times = (self.interval, self.usual.in_device);
        QueueBound::new(&self.profile, times, self.usual.period, self.demand.pause())
    }

    /// Computes how long, in ns, a device with a scheduling set may serve others before the tenant
    /// can no longer use the rest of its budget at its depth. Each round of commands that the
    /// tenant has outstanding at once waits for another command, which takes `foreign` ns;
    /// `waiting` of the tenant's commands wait in the target. `None` if the tenant wants nothing,
    /// if the whole rest of its budget is outstanding already, or if one command at a time never
    /// achieves the reservation.
    pub(crate) fn slack(&self, now: Nanos, waiting: u64, foreign: u64) -> Option<u64> {
        let number = self.present(now);
        let wants = self.demand.is_wanting(now, self.interval) && !self.is_used_up(number);
        let own = self.usual.in_device;
        let both = own.saturating_add(own.max(foreign));
        if !wants || both > self.interval {
            return None;
        }
        let (used, all) = self.progress(number);
        // One command more, which the present period may not complete.
        let left = all.saturating_sub(used).div_ceil(self.usual.amount.max(1)).saturating_add(1);
        let depth = self.demand.depth(waiting);
        if depth >= left {
            return None;
        }
        let think = self.demand.think();
        // Of several commands at a time, only the gaps in which none is outstanding are measured.
        let depth = if think > 0 { 1 } else { depth.max(1) };
        // With more at a time, another command still may go between two of them.
        let each = both.max(both.saturating_add(think) / depth);
        let needed = left.saturating_mul(each);
        Some(self.periods.end(number).ns_since(now).saturating_sub(needed))
    }

    /// Computes the remaining claim of the reservation on a device with a scheduling set.
    pub(crate) fn claim(&self, now: Nanos) -> Claim {
        let number = self.present(now);
        let end = self.periods.end(number);
        let (budget, period) = (self.limits.time, self.periods.length);
        let mut left = 0;
        if !self.is_used_up(number) {
            let forgone = match self.demand.is_here() {
                true => 0,
                false => self.forgone_until(now, number),
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

    /// Counts the ended periods in which the tenant had demand, and the periods among them that
    /// kept the reservation.
    ///
    /// A period keeps the reservation if all of it, or the due part of it, completed within the
    /// period. A tenant that wants something for a part of the period, or thinks between its
    /// commands, is due the corresponding part. A period is missed if a command was outstanding all
    /// of the time and less than the reservation completed. With an allowed latency, no command that
    /// completed in the period may have been late. A tenant with demand all the time is also
    /// due the reserved rate, less its pauses and one command.
    #[must_use]
    pub fn kept(&self) -> (u64, u64) {
        let kept = self.verdicts.kept();
        (kept.saturating_add(self.missed().total()), kept)
    }

    /// Counts the periods in which the reservation was missed, by cause.
    #[must_use]
    pub fn missed(&self) -> Missed {
        self.verdicts.missed()
    }

    /// Returns the latest period that was missed.
    #[must_use]
    pub fn last_miss(&self) -> Option<Miss> {
        self.verdicts.last()
    }

    /// Returns the number of the period that contains `now`, or of a later one that another thread
    /// has seen.
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
                self.judge(old);
                // In the periods between, something was outstanding and nothing was complete.
                if self.demand.is_outstanding() {
                    let cause = self.demand.standstill(&self.periods, new.saturating_sub(1));
                    self.verdicts.note_missed(cause, new.saturating_sub(old + 1));
                }
                new
            }
            Err(other) => other.max(new),
        }
    }

    /// Counts the commands that had a deadline of their own, by the tenant's allowed latency, and
    /// the late commands among them. Commands without remaining budget are not counted.
    #[must_use]
    pub fn late(&self) -> (u64, u64) {
        self.promise.as_ref().map_or((0, 0), Promise::counts)
    }

    /// Judges a period that has ended.
    fn judge(&self, number: u64) {
        let wanted = self.demand.in_period(&self.periods, number, self.interval);
        let standstill = Some(self.demand.standstill(&self.periods, number));
        let seen = PeriodObservation { standstill, ..self.record.seen(number, wanted) };
        let promised = self.promise.as_ref().map(|promise| {
            promise.keeps_rate(seen.due_time(&self.usual), &seen) && promise.was_kept(number)
        });
        self.verdicts.count(&self.usual, &seen, promised);
    }
}
