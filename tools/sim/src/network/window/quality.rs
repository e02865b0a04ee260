//! The quality factor of a flow with a target (docs/research/sources.md, E1; Eq. 1), in each round trip.

use core::time::Duration;

use qtcp::{Observation, Rate};

use crate::control::FlowTarget;
use crate::control::quality::Quality;
use crate::network::time::{NANO, Picos};

/// The part of the old value in the smoothed throughput (gamma of Eq. 1), as in `crate::control`.
const GAMMA: f64 = 0.5;
/// The least window after a reduction, in packets.
pub(super) const LEAST: u32 = 2;

/// The quality factor of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct QualityFactor {
    quality: Quality,
    /// The time at which the round trip began, and up to where the stream was acknowledged then.
    began: (Picos, u64),
}

impl QualityFactor {
    /// Makes the quality factor of a flow whose target is so many bytes per second.
    pub(super) fn new(target: u64) -> Self {
        let mut quality = Quality::new(GAMMA);
        quality.set_target(FlowTarget::Throughput(Rate::new(target as f64)));
        Self { quality, began: (0, 0) }
    }

    /// Notes that a round trip ends, with everything acknowledged up to there.
    pub(super) fn round_ends(&mut self, now: Picos, acknowledged: u64) {
        let (at, before) = core::mem::replace(&mut self.began, (now, acknowledged));
        self.quality.see(&Observation {
            interval: Duration::from_nanos(now.saturating_sub(at) / NANO),
            delivered: 0,
            marked: 0,
            bytes: acknowledged.saturating_sub(before),
            rtt: Duration::ZERO,
            mss: 0,
            app_limited: false,
        });
    }

    /// Shrinks a window that is reduced by Q, if the flow has more than its target (Eq. 5).
    pub(super) fn reduced(&self, window: u32) -> u32 {
        let size = f64::from(window) * self.quality.value().min(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "no more than before"
        )]
        let size = size as u32;
        size.max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::time::MICRO;

    #[test]
    fn e1_a_flow_above_its_target_gives_way_by_q_and_one_below_it_does_not() {
        let reduced = |bytes: u64| {
            // A hundred round trips of 100 us: a target of 1 GB/s is 100,000 bytes in each.
            let mut factor = QualityFactor::new(1_000_000_000);
            (1..=100).for_each(|round| factor.round_ends(round * 100 * MICRO, round * bytes));
            factor.reduced(1000)
        };
        assert_eq!(reduced(200_000), 500, "twice its target: Q is a half");
        assert_eq!(reduced(100_000), 1000);
        assert_eq!(reduced(50_000), 1000, "a lack is no reason to shrink");
    }
}
