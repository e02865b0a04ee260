//! The quality factor of a flow.

use qtcp::quality::{of_latency, of_throughput};
use qtcp::{Observation, Rate};
use units::Average;

use super::{FlowTarget, Report};

/// The quality factor Q (docs/research/sources.md, E1: windows follow a quality factor): above 1 the flow
/// has less than its target, below 1 it has room to give.
///
/// - [`FlowTarget::Throughput`] (Eq. 1): the target divided by the smoothed throughput.
/// - [`FlowTarget::Latency`] (Eq. 2): the smoothed round-trip time divided by the target.
/// - Without a target: 1.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    target: FlowTarget,
    /// The smoothed throughput in bytes per second.
    rate: Average,
    /// The smoothed round-trip time in seconds.
    latency: Average,
}

impl Quality {
    /// Makes a quality without observations and without a target; `gamma` (Eq. 1, 2), 0.0 to below
    /// 1.0, is the part of the old value that smoothing keeps.
    #[must_use]
    pub fn new(gamma: f64) -> Self {
        let empty = Average::keeping(gamma);
        Self { target: FlowTarget::None, rate: empty, latency: empty }
    }

    /// Sets the target. Measurements stay, since they do not depend on the target.
    pub const fn set_target(&mut self, target: FlowTarget) {
        self.target = target;
    }

    /// Returns the target that the quality is measured against.
    #[must_use]
    pub const fn target(&self) -> FlowTarget {
        self.target
    }

    /// Adds the observation of an interval. An interval without time contributes no throughput, and
    /// one without a round-trip time no latency.
    #[inline]
    pub fn see(&mut self, seen: &Observation) {
        if let Some(rate) = seen.rate() {
            self.rate.add(rate.bytes());
        }
        if !seen.rtt.is_zero() {
            self.latency.add(seen.rtt.as_secs_f64());
        }
    }

    /// Makes the report of a controller that goes by this quality; `alpha` is its smoothed fraction
    /// of marked packets.
    pub(super) fn report(&self, alpha: f64) -> Report {
        Report { alpha, quality: self.value(), rate: self.rate() }
    }

    /// Computes Q, 0.0 to [`MAX_QUALITY`](qtcp::quality::MAX_QUALITY); 1 while there is no target or nothing was measured.
    #[must_use]
    #[inline]
    pub fn value(&self) -> f64 {
        self.against(self.target)
    }

    /// Computes Q against another target.
    #[must_use]
    #[inline]
    pub fn against(&self, target: FlowTarget) -> f64 {
        match target {
            FlowTarget::None => 1.0,
            FlowTarget::Throughput(target) => {
                self.rate.get().map_or(1.0, |rate| of_throughput(target, Rate::new(rate)))
            }
            FlowTarget::Latency(target) => {
                self.latency.get().map_or(1.0, |latency| of_latency(latency, target))
            }
        }
    }

    /// Returns the smoothed throughput.
    #[must_use]
    #[inline]
    pub const fn rate(&self) -> Rate {
        Rate::new(self.rate.value())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use qtcp::quality::MAX_QUALITY;

    use super::*;

    fn seen(bytes: u64, rtt_us: u64) -> Observation {
        Observation { bytes, rtt: Duration::from_micros(rtt_us), ..Observation::SEEN }
    }

    fn close(quality: &Quality, value: f64) -> bool {
        (quality.value() - value).abs() < 1e-9
    }

    #[test]
    fn e1_quality_of_throughput_is_target_by_smoothed_rate() {
        let mut quality = Quality::new(0.75);
        quality.set_target(FlowTarget::Throughput(Rate::new(2e6)));
        assert_eq!(quality.value(), 1.0, "nothing was measured");
        quality.see(&seen(4000, 100));
        assert!(close(&quality, 0.5));
        quality.see(&seen(0, 100));
        assert!(close(&quality, 2e6 / 3e6), "a quarter of the new value (Eq. 1)");
    }

    #[test]
    fn e1_quality_of_latency_is_smoothed_time_by_target() {
        let mut quality = Quality::new(0.75);
        quality.set_target(FlowTarget::Latency(Duration::from_micros(200)));
        quality.see(&seen(1000, 100));
        assert!(close(&quality, 0.5), "room to give");
        quality.see(&seen(1000, 500));
        assert!(close(&quality, 1.0));
        quality.see(&seen(1000, 0));
        assert!(close(&quality, 1.0), "no round trip was measured");
    }

    #[test]
    fn e1_quality_is_finite_whatever_is_measured() {
        let mut quality = Quality::new(0.0);
        quality.set_target(FlowTarget::Throughput(Rate::new(1e9)));
        quality.see(&seen(0, 0));
        assert_eq!(quality.value(), MAX_QUALITY);
        quality.set_target(FlowTarget::Throughput(Rate::ZERO));
        assert_eq!(quality.value(), 1.0);
        quality.set_target(FlowTarget::Latency(Duration::ZERO));
        quality.see(&seen(u64::MAX, u64::MAX / 1000));
        assert_eq!(quality.value(), MAX_QUALITY);
        quality.set_target(FlowTarget::Throughput(Rate::ZERO));
        assert_eq!(quality.value(), 0.0);
    }
}
