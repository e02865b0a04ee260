//! QRDMA (docs/research/sources.md, E2; Eq. 6): DCQCN with a quality factor.
//!
//! QRDMA makes Fig. 18 (E2, E11) and Fig. 19 (E11), in the adapters of the simulated network.

use qtcp::Observation;
use units::Nanos;

use super::dcqcn::{Reaction, Settings};
use super::quality::Quality;
use super::{Controller, Decision, FlowTarget, Report};

/// QRDMA: a notification that finds the flow above its target (Q < 1) cuts its rate by Q on top of
/// what DCQCN takes. As in DCQCN, recovery returns to the rate at which congestion was found, and a
/// step may come at any time.
#[derive(Clone, Debug)]
pub struct Qrdma {
    reaction: Reaction,
    quality: Quality,
}

impl Qrdma {
    /// Makes a flow at the rate of the link, without a target.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { reaction: Reaction::new(settings), quality: Quality::new(settings.gamma) }
    }

    /// Adds the observation of an interval to the quality factor alone. If steps have no interval
    /// of their own, Q uses these alone: they should be of one length, regardless of notifications
    /// in between.
    #[inline]
    pub fn see(&mut self, seen: &Observation) {
        self.quality.see(seen);
    }
}

impl Default for Qrdma {
    fn default() -> Self {
        Self::new(&Settings::default())
    }
}

impl Controller for Qrdma {
    fn set_target(&mut self, target: FlowTarget) {
        self.quality.set_target(target);
    }

    #[inline]
    fn step(&mut self, now: Nanos, seen: &Observation) -> Decision {
        self.quality.see(seen);
        self.reaction.step(now, seen, self.quality.value());
        self.reaction.decision()
    }

    fn decision(&self) -> Decision {
        self.reaction.decision()
    }

    fn report(&self) -> Report {
        self.quality.report(self.reaction.alpha())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use qtcp::Rate;

    use super::super::Dcqcn;
    use super::*;

    fn seen(marked: u32) -> Observation {
        let rtt = Duration::from_micros(100);
        Observation { interval: rtt, marked, rtt, ..Observation::SEEN }
    }

    #[test]
    fn e2_flow_above_target_is_cut_deeper() {
        let mut flow = Qrdma::default();
        flow.set_target(FlowTarget::Throughput(Rate::new(0.8e9)));
        let cut = flow.step(Nanos(0), &seen(1)).rate.bytes();
        assert!((cut - 5e9 * 0.5 * 0.8).abs() < 1.0, "Eq. 6: {cut}");
        let later = flow.step(Nanos(55_000), &seen(0)).rate.bytes();
        assert!((later - f64::midpoint(cut, 5e9)).abs() < 1.0, "half of the way back: {later}");
    }

    #[test]
    fn e2_quality_uses_separate_observations() {
        let settings = Settings { cnp_interval: Duration::ZERO, ..Settings::default() };
        let mut flow = Qrdma::new(&settings);
        flow.set_target(FlowTarget::Throughput(Rate::new(0.5e9)));
        flow.see(&seen(0));
        for turn in 1..4 {
            flow.step(Nanos(turn * 1000), &Observation { interval: Duration::ZERO, ..seen(1) });
            assert!((flow.report().quality - 0.5).abs() < 1e-9, "{:?}", flow.report());
        }
    }

    #[test]
    fn e2_qrdma_equals_dcqcn_up_to_target() {
        let short = FlowTarget::Throughput(Rate::new(9e9));
        for target in [FlowTarget::None, short] {
            let (mut qrdma, mut dcqcn) = (Qrdma::default(), Dcqcn::default());
            qrdma.set_target(target);
            for turn in 0..2000 {
                let (now, seen) = (Nanos(turn * 20_000), seen(u32::from(turn % 7 == 0)));
                assert_eq!(qrdma.step(now, &seen), dcqcn.step(now, &seen));
            }
        }
    }
}
