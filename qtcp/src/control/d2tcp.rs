//! D2TCP (Vamanan et al., SIGCOMM 2012): DCTCP that goes by deadlines, one of the controllers that
//! Fig. 15b compares (docs/research/sources.md, E9: classes keep latencies).

use units::within;

use super::dctcp::{Settings, Window, reduction};
use super::quality::Quality;
use super::{Controller, Decision, FlowTarget, Report};
use crate::{Nanos, Observation};

/// The bounds of the urgency d in D2TCP, so that near deadlines do not starve far ones
/// (section 3.2 of its paper).
pub const URGENCY: (f64, f64) = (0.5, 2.0);

/// D2TCP: the window is multiplied with `1 - alpha^d / 2`, d being the measured delay divided by
/// the target delay: a late flow (d > 1) gives way less than DCTCP, an early flow more.
///
/// The urgency d is the quality factor, bounded to [`URGENCY`]: with [`FlowTarget::Latency`] (Eq.
/// 2) it is the smoothed round-trip time by the target. With [`FlowTarget::Throughput`] (Eq. 1),
/// set to the rest of a transfer over the remaining time, d is the time needed by the time left, as
/// in the paper. Without a target d is 1: DCTCP. A step is a round trip.
#[derive(Clone, Debug)]
pub struct D2tcp {
    window: Window,
    quality: Quality,
}

impl D2tcp {
    /// Makes a flow in slow start, without a target.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { window: Window::new(settings), quality: Quality::new(settings.gamma) }
    }

    /// Computes the urgency d, between the bounds of [`URGENCY`].
    #[must_use]
    #[inline]
    pub fn urgency(&self) -> f64 {
        let (least, most) = URGENCY;
        within(self.quality.value(), least, most)
    }
}

impl Default for D2tcp {
    fn default() -> Self {
        Self::new(&Settings::default())
    }
}

impl Controller for D2tcp {
    fn set_target(&mut self, target: FlowTarget) {
        self.quality.set_target(target);
    }

    #[inline]
    fn step(&mut self, _: Nanos, seen: &Observation) -> Decision {
        self.quality.see(seen);
        let urgency = self.urgency();
        self.window.step(seen, 1.0, |alpha| reduction(alpha.powf(urgency)));
        self.window.decision()
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn report(&self) -> Report {
        self.quality.report(self.window.alpha())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    /// Returns the window after a round trip of `rtt_us` with marks that bring alpha to 0.25.
    fn window(target: FlowTarget, rtt_us: u64) -> f64 {
        let settings = Settings { g: 1.0, ..Settings::default() };
        let mut flow = D2tcp::new(&settings);
        flow.set_target(target);
        let rtt = Duration::from_micros(rtt_us);
        let seen = Observation { marked: 25, rtt, ..Observation::SEEN };
        flow.step(Nanos(0), &seen).window
    }

    #[test]
    fn e9_late_flows_give_way_less_and_early_ones_more() {
        let target = FlowTarget::Latency(Duration::from_micros(100));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} against {b}");
        near(window(target, 100), 10.0 * (1.0 - 0.25 / 2.0));
        near(window(target, 200), 10.0 * (1.0 - 0.0625 / 2.0));
        near(window(target, 9000), window(target, 200));
        near(window(target, 50), 10.0 * (1.0 - 0.5 / 2.0));
        near(window(target, 1), window(target, 50));
        near(window(FlowTarget::None, 9000), window(target, 100));
    }

    #[test]
    fn e9_transfer_needing_double_rate_has_highest_urgency() {
        let needs = |bytes| window(FlowTarget::Throughput(crate::Rate::new(bytes)), 100);
        assert!(needs(2e8) > needs(1e8) && needs(1e8) > needs(5e7));
        assert_eq!(needs(2e8), needs(9e9));
    }
}
