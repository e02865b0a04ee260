//! The deadlines of single commands, where a reservation has an allowed latency (docs/research/sources.md,
//! F1: reservations in the tenant's terms).

use crate::sync::{AtomicU64, Ordering::Relaxed, try_update};

use units::Nanos;

use super::profile::Profile;
use super::tally::Tally;
use super::terms::{Budget, Terms};
use super::verdict::PeriodObservation;

/// The longest time in ns by which a tenant's tokens may be behind: commands that it sends faster than
/// it said have later deadlines, up to this.
const BEHIND_MAX: u64 = 60_000_000_000;

/// A latency that a tenant was promised.
///
/// Its commands take tokens from a bucket that holds as many as may come at once, and that is filled
/// at the reserved rate. A command is due one latency after it had its token: at once for a tenant
/// that keeps to its rate and burst. Which commands go when is not decided here, but by budgets and
/// periods.
#[derive(Debug)]
pub(super) struct Promise {
    latency: u64,
    /// The reserved rate: commands or bytes, and the time in ns in which they are reserved.
    rate: (u64, u64),
    /// Whether the rate is in bytes.
    in_bytes: bool,
    /// The time in ns that the reserved rate takes for one usual command.
    usual: u64,
    /// The time in ns that the reserved rate takes for as much as may come at once.
    burst: u64,
    /// When the bucket is full again, in ns.
    full_at: AtomicU64,
    /// Commands that were complete too late, in the present period.
    late: Tally,
    /// The time in ns that the reserved rate takes for the amount that is missing since a command has always been
    /// outstanding, at most for one usual command.
    missing: AtomicU64,
    timely_ever: AtomicU64,
    late_ever: AtomicU64,
}

impl Promise {
    /// Makes the promise of these terms on a device; `None` where they have no latency.
    pub(super) fn new(profile: &Profile, terms: &Terms) -> Option<Self> {
        let (amount, in_bytes) = match terms.budget {
            Budget::Bytes(bytes) => (bytes, true),
            Budget::Operations(operations) => (operations, false),
            Budget::DeviceTime(time) => (time.0 / profile.mean_of(terms).max(1), false),
        };
        let usual = if in_bytes { u64::from(terms.request_bytes) } else { 1 };
        let rate = (amount.max(1), terms.period.0);
        Some(Self {
            latency: terms.latency?.0,
            rate,
            in_bytes,
            usual: time_of(usual, rate),
            burst: time_of(usual.saturating_mul(terms.burst.into()), rate),
            full_at: AtomicU64::new(0),
            late: Tally::default(),
            missing: AtomicU64::new(0),
            timely_ever: AtomicU64::new(0),
            late_ever: AtomicU64::new(0),
        })
    }

    /// Takes the tokens of a command of `bytes` bytes that came at `arrived`, and computes when the
    /// command is due.
    pub(super) fn due(&self, arrived: Nanos, bytes: u32) -> Nanos {
        let takes = time_of(if self.in_bytes { bytes.into() } else { 1 }, self.rate);
        let latest = arrived.0.saturating_add(self.burst).saturating_add(BEHIND_MAX);
        let after = |full: u64| full.max(arrived.0).saturating_add(takes).min(latest);
        let taken = try_update(&self.full_at, Relaxed, |full| Some(after(full)));
        let full_at = after(taken.unwrap_or_else(|full| full));
        Nanos(full_at.saturating_sub(self.burst).max(arrived.0)).after(self.latency)
    }

    /// Counts a command that is complete in period `number`.
    pub(super) fn note(&self, now: Nanos, due: Nanos, number: u64) {
        if now <= due {
            self.timely_ever.fetch_add(1, Relaxed);
        } else {
            self.late.add(number, 1);
            self.late_ever.fetch_add(1, Relaxed);
        }
    }

    /// Returns whether no command was late in a period.
    pub(super) fn was_kept(&self, number: u64) -> bool {
        self.late.used_in(number) == 0
    }

    /// Judges the amount that completed in a period, and returns whether at most one command is missing of the reserved
    /// rate over `due` ns. `None`: the tenant had no demand for a part of the period, so that deadlines alone count. Periods are judged in order. A fraction of a command that a short period leaves counts in the
    /// next one.
    pub(super) fn keeps_rate(&self, due: Option<u64>, seen: &PeriodObservation) -> bool {
        let done = if self.in_bytes { seen.done } else { seen.commands };
        let due = due.map_or(0, |due| self.missing.load(Relaxed).saturating_add(due));
        let missing = due.saturating_sub(time_of(done, self.rate));
        self.missing.store(missing.min(self.usual), Relaxed);
        missing <= self.usual
    }

    /// Counts the commands of `other` as well, which this promise replaces.
    pub(super) fn take_counts(&self, other: &Self) {
        self.timely_ever.fetch_add(other.timely_ever.load(Relaxed), Relaxed);
        self.late_ever.fetch_add(other.late_ever.load(Relaxed), Relaxed);
    }

    /// Counts all commands, and the late ones.
    pub(super) fn counts(&self) -> (u64, u64) {
        let late = self.late_ever.load(Relaxed);
        (self.timely_ever.load(Relaxed).saturating_add(late), late)
    }
}

/// Computes the time in ns of an amount at a rate, rounded up.
fn time_of(amount: u64, (each, period): (u64, u64)) -> u64 {
    let time = (u128::from(amount) * u128::from(period)).div_ceil(u128::from(each.max(1)));
    u64::try_from(time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, per_second};

    /// A hundred commands a second, each within 30 ms, three at once.
    fn promise() -> Promise {
        let terms = Terms { latency: Some(Nanos(30 * MS)), burst: 3, ..per_second(100) };
        Promise::new(&Profile::default(), &terms).unwrap()
    }

    #[test]
    fn f1_conforming_command_is_due_within_latency() {
        let promise = promise();
        let due = |at: u64| promise.due(Nanos(at * MS), 1).0 / MS - at;
        assert_eq!([1000, 1000, 1000].map(due), [30, 30, 30], "the burst");
        assert_eq!([1000, 1000].map(due), [40, 50], "beyond it, as the bucket is filled");
        assert_eq!([1030, 1040, 1050].map(due), [30, 30, 30]);
        assert_eq!([2000; 4].map(due), [30, 30, 30, 40], "full again, and no fuller");
    }

    #[test]
    fn f1_a_flood_is_behind_for_a_bounded_time() {
        let promise = promise();
        for _ in 0..10_000 {
            let _ = promise.due(Nanos(0), 1);
        }
        assert!(promise.due(Nanos(0), 1) <= Nanos(60_030 * MS));
        assert_eq!(promise.due(Nanos(61_000 * MS), 1), Nanos(61_030 * MS));
    }

    #[test]
    fn f1_bytes_take_tokens_by_their_number() {
        let terms = Terms::of(Budget::Bytes(1_000_000), Nanos(1000 * MS));
        let terms = Terms { latency: Some(Nanos(MS)), burst: 2, request_bytes: 1000, ..terms };
        let promise = Promise::new(&Profile::default(), &terms).unwrap();
        assert_eq!(promise.due(Nanos(MS), 2000), Nanos(2 * MS), "two usual ones");
        assert_eq!(promise.due(Nanos(MS), 5000), Nanos(7 * MS), "five more");
        let without = Terms { latency: None, ..terms };
        assert!(Promise::new(&Profile::default(), &without).is_none());
    }

    #[test]
    fn f1_late_commands_are_counted_per_period_and_total() {
        let promise = promise();
        promise.note(Nanos(5), Nanos(5), 1);
        assert!(promise.was_kept(1));
        promise.note(Nanos(6), Nanos(5), 2);
        assert!(!promise.was_kept(2) && promise.was_kept(1) && promise.was_kept(3));
        assert_eq!(promise.counts(), (2, 1));
    }

    #[test]
    fn f1_continuous_demand_needs_rate_beside_latency() {
        // Periods of 15 ms: one command and a half of each is reserved.
        let promise = promise();
        let keeps = |commands: u64| {
            let seen = PeriodObservation { commands, ..PeriodObservation::default() };
            promise.keeps_rate(Some(15 * MS), &seen)
        };
        assert_eq!([1, 2, 1, 2, 1, 2, 1, 2].map(keeps), [true; 8]);
        assert_eq!([1, 1, 1, 1, 1].map(keeps), [true, true, false, false, false]);
        assert_eq!([2, 2, 1, 1].map(keeps), [true; 4], "no more than one command is missing");
        assert!(promise.keeps_rate(None, &PeriodObservation::default()));
        assert_eq!([0, 0].map(keeps), [false, false]);
    }
}
