//! One flow's limit, on top of the controller that the kernel runs for it.
//!
//! The kernel's controller answers marks: it finds out what the network carries. What it cannot
//! know is whether the flow has more than its part. That is the quality factor's (Fig. 3): a flow
//! that sees marks and has slack (Q < 1) gives way; one that sees marks and is in deficit is left
//! to the kernel; and without marks there is nothing to divide.
//!
//! Giving way is a limit on the rate at the target. Scaling a limit by Q until the rate has come
//! down (Eq. 5) ends in the same place, but the smoothed rate would follow a few round trips late
//! and the limit overshoot. The class with the greatest target fills the link: its flows are
//! held back only while others are below their targets. Were everybody held to a part of what all
//! get together, all would get less and less wherever somebody else takes what they leave.

use core::time::Duration;

use units::{Average, weight_of};

use crate::control::dctcp::G_RFC_8257;
use crate::{Observation, Rate};

/// How limits are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The least time constant of smoothing (gamma in Eq. 1; g in Eq. 3 is 1/16 for each round
    /// trip).
    pub smoothing: Duration,
    /// Marks count as congestion for this time, or two round trips.
    pub memory: Duration,
    /// A mark fraction up to this is none (epsilon in Eq. 12).
    pub epsilon: f64,
    /// How far from its target a flow has to be for that to count (sigma of docs/sources.md, E8).
    pub sigma: f64,
    /// A flow that was below its target by more than sigma for about this time will not get there
    /// by itself.
    pub patience: Duration,
    /// Without marks, the time in which a limit becomes e times what it was.
    pub growth: Duration,
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

/// What a flow is among those of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It takes what the others leave.
    Filler,
    /// It is held to its target while it sees marks.
    Follower,
    /// It is held to its target in any case: part of the link is kept empty, or nothing tells when
    /// it is full but its capacity.
    Held,
}

/// What a flow is to have, and how the link is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) target: Option<Rate>,
    pub(super) role: Role,
    /// Some flow of the link has seen marks lately, or the link is full.
    pub(super) congested: bool,
    /// Some flow that wants more is below its target.
    pub(super) deficit: bool,
    /// The link carries what it is said to carry: congestion without marks.
    pub(super) full: bool,
}

/// The limit of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlay {
    alpha: Average,
    /// Bytes per second.
    rate: Average,
    /// What the flow is short of its target, as a part of that; negative: it has more.
    short: Average,
    limit: Option<Rate>,
    /// The limit, as a part of the target, while the flow is held to it.
    boost: f64,
}

/// How much more than its target the flow that fills the link has at least, in parts of sigma.
const ROOM: f64 = 0.5;
/// The bounds of a limit, as a part of the target.
const LEAST_BOOST: f64 = 0.9;
const MOST_BOOST: f64 = 2.0;
/// A flow may send a packet in this time, or in a round trip, whatever its target.
const SLOWEST: Duration = Duration::from_millis(10);
/// A limit that is this many times the flow's rate does not hold it back.
const LOOSE: f64 = 4.0;

impl Default for Overlay {
    fn default() -> Self {
        let from_zero = Average::default().starting(0.0);
        let rate = Average::default();
        Self { alpha: from_zero, rate, short: from_zero, limit: None, boost: 0.0 }
    }
}

impl Overlay {
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

    /// Takes in what was seen.
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

    /// Whether the flow has been below its target for long; `quality` is its quality factor, 1
    /// where it wants no more than it has.
    pub(super) fn in_deficit(&mut self, rules: &Rules, seen: &Observation, quality: f64) -> bool {
        // What is missing, as a part of the target.
        let short = 1.0 - 1.0 / quality.max(0.5);
        self.short.add_by(short, weight_of(seen.interval, rules.patience)) > rules.sigma
    }

    /// Computes the limit after what was just seen; `None` where the flow is not held back.
    #[inline]
    pub(super) fn limit(
        &mut self,
        rules: &Rules,
        seen: &Observation,
        wanted: &Wanted,
    ) -> Option<Rate> {
        self.limit = match wanted.target {
            None => None,
            Some(target) => self.next(rules, seen, target, wanted),
        };
        self.limit
    }

    fn next(
        &mut self,
        rules: &Rules,
        seen: &Observation,
        target: Rate,
        wanted: &Wanted,
    ) -> Option<Rate> {
        // No limit is so low that it stops a flow: a packet for each round trip stays, or
        // for a longer time: where round trips are short, many flows have less than that.
        let least = Rate::over(f64::from(seen.mss), seen.rtt.max(SLOWEST));
        let target = target.max(least);
        let marked = wanted.full || self.alpha() > rules.epsilon;
        match wanted.role {
            Role::Held => Some(target),
            Role::Follower if wanted.congested && marked => self.hold(rules, seen, target),
            Role::Filler if wanted.congested && wanted.deficit => {
                // Somewhat above it: were it held to its part of what all get, all would get less
                // and less while others are slow to take what it leaves.
                let limit = target.times(1.0 + rules.sigma * ROOM);
                (self.rate() > limit || self.limit.is_some()).then_some(limit)
            }
            Role::Follower if wanted.congested => {
                // Its own packets find no queue: it is on another way, or there is none any more.
                let limit = self.limit?;
                Some(limit.max(target))
            }
            Role::Follower | Role::Filler => self.grow(rules, seen, target),
        }
    }

    /// Computes the limit at which the flow has its target on average: below a limit that is just
    /// the target the kernel's controller still answers marks, and pacing timers are late, so that
    /// the flow would have less.
    fn hold(&mut self, rules: &Rules, seen: &Observation, target: Rate) -> Option<Rate> {
        if self.limit.is_none() {
            if self.rate() <= target {
                return None;
            }
            self.boost = 1.0;
        }
        let short = (1.0 - self.rate.value() / target.bytes()).clamp(-1.0, 1.0);
        let change = short * seen.interval.as_secs_f64() / rules.patience.as_secs_f64();
        self.boost = (self.boost + change).clamp(LEAST_BOOST, MOST_BOOST);
        Some(target.times(self.boost))
    }

    /// Without marks a limit grows, and is lifted once it does not hold the flow back.
    fn grow(&self, rules: &Rules, seen: &Observation, target: Rate) -> Option<Rate> {
        let limit = self.limit?;
        let grown = limit.times(1.0 + seen.interval.as_secs_f64() / rules.growth.as_secs_f64());
        let grown = grown.max(target);
        (grown < self.rate().times(LOOSE) || self.rate() == Rate::ZERO).then_some(grown)
    }
}

#[cfg(test)]
#[path = "overlay_tests.rs"]
mod tests;
