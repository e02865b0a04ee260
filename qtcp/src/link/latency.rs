//! The part of a link that is kept empty while a class has a latency to keep (Eq. 2).
//!
//! A flow that sends little and waits for each answer has no throughput to give up: its packets
//! wait in a queue made by other flows. While its quality factor is above 1, the throughput that
//! the others share is lowered, until the queue is gone; then it is raised again, step by step. If
//! this does not make the latency clearly shorter, the others have all of the link again, and the
//! next try is delayed, after each failure twice as long.

use core::time::Duration;

use units::{Class, PerClass, weight_of};

use crate::quality::of_latency;
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

/// The time over which round trips are averaged to judge whether kept-back capacity helps.
const MEMORY: Duration = Duration::from_millis(100);
/// The time over which earlier long round trips are forgotten, so that kept-back capacity must
/// prove its benefit again.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The time for which the least part has to have been left before it counts as no help.
const PATIENCE: Duration = Duration::from_secs(1);
/// The fraction of the excess latency that must be gone then.
const PAYS: f64 = 0.25;
/// The time until the first new try after a failed one, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(64);

/// The demands of one class with a latency goal on the others.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// The part of the link that the others have.
    part: f64,
    seen: Option<Nanos>,
    /// The mean quality factor lately, and the greatest one since the others had all of the link.
    quality: f64,
    worst: f64,
    /// The time since which the others have the least part.
    least_since: Option<Nanos>,
    /// The time until which nothing is kept empty, since it has not helped.
    waits_until: Nanos,
    /// The time for which nothing is kept empty the next time.
    wait: Duration,
}

impl Default for Need {
    fn default() -> Self {
        Self {
            part: 1.0,
            seen: None,
            quality: 0.0,
            worst: 0.0,
            least_since: None,
            waits_until: Nanos::ZERO,
            wait: FIRST_WAIT,
        }
    }
}

impl Need {
    fn see(&mut self, now: Nanos, quality: f64) {
        let passed = self.seen.replace(now).map_or(Duration::ZERO, |before| now.since(before));
        self.quality += (quality - self.quality) * weight_of(passed, MEMORY);
        if self.part >= 1.0 {
            self.worst = 0.0;
        }
        self.worst += (self.quality - self.worst) * weight_of(passed, FORGOTTEN);
        self.worst = self.worst.max(self.quality);
        if now < self.waits_until {
            return;
        }
        let time = passed.min(Duration::from_millis(20)).as_secs_f64();
        let change = if quality > 1.0 {
            -DOWN * (quality - 1.0).min(1.0)
        } else {
            // Within a tenth of the target nothing changes: the goal is met.
            UP * ((0.9 - quality) / 0.9).max(0.0)
        };
        self.part = (self.part + change * time).clamp(LEAST, 1.0);
        if self.part >= HELPED {
            self.least_since = None;
        } else if self.part <= LEAST {
            self.least_since.get_or_insert(now);
        }
        if self.least_since.is_some_and(|since| now.since(since) >= PATIENCE) {
            if self.helps() {
                self.wait = FIRST_WAIT;
            } else {
                (self.part, self.least_since) = (1.0, None);
                self.waits_until = now + self.wait;
                self.wait = (self.wait * 2).min(LONGEST_WAIT);
            }
        }
    }

    /// Returns whether the latency goal is met, or the latency is clearly shorter than before. It
    /// is neither if the latency is the network's own, or the queue belongs to other senders.
    fn helps(&self) -> bool {
        self.quality <= 1.0 || self.worst - self.quality >= PAYS * (self.worst - 1.0)
    }
}

/// The part of a link that is kept empty, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Headroom {
    needs: PerClass<Need>,
    /// The greatest throughput since something was first kept empty.
    greatest: Rate,
    /// Whether a lower throughput has replaced the greatest one, without an improvement so far.
    replaced: bool,
}

impl Headroom {
    /// Updates the need of a class with a latency goal by a round trip.
    pub(super) fn see(&mut self, now: Nanos, class: Class, latency: Duration, target: Duration) {
        self.needs[class].see(now, of_latency(latency.as_secs_f64(), target));
    }

    /// Returns the part of the link that the others have.
    pub(super) fn part(&mut self, now: Nanos) -> f64 {
        let parts = self.needs.values_mut().map(|need| {
            if need.seen.is_some_and(|seen| now.since(seen) > SILENCE) {
                (need.part, need.least_since) = (1.0, None);
            }
            need.part
        });
        parts.fold(1.0, f64::min)
    }

    /// Returns the known capacity while the others have this `part` of it: the greatest throughput
    /// since a part was first kept back. If this turns out to be too much (half of it still makes a
    /// queue), the present throughput replaces it, once. If that does not help, the queue belongs
    /// to other senders, which would use up any further capacity.
    pub(super) fn known(&mut self, part: f64, total: Rate, congested: bool) -> Rate {
        let too_much = congested && part <= LEAST && !self.replaced;
        self.replaced = (self.replaced || too_much) && part < HELPED;
        self.greatest = if too_much { total } else { self.greatest.max(total) };
        self.greatest
    }

    /// Forgets the capacity. The caller does so when nothing is kept empty: then the throughput
    /// tells the capacity.
    pub(super) fn forget(&mut self) {
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
            headroom.see(now, Class::High, Duration::from_micros(latency_us), TARGET);
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
    fn e9_capacity_returns_once_latency_is_kept() {
        let mut headroom = Headroom::default();
        after(&mut headroom, 0, 6, 2000);
        assert!(near(after(&mut headroom, 60, 10, 1000), 0.9), "what was asked for");
        assert!(near(after(&mut headroom, 160, 10, 950), 0.9), "within a tenth of it");
        // A quarter in a second, half of it at half of nine tenths.
        assert!(near(after(&mut headroom, 260, 8, 450), 0.91));
        assert!(near(after(&mut headroom, 340, 200, 0), 1.0), "never more than all");
    }

    /// A latency of the network itself, or of the queue of other senders, stays as it is however
    /// much the others yield.
    #[test]
    fn e9_useless_headroom_is_returned_soon() {
        for noise in [0, 100, 500] {
            let (mut headroom, mut random) = (Headroom::default(), fastrand::Rng::with_seed(noise));
            let (mut kept, looks) = (0.0, 12_000);
            for look in 0..looks {
                kept += 1.0 - after(&mut headroom, look * 10, 1, 2000 + random.u64(0..=noise));
            }
            let kept = kept / looks as f64;
            assert!((0.01..0.05).contains(&kept), "{kept} of the link in two minutes");
        }
    }

    #[test]
    fn e9_effective_headroom_is_kept_before_goal_is_met() {
        let (mut headroom, mut latency) = (Headroom::default(), 5000);
        for look in 0..1000 {
            let part = after(&mut headroom, look * 10, 1, latency);
            latency = if part < 0.6 { 3000 } else { 5000 };
        }
        assert!(near(headroom.part(Nanos(10_000 * MS)), LEAST));
    }

    #[test]
    fn e9_old_long_latency_is_forgotten() {
        let mut headroom = Headroom::default();
        after(&mut headroom, 0, 30, 20_000);
        let parts = (30..40_000).map(|look| after(&mut headroom, look * 10, 1, 2000));
        let parts: Vec<_> = parts.collect();
        assert!(near(parts[1000], LEAST), "it may have helped");
        assert!(parts[30_000..].iter().sum::<f64>() / 9970.0 > 0.9);
    }

    #[test]
    fn e9_class_keeping_latency_costs_others_nothing() {
        let mut headroom = Headroom::default();
        for look in 0..30 {
            let now = Nanos(look * 10 * MS);
            headroom.see(now, Class::Urgent, 2 * TARGET, TARGET);
            headroom.see(now, Class::High, TARGET / 10, TARGET);
        }
        assert!(near(headroom.part(Nanos(300 * MS)), LEAST));
    }

    #[test]
    fn a_long_pause_counts_as_20_ms() {
        let mut headroom = Headroom::default();
        headroom.see(Nanos(0), Class::High, 2 * TARGET, TARGET);
        headroom.see(Nanos(900 * MS), Class::High, 2 * TARGET, TARGET);
        assert!(near(headroom.part(Nanos(900 * MS)), 0.96));
    }

    #[test]
    fn silent_class_gets_no_headroom() {
        let mut headroom = Headroom::default();
        after(&mut headroom, 0, 6, 2000);
        assert!(near(headroom.part(Nanos(1050 * MS)), 0.9), "a second is not long yet");
        assert!(near(headroom.part(Nanos(1051 * MS)), 1.0));
    }

    #[test]
    fn capacity_is_greatest_throughput_until_too_high() {
        let rate = |mbit: f64| Rate::from_bits(mbit * 1e6);
        let mut headroom = Headroom::default();
        for (part, total, congested, known, why) in [
            (0.9, 90.0, true, 90.0, ""),
            (0.7, 100.0, true, 100.0, ""),
            (0.6, 50.0, true, 100.0, "others have what is missing"),
            (LEAST, 60.0, false, 100.0, "half of it makes no queue"),
            (LEAST, 60.0, true, 60.0, "half of it still makes a queue"),
            (LEAST, 40.0, true, 60.0, "once"),
            (0.74, 40.0, true, 60.0, "that it has helped is not clear yet"),
            (LEAST, 40.0, true, 60.0, "so it is not measured once more"),
            (HELPED, 40.0, true, 60.0, "it has helped"),
            (LEAST, 40.0, true, 40.0, "it may be measured once more"),
        ] {
            assert_eq!(headroom.known(part, rate(total), congested), rate(known), "{part} {why}");
        }
        headroom.forget();
        assert_eq!(headroom.known(LEAST, rate(30.0), false), rate(30.0));
    }
}
