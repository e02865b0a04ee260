//! The depth with which a device keeps a target latency.
//!
//! In a fully busy device, the time in the device grows in proportion to its commands; in any
//! other, more commands take no longer. So the mean time in the device meets the target at this
//! depth: the present depth times the target over the measured mean. The depth falls that far, by a
//! quarter at a time (by half, far from the target), and rises by half of the difference.
//!
//! A device that misses its target even without queueing inside must not idle for it. If a lower
//! depth gains less than half of the expected reduction, commands do not wait for each other there.
//! The depth then returns to its previous value for a while.

use units::Nanos;

use crate::settings::WindowRule;

use super::slot::{SLOT, SLOTS};

/// The depth an adaptive window begins with where there was none.
const FIRST_DEPTH: u32 = 32;
/// Shortest time between two looks at the depth, in ns.
const LOOK: u64 = 20_000_000;
/// Shortest time between two looks at the depth, in target latencies: the slowest commands must
/// have come back, or the others would be taken for all.
const TARGETS: u64 = 16;
/// Time between two looks at the prices, in ns.
const PRICES: u64 = 200_000_000;
/// Fewest samples for a look at the depth; between this and [`MOST`], two windows' worth are
/// needed.
const FEWEST: u64 = 32;
/// Most samples that a look at the depth waits for.
const MOST: u64 = 256;
/// Looks for which the depth does not go down after a lower one was of no use. The number doubles
/// each time that this happens again.
const REST: u32 = 4;
/// Most looks for which the depth does not go down.
const LONGEST_REST: u32 = 32;

/// Computes the depth, in 1/[`SLOT`], that an adaptive window of at most `max` commands begins
/// with.
pub(super) fn first_depth(had: Option<u64>, max: u32) -> u64 {
    let first = had.unwrap_or(u64::from(FIRST_DEPTH) * SLOTS);
    first.clamp(SLOTS, u64::from(max.max(1)) * SLOTS)
}

/// The measurements at one depth.
#[derive(Debug)]
pub(super) struct DepthSample {
    /// The mean time in the device, in ns, of commands of ordinary size.
    pub(super) mean: u64,
    /// The most that the device held, in 1/[`SLOT`].
    pub(super) peak: u64,
    /// Whether the window was full.
    pub(super) was_full: bool,
}

/// The latency that a device is to keep, and when its window was looked at.
#[derive(Debug, Default)]
pub(super) struct Adaptation {
    /// The target latency in ns; 0: the depth stays.
    target: u64,
    /// The greatest depth in 1/[`SLOT`].
    max: u64,
    /// The time at which prices are due, in ns.
    prices: u64,
    /// The depth, in 1/[`SLOT`], and the mean time in ns from which the depth is going down.
    from: Option<(u64, u64)>,
    /// The number of further looks at which the depth does not go down.
    rest: u32,
    /// The number of looks for which the depth last stayed; 0: lower was always of use since the
    /// target was missed.
    last_rest: u32,
}

impl Adaptation {
    pub(super) fn new(rule: WindowRule) -> Self {
        match rule {
            WindowRule::Adaptive { target, max } => Self {
                target: target.0.max(1),
                max: u64::from(max.max(1)) * SLOTS,
                ..Self::default()
            },
            WindowRule::Off | WindowRule::Fixed(_) => Self::default(),
        }
    }

    pub(super) fn next_look(&self, now: Nanos) -> Nanos {
        now.after(LOOK.max(self.target.saturating_mul(TARGETS)))
    }

    pub(super) fn prices_are_due(&mut self, now: Nanos) -> bool {
        let due = now.0 >= self.prices;
        if due {
            self.prices = now.after(PRICES).0;
        }
        due
    }

    /// Returns whether `count` times are enough to judge this depth.
    pub(super) fn is_enough(&self, depth: u64, count: u64) -> bool {
        self.target != 0 && count >= (2 * depth / SLOTS).clamp(FEWEST, MOST)
    }

    /// Computes the depth after this one. Between 7/8 of the target and the target it stays.
    pub(super) fn next_depth(&mut self, depth: u64, seen: &DepthSample) -> u64 {
        let goal = self.target - self.target / 16;
        let mean = seen.mean.max(1);
        if mean > self.target {
            return self.lower(depth, goal, &DepthSample { mean, ..*seen });
        }
        (self.from, self.rest, self.last_rest) = (None, 0, 0);
        if mean >= self.target - self.target / 8 || !seen.was_full {
            return depth.min(self.max);
        }
        let further = scaled(depth, goal, mean).saturating_sub(depth).min(depth);
        depth.saturating_add((further / 2).max(u64::from(SLOT / 8))).min(self.max)
    }

    fn lower(&mut self, depth: u64, goal: u64, seen: &DepthSample) -> u64 {
        // A device that held less than it might and was late would be later still with more.
        let held = depth.min(seen.peak) / SLOTS * SLOTS;
        if let Some(from) = self.from.filter(|(from, _)| held <= from / 4 * 3) {
            self.from = None;
            if !was_of_use(from, (held, seen.mean)) {
                self.last_rest = (self.last_rest * 2).clamp(REST, LONGEST_REST);
                self.rest = self.last_rest;
                // A little more than before, which may have been too low already.
                return (from.0 + (from.0 / 4).max(SLOTS)).min(self.max);
            }
        }
        if self.rest > 0 {
            self.rest -= 1;
            return depth;
        }
        self.from = self.from.or(Some((held, seen.mean)));
        let far = seen.mean / 4 > self.target && self.last_rest == 0;
        let lowest = if far { held / 2 } else { held / 4 * 3 };
        scaled(held, goal, seen.mean).max(lowest).clamp(SLOTS, self.max)
    }
}

/// Returns whether a lower depth shortened the mean time by at least half of the reduction expected
/// in a busy device. `from` and `to` are a depth and its mean time each.
fn was_of_use(from: (u64, u64), to: (u64, u64)) -> bool {
    let [from_depth, from_mean, to_depth, to_mean] = [from.0, from.1, to.0, to.1].map(u128::from);
    2 * to_mean * from_depth <= from_mean * (from_depth + to_depth)
}

/// Computes `depth` times `goal` over `mean`.
fn scaled(depth: u64, goal: u64, mean: u64) -> u64 {
    let depth = (u128::from(depth) * u128::from(goal)).checked_div(u128::from(mean)).unwrap_or(0);
    u64::try_from(depth).unwrap_or(u64::MAX)
}
