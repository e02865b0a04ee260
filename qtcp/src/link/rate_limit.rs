//! The limit of one flow, on top of the controller that the kernel runs for it.
//!
//! The kernel's controller answers marks: it finds out what the network carries. What it cannot
//! know is whether the flow has more than its part. The quality factor tells (Fig. 3): a flow that
//! sees marks and has slack (Q < 1) gives way; one that sees marks and is in deficit is left to the
//! kernel; and without marks there is nothing to divide.
//!
//! Giving way is a limit on the rate at the target. Scaling a limit by Q until the rate has come
//! down (Eq. 5) ends in the same place, but the smoothed rate would follow a few round trips late
//! and the limit overshoot. Where other senders take what flows leave, the class with the greatest
//! target fills the link: its flows are not held back. Were all flows held to a part of what all
//! get together, all would get less and less there.

use core::time::Duration;

use units::{Average, weight_of};

use crate::control::dctcp::G_RFC_8257;
use crate::{Observation, Rate};

/// The parameters of limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The least time constant of smoothing (gamma in Eq. 1; g in Eq. 3 is 1/16 for each round
    /// trip).
    pub smoothing: Duration,
    /// The least time for which marks count as congestion; six of the longest round trips if these are
    /// longer, up to half a second.
    pub memory: Duration,
    /// The mark fraction up to which marks do not count (epsilon in Eq. 12).
    pub epsilon: f64,
    /// The deviation from its target from which on a flow counts as off it (sigma of
    /// docs/sources.md, E8).
    pub sigma: f64,
    /// The time constant with which limits, and the estimate of what the link carries, follow what
    /// flows get.
    pub patience: Duration,
    /// The time in which the limit of the class that fills the link becomes e times as large. The
    /// estimate of what the link carries becomes e times as large in 1.44 times this while there
    /// are no marks.
    pub growth: Duration,
}

impl Rules {
    /// Returns the time for which marks count as congestion on a link with this longest round trip,
    /// in seconds. Windows that marks have cut grow again until the next marks: on a link that is
    /// full, marks come once in several of the longest round trips.
    #[inline]
    pub(super) fn memory_on(&self, longest: f64) -> Duration {
        let trips = Duration::try_from_secs_f64(longest * MARKED_TRIPS).unwrap_or(LONGEST_MEMORY);
        self.memory.max(trips.min(LONGEST_MEMORY))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            smoothing: Duration::from_millis(40),
            memory: Duration::from_millis(50),
            epsilon: 0.001,
            sigma: 0.05,
            patience: Duration::from_millis(200),
            growth: Duration::from_millis(500),
        }
    }
}

/// The role of a flow among those of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The flow takes what it can get, because other senders do so too, or no other flow wants what
    /// it leaves.
    Filler,
    /// The flow is held to its target while it sees marks.
    Follower,
    /// The flow is held to its target in any case: part of the link is kept empty, or only the
    /// given capacity tells when the link is full.
    Held,
}

/// The target of a flow, and the state of its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) target: Option<Rate>,
    pub(super) role: Role,
    /// Whether some flow of the link has seen marks recently, or the link is full.
    pub(super) congested: bool,
    /// Whether the link carries its given capacity: congestion without marks.
    pub(super) full: bool,
}

/// The limit of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    alpha: Average,
    /// The smoothed rate in bytes per second.
    rate: Average,
    limit: Option<Rate>,
    /// The limit, as a part of the target, while the flow is held to it.
    boost: f64,
    /// The greatest smoothed rate since the link was congested, or the flow held back.
    peak: Rate,
}

/// The number of longest round trips for which marks count as congestion.
const MARKED_TRIPS: f64 = 6.0;
/// The longest time for which marks count as congestion, unless the rules say more.
const LONGEST_MEMORY: Duration = Duration::from_millis(500);
/// The part of a rate by which a flow has to get more to count as one that rises.
const RISE: f64 = 0.02;
/// The least limit, as a part of the target.
const LEAST_BOOST: f64 = 0.9;
/// The greatest limit of a flow that is held, as a part of the target.
const MOST_BOOST: f64 = 2.0;
/// The most by which a limit is above the rate of a flow that has more than its target, as a part
/// of the target.
const SLACK: f64 = 0.25;
/// The part of a limit from which on a flow is held back by it.
const HELD: f64 = 0.8;
/// The time in which a flow may send at least one packet, whatever its target; or a round trip.
const SLOWEST: Duration = Duration::from_millis(40);
/// The multiple of the flow's rate from which on a limit does not hold the flow back.
const LOOSE: f64 = 4.0;

impl Default for RateLimit {
    fn default() -> Self {
        let from_zero = Average::default().starting(0.0);
        let rate = Average::default();
        Self { alpha: from_zero, rate, limit: None, boost: 1.0, peak: Rate::ZERO }
    }
}

impl RateLimit {
    /// Returns the smoothed rate (Eq. 1).
    #[inline]
    pub(super) fn rate(&self) -> Rate {
        Rate::new(self.rate.value())
    }

    /// Returns the smoothed fraction of marked packets (Eq. 3).
    #[inline]
    pub(super) fn alpha(&self) -> f64 {
        self.alpha.value()
    }

    /// Tells whether the limit holds the flow back: its rate, which is smoothed, is not far below.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.limit.is_some_and(|limit| self.rate() >= limit.times(HELD))
    }

    /// Takes in an observation.
    #[inline]
    pub(super) fn see(&mut self, rules: &Rules, seen: &Observation) {
        let Some(rate) = seen.rate() else { return };
        let memory = rules.smoothing.max(seen.rtt.saturating_mul(8));
        self.rate.add_by(rate.bytes(), weight_of(seen.interval, memory));
        if seen.delivered > 0 {
            // Eq. 3 has its g for each round trip.
            let trips = seen.interval.as_secs_f64() / seen.rtt.as_secs_f64().max(1e-6);
            self.alpha.add_by(seen.mark_fraction(), G_RFC_8257 * trips.max(0.05));
        }
    }

    /// Tells whether the flow gets ever more by itself, after the observation that was just taken
    /// in: no limit, no congestion and no lack of data holds it back.
    #[inline]
    pub(super) fn is_rising(&mut self, seen: &Observation, congested: bool) -> bool {
        let free = self.limit.is_none() && !congested && !seen.app_limited;
        let rises = free && self.rate() > self.peak.times(1.0 + RISE);
        if rises || !free {
            self.peak = self.rate();
        }
        rises
    }

    /// Computes the limit after the observation that was just taken in; `None` where the flow is
    /// not held back.
    #[inline]
    pub(super) fn limit(
        &mut self,
        rules: &Rules,
        seen: &Observation,
        conditions: &Conditions,
    ) -> Option<Rate> {
        self.limit = match conditions.target {
            None => None,
            Some(target) => self.next(rules, seen, target, conditions),
        };
        self.limit
    }

    fn next(
        &mut self,
        rules: &Rules,
        seen: &Observation,
        target: Rate,
        conditions: &Conditions,
    ) -> Option<Rate> {
        // A limit never stops a flow: a packet in each round trip is always allowed, or one in a
        // longer time, since many flows have less than that where round trips are short.
        let least = Rate::over(f64::from(seen.mss), seen.rtt.max(SLOWEST));
        let target = target.max(least);
        let marked = conditions.full || self.alpha() > rules.epsilon;
        match conditions.role {
            Role::Held => Some(target),
            Role::Follower if conditions.congested && marked => self.hold(rules, seen, target),
            Role::Follower if conditions.congested => {
                // The flow's packets find no queue: it has another route, or the queue is gone.
                self.limit.map(|_| target.times(self.boost.max(1.0)))
            }
            Role::Follower => self.widen(target.times(self.boost)),
            Role::Filler => self.grow(rules, seen, target),
        }
    }

    /// Computes the limit at which the flow has its target on average. A limit that equals the
    /// target would give less, since the kernel's controller still answers marks and pacing timers
    /// are late.
    fn hold(&mut self, rules: &Rules, seen: &Observation, target: Rate) -> Option<Rate> {
        if self.limit.is_none() {
            if self.rate() <= target {
                return None;
            }
            self.boost = 1.0;
        }
        let ratio = self.rate.value() / target.bytes();
        if ratio > 1.0 {
            // A limit far above the rate did not hold the flow back: it need not come down first.
            self.boost = self.boost.min(ratio + SLACK);
        }
        let short = (1.0 - ratio).clamp(-1.0, 1.0);
        let change = short * seen.interval.as_secs_f64() / rules.patience.as_secs_f64();
        self.boost = (self.boost + change).clamp(LEAST_BOOST, MOST_BOOST);
        Some(target.times(self.boost))
    }

    /// Raises a limit, and lifts it in the end.
    fn grow(&self, rules: &Rules, seen: &Observation, target: Rate) -> Option<Rate> {
        let limit = self.limit?;
        let grown = limit.times(1.0 + seen.interval.as_secs_f64() / rules.growth.as_secs_f64());
        self.widen(grown.max(target))
    }

    /// Raises a limit to a rate while there are no marks, and lifts it once it does not hold the
    /// flow back.
    fn widen(&self, rate: Rate) -> Option<Rate> {
        let grown = self.limit?.max(rate);
        (grown < self.rate().times(LOOSE) || self.rate() == Rate::ZERO).then_some(grown)
    }
}

#[cfg(test)]
#[path = "rate_limit_tests.rs"]
mod tests;
