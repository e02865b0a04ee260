//! The part of a link that is kept empty while a class has a latency to keep (Eq. 2).
//!
//! A flow that sends little and waits for each answer has no throughput to give up: its packets
//! wait in the queue that other flows have made. While its quality factor is above 1, the
//! throughput that the others share is lowered, until the queue is gone; then it is raised again,
//! step by step.

use core::time::Duration;

use crate::control::quality::of_latency;
use crate::{Nanos, Rate};

/// The least part of the link that others keep.
const LEAST: f64 = 0.5;
/// The part that is taken away in a second while the latency is twice the target.
const DOWN: f64 = 2.0;
/// The part that is given back in a second while the latency is well within the target.
const UP: f64 = 0.25;
/// The part from which on it is clear that a lower throughput has helped.
const HELPED: f64 = 0.75;
/// The time after which nothing is kept empty for a class that was not seen.
const SILENCE: Duration = Duration::from_secs(1);

/// The part of a link that is kept empty, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headroom {
    part: f64,
    seen: Option<Nanos>,
    /// The greatest throughput since something was first kept empty.
    greatest: Rate,
    /// Whether the greatest throughput was replaced by a lower one that has not helped yet.
    replaced: bool,
}

impl Default for Headroom {
    fn default() -> Self {
        Self { part: 1.0, seen: None, greatest: Rate::ZERO, replaced: false }
    }
}

impl Headroom {
    /// Takes in a round trip of a class with a latency to keep.
    pub(crate) fn see(&mut self, now: Nanos, latency: Duration, target: Duration) {
        let before = self.seen.replace(now).unwrap_or(now);
        let time = now.since(before).min(Duration::from_millis(20)).as_secs_f64();
        let quality = of_latency(latency.as_secs_f64(), target);
        let change = if quality > 1.0 {
            -DOWN * (quality - 1.0).min(1.0)
        } else {
            // Within a tenth of the target nothing changes: the goal is met.
            UP * ((0.9 - quality) / 0.9).max(0.0)
        };
        self.part = (self.part + change * time).clamp(LEAST, 1.0);
    }

    /// Returns the part of the link that the others have.
    pub(crate) fn part(&mut self, now: Nanos) -> f64 {
        if self.seen.is_some_and(|seen| now.since(seen) > SILENCE) {
            self.part = 1.0;
        }
        self.part
    }

    /// Returns the capacity, as far as it is known: the greatest throughput since a part was first
    /// kept empty. Where this turns out to be too much (half of it still makes a queue), the
    /// present throughput replaces it, once. If that does not help, the queue comes from other
    /// senders, which would take whatever else is left.
    pub(crate) fn known(&mut self, total: Rate, congested: bool) -> Rate {
        let too_much = congested && self.part <= LEAST && !self.replaced;
        self.replaced = (self.replaced || too_much) && self.part < HELPED;
        self.greatest = if too_much { total } else { self.greatest.max(total) };
        self.greatest
    }

    /// Forgets the capacity. The caller does so when nothing is kept empty: then the throughput
    /// tells the capacity.
    pub(crate) fn forget(&mut self) {
        (self.greatest, self.replaced) = (Rate::ZERO, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TARGET: Duration = Duration::from_micros(1000);

    /// Returns the part that others keep after observations every 10 ms at this latency.
    fn after(headroom: &mut Headroom, from: u64, looks: u64, latency_us: u64) -> f64 {
        let mut part = 0.0;
        for look in 0..looks {
            let now = Nanos((from + look * 10) * MS);
            headroom.see(now, Duration::from_micros(latency_us), TARGET);
            part = headroom.part(now);
        }
        part
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn e9_more_is_kept_the_longer_a_latency_is_missed() {
        // 2 in a second at twice the target: a fiftieth in a look; half of that at one and a half.
        assert!(near(after(&mut Headroom::default(), 0, 1, 2000), 1.0), "no time has passed yet");
        assert!(near(after(&mut Headroom::default(), 0, 6, 2000), 0.9));
        assert!(near(after(&mut Headroom::default(), 0, 6, 1500), 0.95));
        assert!(near(after(&mut Headroom::default(), 0, 6, 9000), 0.9), "no faster than that");
        assert!(near(after(&mut Headroom::default(), 0, 100, 2000), LEAST));
    }

    #[test]
    fn e9_it_is_given_back_once_the_latency_is_well_kept() {
        let mut headroom = Headroom::default();
        after(&mut headroom, 0, 6, 2000);
        assert!(near(after(&mut headroom, 60, 10, 1000), 0.9), "what was asked for");
        assert!(near(after(&mut headroom, 160, 10, 950), 0.9), "within a tenth of it");
        // A quarter in a second, half of it at half of nine tenths.
        assert!(near(after(&mut headroom, 260, 8, 450), 0.91));
        assert!(near(after(&mut headroom, 340, 200, 0), 1.0), "never more than all");
    }

    #[test]
    fn a_long_pause_counts_as_20_ms() {
        let mut headroom = Headroom::default();
        headroom.see(Nanos(0), 2 * TARGET, TARGET);
        headroom.see(Nanos(900 * MS), 2 * TARGET, TARGET);
        assert!(near(headroom.part(Nanos(900 * MS)), 0.96));
    }

    #[test]
    fn nothing_is_kept_for_a_class_that_is_silent() {
        let mut headroom = Headroom::default();
        after(&mut headroom, 0, 6, 2000);
        assert!(near(headroom.part(Nanos(1050 * MS)), 0.9), "a second is not long yet");
        assert!(near(headroom.part(Nanos(1051 * MS)), 1.0));
    }

    #[test]
    fn the_capacity_is_the_greatest_throughput_until_that_turns_out_to_be_too_much() {
        let rate = |mbit: f64| Rate::from_bits(mbit * 1e6);
        let mut headroom = Headroom::default();
        assert_eq!(headroom.known(rate(90.0), true), rate(90.0));
        assert_eq!(headroom.known(rate(100.0), true), rate(100.0));
        assert_eq!(headroom.known(rate(50.0), true), rate(100.0), "others have what is missing");
        after(&mut headroom, 0, 30, 2000);
        assert_eq!(headroom.known(rate(60.0), false), rate(100.0), "half of it makes no queue");
        assert_eq!(headroom.known(rate(60.0), true), rate(60.0), "half of it still makes a queue");
        assert_eq!(headroom.known(rate(40.0), true), rate(60.0), "once");
        // The headroom has helped: more than three quarters are left to others.
        after(&mut headroom, 300, 200, 0);
        assert_eq!(headroom.known(rate(40.0), true), rate(60.0));
        after(&mut headroom, 2300, 30, 2000);
        assert_eq!(headroom.known(rate(40.0), true), rate(40.0), "it may be measured once more");
        headroom.forget();
        assert_eq!(headroom.known(rate(30.0), false), rate(30.0));
    }

    #[test]
    fn from_three_quarters_on_a_lower_throughput_has_helped() {
        let rate = |mbit: f64| Rate::from_bits(mbit * 1e6);
        for (part, known) in [(0.74, 60.0), (HELPED, 40.0)] {
            let replaced = Headroom { part, seen: None, greatest: rate(60.0), replaced: true };
            let mut headroom = replaced;
            assert_eq!(headroom.known(rate(40.0), true), rate(60.0));
            headroom.part = LEAST;
            assert_eq!(headroom.known(rate(40.0), true), rate(known), "{part}");
        }
    }
}
