//! The part of a link that is kept empty while a class has a latency to keep (Eq. 2).
//!
//! Whoever sends little and waits for each answer has no throughput to give up: what its packets
//! wait for is the queue that others have made. So while its quality factor is above 1, the
//! throughput that the others share is made smaller, until the queue is gone; and then larger
//! again, bit by bit.

use core::time::Duration;

use crate::control::quality::of_latency;
use crate::{Nanos, Rate};

/// The least part of the link that others keep.
const LEAST: f64 = 0.5;
/// What is taken away in a second while the latency is twice the target.
const DOWN: f64 = 2.0;
/// What is given back in a second while the latency is well within the target.
const UP: f64 = 0.25;
/// From this part on it is clear that keeping less has helped.
const HELPED: f64 = 0.75;
/// A class that has not been seen for this long needs nothing kept for it.
const SILENCE: Duration = Duration::from_secs(1);

/// How much is kept empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headroom {
    part: f64,
    seen: Option<Nanos>,
    /// The greatest throughput since something was first kept empty.
    greatest: Rate,
    /// It was taken anew, and that has not helped yet.
    anew: bool,
}

impl Default for Headroom {
    fn default() -> Self {
        Self { part: 1.0, seen: None, greatest: Rate::ZERO, anew: false }
    }
}

impl Headroom {
    /// A round trip of a class with a latency to keep.
    pub(super) fn see(&mut self, now: Nanos, latency: Duration, target: Duration) {
        let before = self.seen.replace(now).unwrap_or(now);
        let time = now.since(before).min(Duration::from_millis(20)).as_secs_f64();
        let quality = of_latency(latency.as_secs_f64(), target);
        let change = if quality > 1.0 {
            -DOWN * (quality - 1.0).min(1.0)
        } else {
            // Within a tenth of the target nothing changes: it is what was asked for.
            UP * ((0.9 - quality) / 0.9).max(0.0)
        };
        self.part = (self.part + change * time).clamp(LEAST, 1.0);
    }

    /// The part of the link that the others have.
    pub(super) fn part(&mut self, now: Nanos) -> f64 {
        if self.seen.is_some_and(|seen| now.since(seen) > SILENCE) {
            self.part = 1.0;
        }
        self.part
    }

    /// The capacity, as far as it is known: the greatest throughput since something was first kept
    /// empty. Where that turns out to be too much (half of it still makes a queue), it is taken
    /// anew: once, for if that does not help, the queue is of others, who would take whatever else
    /// is left.
    pub(super) fn known(&mut self, total: Rate, congested: bool) -> Rate {
        let too_much = congested && self.part <= LEAST && !self.anew;
        self.anew = (self.anew || too_much) && self.part < HELPED;
        if total > self.greatest || too_much {
            self.greatest = total;
        }
        self.greatest
    }

    /// Nothing is kept empty: what goes through is what there is.
    pub(super) fn forget(&mut self) {
        (self.greatest, self.anew) = (Rate::ZERO, false);
    }
}
