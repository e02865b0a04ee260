//! How deep a device's queue may be while it keeps a latency.
//!
//! A device that is busy with everything it can do at once takes longer in proportion to what it
//! holds; one that is not takes no longer for more. So the depth that makes the mean time in the
//! device what it should be is the present depth times the wanted time over the measured one. The
//! depth goes down that far at once, and half that far up.

use crate::settings::WindowRule;
use crate::time::Nanos;

use super::{SLOT, SLOTS};

/// The depth an adaptive window begins with where there was none.
const FIRST_DEPTH: u32 = 32;
/// The depth is looked at not more often than this, nor than every [`TARGETS`] target latencies.
const LOOK: u64 = 10_000_000;
const TARGETS: u64 = 4;
/// Prices are looked at this often.
const PRICES: u64 = 200_000_000;
/// Fewer or more times than these are never waited for; else a window's worth of them is.
const FEWEST: u64 = 4;
const MOST: u64 = 64;

/// The depth, in 1/[`SLOT`], that an adaptive window of at most `max` commands begins with.
pub(super) fn first_depth(had: Option<u64>, max: u32) -> u64 {
    let first = had.unwrap_or(u64::from(FIRST_DEPTH) * SLOTS);
    first.clamp(SLOTS, u64::from(max.max(1)) * SLOTS)
}

/// What was seen at one depth.
#[derive(Debug)]
pub(super) struct Seen {
    /// The mean time in the device, in ns, of commands of ordinary size.
    pub(super) mean: u64,
    /// The most that the device held, in 1/[`SLOT`].
    pub(super) peak: u64,
    /// Whether there was more.
    pub(super) was_full: bool,
}

/// The latency that a device is to keep, and when its window was looked at.
#[derive(Debug, Default)]
pub(super) struct Adaptation {
    /// In ns; 0: the depth stays.
    target: u64,
    /// The greatest depth in 1/[`SLOT`].
    max: u64,
    /// When prices are due, in ns.
    prices: u64,
}

impl Adaptation {
    pub(super) fn new(rule: WindowRule) -> Self {
        match rule {
            WindowRule::Adaptive { target, max } => {
                Self { target: target.0.max(1), max: u64::from(max.max(1)) * SLOTS, prices: 0 }
            }
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

    /// Whether `count` times say enough about this depth.
    pub(super) fn is_enough(&self, depth: u64, count: u64) -> bool {
        self.target != 0 && count >= (depth / SLOTS).clamp(FEWEST, MOST)
    }

    /// The depth after this one. Between 15/16 of the target and the target it stays.
    pub(super) fn next_depth(&self, depth: u64, seen: &Seen) -> u64 {
        let goal = self.target - self.target / 16;
        let mean = seen.mean.max(1);
        if mean > self.target {
            // A device that held less than it might and was late would be later still with more.
            let held = depth.min(seen.peak);
            let wanted = scaled(held, goal, mean).max(held / 2);
            return wanted.clamp(SLOTS, self.max);
        }
        if mean >= goal || !seen.was_full {
            return depth.min(self.max);
        }
        let further = scaled(depth, goal, mean).saturating_sub(depth).min(depth);
        depth.saturating_add((further / 2).max(u64::from(SLOT / 8))).min(self.max)
    }
}

/// `depth` times `goal` over `mean`.
fn scaled(depth: u64, goal: u64, mean: u64) -> u64 {
    let depth = (u128::from(depth) * u128::from(goal)).checked_div(u128::from(mean)).unwrap_or(0);
    u64::try_from(depth).unwrap_or(u64::MAX)
}
