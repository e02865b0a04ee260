//! The estimate of what a link carries: the throughput of all flows together while the link is
//! congested. While it is not, and limits hold flows back, the estimate grows.
//!
//! Flows are held to parts of the estimate, not of what all get at the moment. A flow with a long
//! round trip needs time to take the place that others make for it, and meanwhile all together get
//! less than there is. If the others had parts of that, they would follow it down.

use core::time::Duration;

use units::weight_of;

use super::rate_limit::Rules;
use crate::{Nanos, Rate};

/// The estimate of what a link carries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    rate: Rate,
    /// The time of the last observation.
    at: Nanos,
    /// The time from which on the link has been congested for long enough to tell what it carries.
    known_at: Option<Nanos>,
    known: bool,
    /// Whether the estimate is the greatest one.
    loose: bool,
    /// The time at which a limit was last seen to hold a flow back.
    held_at: Option<Nanos>,
    /// The time at which a flow without a limit was last seen to get more by itself.
    risen_at: Option<Nanos>,
    /// The time for which limits have held flows back since the link was congested, and no flow
    /// got more by itself, in seconds.
    calm: f64,
    /// The bytes that go through the link in a second, smoothed.
    through: f64,
    /// The greatest such rate of the last seconds, while the link was congested.
    best: RecentMost,
    /// The time since which clearly less goes through, while the link is congested.
    less_since: Option<Nanos>,
}

/// The greatest estimate, as a multiple of what all flows get. Where a class with a large share is
/// slow, and does not say that it wants no more, the others may need as much to fill the link.
const MOST: f64 = 16.0;

/// The state of a link at the observation of one of its flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSample {
    /// The bytes that the flow moved since its last observation.
    pub(super) bytes: u64,
    /// Whether a limit holds the flow back.
    pub(super) held: bool,
    /// Whether the flow has no limit, and gets ever more.
    pub(super) rises: bool,
    /// The rate of all flows together.
    pub(super) total: Rate,
    /// Whether the link is congested.
    pub(super) congested: bool,
}

/// The time after which other senders are taken for the reason that less goes through the link.
const TAKEN: Duration = Duration::from_millis(500);

/// The greatest value of the last five to ten seconds, in two windows of five.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentMost {
    since: Nanos,
    before: f64,
    now: f64,
}

impl RecentMost {
    const WINDOW: Duration = Duration::from_secs(5);

    /// Takes in a value. Returns the greatest one.
    #[inline]
    pub(super) fn see(&mut self, now: Nanos, value: f64) -> f64 {
        let age = now.since(self.since);
        if age > Self::WINDOW {
            let before = if age > 2 * Self::WINDOW { 0.0 } else { self.now };
            (self.since, self.before, self.now) = (now, before, 0.0);
        }
        self.now = self.now.max(value);
        self.now.max(self.before)
    }
}

impl Estimate {
    /// Takes in the link's state. Returns the estimate.
    pub(super) fn see(&mut self, rules: &Rules, now: Nanos, seen: &LinkSample) -> Rate {
        let LinkSample { bytes, held, rises, total, congested } = *seen;
        let passed = now.since(self.at);
        self.at = now;
        let weight = weight_of(passed, rules.patience);
        if held {
            self.held_at = Some(now);
        }
        if rises {
            self.risen_at = Some(now);
        }
        // Rates of flows do not add up to this while flows come: the first sample of a flow counts
        // as its rate.
        #[expect(clippy::cast_precision_loss, reason = "bytes of one interval")]
        let part = bytes as f64 / rules.patience.as_secs_f64();
        self.through = self.through * (1.0 - weight) + part;
        if congested {
            (self.calm, self.loose) = (0.0, false);
            self.rate = self.while_congested(rules, now, total, weight);
            let least = self.best.see(now, self.through) * (1.0 - 2.0 * rules.sigma);
            let less = self.through < least;
            self.less_since = if less { self.less_since.or(Some(now)) } else { None };
        } else {
            self.less_since = None;
            // The estimate grows slowly at first, for marks come and go on a link that is full, and
            // then ever faster. While no limit holds a flow back, something else makes all have
            // less. While a flow grows by itself, it is on its way to what others leave to it: a
            // window grows by a packet in a round trip, and needs a second where a single one is
            // to fill a fast link with a long round trip.
            let within = |at: Option<Nanos>, time| at.is_some_and(|at| now.since(at) <= time);
            let holds =
                within(self.held_at, rules.memory) && !within(self.risen_at, rules.patience);
            let passed = if holds { passed.as_secs_f64() } else { 0.0 };
            self.calm += passed;
            let growth = self.calm.powi(2) * passed / rules.growth.as_secs_f64().powi(3);
            // Deviations within sigma are noise, which would be followed up and not down.
            let more = (total - self.rate.times(1.0 + rules.sigma)).times(weight);
            let (grown, most) = (self.rate.times(1.0 + growth) + more, total.times(MOST));
            (self.loose, self.rate) = (grown >= most, grown.min(most));
        }
        self.rate
    }

    /// Moves the estimate towards what all flows get. When flows begin, their kernels look for
    /// their rates, and what they get says little.
    fn while_congested(&mut self, rules: &Rules, now: Nanos, total: Rate, weight: f64) -> Rate {
        let known_at = *self.known_at.get_or_insert(now + rules.patience);
        if now < known_at {
            return total.times(MOST);
        }
        if !core::mem::replace(&mut self.known, true) {
            return total;
        }
        self.rate.times(1.0 - weight) + total.times(weight)
    }

    /// Tells whether the estimate is bounded by [`MOST`] times what all flows get.
    pub(super) const fn is_loose(&self) -> bool {
        self.loose
    }

    /// Tells whether clearly less goes through the link than some seconds ago, though it is
    /// congested: other senders take what some of these flows leave.
    pub(super) fn is_taken(&self) -> bool {
        self.less_since.is_some_and(|since| self.at.since(since) > TAKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn mbit(rate: f64) -> Rate {
        Rate::from_bits(rate * 1e6)
    }

    /// An estimate that was observed every millisecond until `now`.
    #[derive(Default)]
    struct Observed {
        estimate: Estimate,
        now: u64,
        /// Whether something else than limits holds flows back, and whether a flow gets more by itself.
        others_hold: bool,
        rises: bool,
    }

    impl Observed {
        /// Observes for some milliseconds. Returns the estimate in Mbit/s.
        fn run(&mut self, ms: u64, total: u32, congested: bool) -> f64 {
            let mut rate = Rate::ZERO;
            for _ in 0..ms {
                self.now += MS;
                let (rules, bytes) = (Rules::default(), u64::from(total) * 125);
                let (held, rises) = (!self.others_hold, self.rises);
                let seen = LinkSample { bytes, held, rises, total: mbit(total.into()), congested };
                rate = self.estimate.see(&rules, Nanos(self.now), &seen);
            }
            rate.bits() / 1e6
        }

        /// Makes the estimate of a link that has carried 100 Mbit/s for three seconds.
        fn of_hundred() -> Self {
            let mut observed = Self::default();
            let rate = observed.run(3000, 100, true);
            assert!(near(rate, 100.0), "{rate}");
            observed
        }
    }

    fn near(rate: f64, expected: f64) -> bool {
        (rate / expected - 1.0).abs() < 0.01
    }

    #[test]
    fn e7_the_estimate_follows_what_all_get_while_there_are_marks() {
        let mut observed = Observed::of_hundred();
        // A time constant of 200 ms, in either direction.
        let rate = observed.run(200, 80, true);
        assert!(near(rate, 80.0 + 20.0 * 0.368), "{rate}");
        assert!(near(observed.run(2000, 80, true), 80.0));
        let rate = observed.run(200, 120, true);
        assert!(near(rate, 120.0 - 40.0 * 0.368), "{rate}");
    }

    #[test]
    fn e7_what_flows_get_when_they_begin_is_no_measure() {
        let mut observed = Observed::default();
        assert!(near(observed.run(200, 20, true), 320.0), "it holds no flow back");
        assert!(near(observed.run(1, 100, true), 100.0), "what was seen for so long is known");
        assert!(near(observed.run(1, 300, true), 101.0), "from then on it follows");
    }

    #[test]
    fn e7_others_are_not_followed_down_while_there_are_no_marks() {
        let mut observed = Observed::of_hundred();
        // A third of the cube of the time in half seconds.
        for (until, grown) in [(100, 1.0027), (200, 1.0216), (500, 1.396)] {
            let passed = (observed.now / MS) - 3000;
            let rate = observed.run(until - passed, 70, false);
            assert!(near(rate, 100.0 * grown), "{until} ms: {rate}");
        }
        assert!(!observed.estimate.is_loose());
        assert!(near(observed.run(9000, 70, false), 1120.0), "16 times what all get");
        assert!(observed.estimate.is_loose());
        assert!(near(observed.run(200, 70, true), 70.0 + 1050.0 * 0.368));
        assert!(!observed.estimate.is_loose());
    }

    #[test]
    fn e7_the_estimate_stays_while_something_else_than_limits_holds_flows_back() {
        let mut observed = Observed::of_hundred();
        // The last limit counts for 50 ms.
        observed.others_hold = true;
        let rate = observed.run(2000, 70, false);
        assert!(near(rate, 100.0), "{rate}");
        observed.others_hold = false;
        let rate = observed.run(450, 70, false);
        assert!(near(rate, 139.6), "from where it was: {rate}");
    }

    #[test]
    fn e7_the_estimate_stays_while_a_flow_gets_more_by_itself() {
        let mut observed = Observed::of_hundred();
        observed.rises = true;
        let rate = observed.run(2000, 70, false);
        assert!(near(rate, 100.0), "{rate}");
        observed.rises = false;
        // It counts for as long as limits take to follow: 200 ms.
        let rate = observed.run(200, 70, false);
        assert!(near(rate, 100.0), "{rate}");
        let rate = observed.run(500, 70, false);
        assert!(near(rate, 139.6), "from where it was: {rate}");
    }

    #[test]
    fn e7_what_all_get_without_marks_raises_the_estimate() {
        let mut observed = Observed::of_hundred();
        assert!(near(observed.run(20, 104, false), 100.0), "within sigma");
        let rate = observed.run(20, 155, false);
        assert!(near(rate, 105.0), "{rate}");
    }

    #[test]
    fn e8_less_under_congestion_is_the_work_of_others_after_a_while() {
        // A tenth less than the best is still ours to share.
        for (total, after) in [(92, None), (80, Some(638..=640))] {
            let mut observed = Observed::of_hundred();
            let mut until = |ms| {
                (0..ms).position(|_| {
                    observed.run(1, total, true);
                    observed.estimate.is_taken()
                })
            };
            let taken = until(1500);
            let right = |range: core::ops::RangeInclusive<usize>| {
                taken.is_some_and(|ms| range.contains(&ms))
            };
            assert!(after.map_or(taken.is_none(), right), "{total}: {taken:?}");
        }
    }

    #[test]
    fn e8_less_without_congestion_is_what_flows_want() {
        let mut observed = Observed::of_hundred();
        observed.run(1500, 80, false);
        assert!(!observed.estimate.is_taken());
        observed.run(400, 80, true);
        assert!(!observed.estimate.is_taken(), "not yet: half a second of congestion tells");
        observed.run(200, 80, true);
        assert!(observed.estimate.is_taken());
        observed.run(1, 80, false);
        assert!(!observed.estimate.is_taken());
    }

    #[test]
    fn e8_the_best_is_that_of_the_last_five_to_ten_seconds() {
        let mut observed = Observed::of_hundred();
        observed.run(6000, 80, true);
        assert!(observed.estimate.is_taken(), "6 s: 100 was seen in the window before");
        observed.run(2000, 80, true);
        assert!(!observed.estimate.is_taken(), "8 s");
        let mut best = RecentMost::default();
        let second = |seconds: u64| Nanos(seconds * 1000 * MS);
        for (at, rate, greatest) in [
            (6, 9.0, 9.0),
            (11, 3.0, 9.0),
            (12, 2.0, 9.0),
            (17, 1.0, 9.0),
            (18, 1.0, 2.0),
            (29, 0.5, 0.5),
        ] {
            assert!(near(best.see(second(at), rate), greatest), "second {at}");
        }
    }
}
