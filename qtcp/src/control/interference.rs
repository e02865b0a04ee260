//! QTCP beside flows that know nothing of it (docs/research/sources.md, E8; Fig. 14b, Fig. 15a).
//!
//! Fig. 15a is printed with `lambda = (lambda + factor) x target_i` and the same sign in both
//! branches. This module follows its text: lambda, the bandwidth that the flows of QTCP share, is
//! scaled by 1 - sigma while they fall short of their targets, and by 1 + sigma while they exceed
//! them.

use units::within;

use super::dctcp::{Growth, Settings, Window, reduction};
use super::qtcp;
use super::quality::Quality;
use super::{Controller, Decision, FlowTarget, Report};
use crate::{Nanos, Observation, Rate};

/// The deviation of Q from 1 that counts as an interfering flow (docs/research/sources.md, E8: interfering
/// flows are detected).
pub const SIGMA: f64 = 0.05;

/// The least part of the capacity that lambda falls to.
pub const FLOOR: f64 = 0.01;

/// The bandwidth of a bottleneck that is left to flows of QTCP.
///
/// Each [`InterferenceQtcp`] has one, for each flow recognises interference by itself. Beside an
/// interfering flow, the flows with large targets are then pressed down to their actual rates,
/// while a flow whose target is below its fair share notices nothing.
///
/// A sender with many flows may have one lambda for all of them, so that they keep their ratio. In
/// each round trip with marks it [notes](Self::note) the quality of all together, which is lambda
/// divided by the sum of their smoothed throughputs, and aims every flow of [`Qtcp`](super::Qtcp)
/// at its part of lambda.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lambda {
    capacity: Rate,
    /// Lambda as a part of the capacity, from the floor to 1.
    share: f64,
    sigma: f64,
    floor: f64,
}

impl Lambda {
    /// Makes a lambda of all of `capacity`, changed in steps of `sigma` (0.0 to below 1.0;
    /// [`SIGMA`]), never below `floor` (a part of the capacity, 0.0 to 1.0; [`FLOOR`]). Other
    /// values are brought to the nearest of these.
    #[must_use]
    pub fn new(capacity: Rate, sigma: f64, floor: f64) -> Self {
        let floor = within(floor, f64::MIN_POSITIVE, 1.0);
        Self { capacity, share: 1.0, sigma: within(sigma, 0.0, 0.99), floor }
    }

    /// Sets another capacity; the part of it that is left stays.
    pub const fn set_capacity(&mut self, capacity: Rate) {
        self.capacity = capacity;
    }

    /// Updates lambda with the quality of a flow, or of several together. Below its target by more than sigma (Q - 1 >
    /// sigma), another sender uses bandwidth; above it by more (Q - 1 < -sigma), bandwidth has become free.
    #[inline]
    pub fn note(&mut self, quality: f64) {
        let factor = if quality - 1.0 > self.sigma {
            1.0 - self.sigma
        } else if quality - 1.0 < -self.sigma {
            1.0 + self.sigma
        } else {
            return;
        };
        self.share = (self.share * factor).max(self.floor).min(1.0);
    }

    /// Returns lambda: the bandwidth that is left.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.capacity.times(self.share)
    }

    /// Returns lambda as a part of the capacity, above 0.0 to 1.0.
    #[must_use]
    #[inline]
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// Computes `ratio_i * lambda` of a flow whose target is `target` while all the capacity is
    /// there.
    #[must_use]
    #[inline]
    pub const fn part(&self, target: FlowTarget) -> FlowTarget {
        match target {
            FlowTarget::Throughput(rate) => FlowTarget::Throughput(rate.times(self.share)),
            other => other,
        }
    }
}

/// QTCP that finds out how much of the bottleneck is left to it.
///
/// The ratio of a flow that is aimed at a throughput is this throughput by the capacity, and its
/// target the same part of lambda. Lambda falls only in round trips with marks in which all the
/// window was used: otherwise no other flow keeps this one from its target. With another kind of
/// target the flow is one of QTCP. A step is a round trip.
#[derive(Clone, Debug)]
pub struct InterferenceQtcp {
    window: Window,
    quality: Quality,
    growth: Growth,
    lambda: Lambda,
}

impl InterferenceQtcp {
    /// Makes a flow in slow start, without a target, that has all of the bottleneck.
    #[must_use]
    pub fn new(settings: &Settings, lambda: Lambda) -> Self {
        Self {
            window: Window::new(settings),
            quality: Quality::new(settings.gamma),
            growth: settings.growth,
            lambda,
        }
    }

    /// Makes a flow with the settings of [`qtcp::settings`], [`SIGMA`] and [`FLOOR`].
    #[must_use]
    pub fn with_defaults(capacity: Rate) -> Self {
        Self::new(&qtcp::settings(), Lambda::new(capacity, SIGMA, FLOOR))
    }

    /// Returns the flow's own measure of the bandwidth that is left.
    #[must_use]
    pub const fn lambda(&self) -> &Lambda {
        &self.lambda
    }

    /// Returns lambda, for a change of the capacity.
    pub const fn lambda_mut(&mut self) -> &mut Lambda {
        &mut self.lambda
    }

    #[inline]
    fn quality(&self) -> f64 {
        self.quality.against(self.lambda.part(self.quality.target()))
    }

    /// Runs one round of Fig. 15a. Returns the quality after it.
    #[inline]
    fn detect(&mut self, seen: &Observation) -> f64 {
        let quality = self.quality();
        let congested = seen.marked > 0 && !seen.app_limited;
        if let FlowTarget::Throughput(_) = self.quality.target()
            && (congested || quality < 1.0)
        {
            self.lambda.note(quality);
        }
        self.quality()
    }
}

impl Controller for InterferenceQtcp {
    fn set_target(&mut self, target: FlowTarget) {
        self.quality.set_target(target);
    }

    #[inline]
    fn step(&mut self, _: Nanos, seen: &Observation) -> Decision {
        self.quality.see(seen);
        let quality = self.detect(seen);
        let target = self.lambda.part(self.quality.target());
        let growth = self.growth.packets(quality, target, seen);
        self.window.step(seen, growth, |alpha| reduction(alpha) * quality.min(1.0));
        self.window.decision()
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn report(&self) -> Report {
        Report { alpha: self.window.alpha(), quality: self.quality(), rate: self.quality.rate() }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn e8_lambda_follows_the_deviation_of_quality_within_its_bounds() {
        let mut lambda = Lambda::new(Rate::new(1e9), SIGMA, 0.5);
        lambda.note(0.5);
        assert_eq!(lambda.rate(), Rate::new(1e9), "not above the known capacity");
        lambda.note(1.2);
        assert!((lambda.rate().bytes() - 0.95e9).abs() < 1.0);
        lambda.note(1.04);
        lambda.note(0.96);
        assert!((lambda.rate().bytes() - 0.95e9).abs() < 1.0, "within sigma nothing happens");
        lambda.note(0.9);
        assert!((lambda.rate().bytes() - 0.9975e9).abs() < 1.0);
        for _ in 0..100 {
            lambda.note(1000.0);
        }
        assert_eq!(lambda.share(), 0.5);
        lambda.set_capacity(Rate::new(2e9));
        assert_eq!(lambda.rate(), Rate::new(1e9));
    }

    #[test]
    fn e8_lambda_is_sound_whatever_it_is_set_to() {
        for bad in [f64::NAN, -1.0, f64::INFINITY] {
            let mut lambda = Lambda::new(Rate::new(1e9), bad, bad);
            for quality in [0.0, 2.0, f64::NAN, 1000.0] {
                lambda.note(quality);
                assert!(lambda.share() > 0.0 && lambda.share() <= 1.0);
            }
        }
    }

    /// Returns lambda as a part of the capacity after a round trip at half of the target.
    fn share_after(seen: &Observation) -> f64 {
        let mut flow = InterferenceQtcp::with_defaults(Rate::new(1e9));
        flow.set_target(FlowTarget::Throughput(Rate::new(0.5e9)));
        flow.step(Nanos(0), seen);
        flow.lambda().share()
    }

    #[test]
    fn e8_lambda_falls_only_under_interference() {
        let rtt = Duration::from_micros(100);
        let (delivered, bytes) = (25, 25_000);
        let quiet = Observation { interval: rtt, delivered, bytes, rtt, ..Observation::SEEN };
        assert_eq!(share_after(&quiet), 1.0, "nobody is in the way: it is still growing");
        let marked = Observation { marked: 5, ..quiet };
        assert_eq!(share_after(&marked), 0.95);
        let idle = Observation { app_limited: true, ..marked };
        assert_eq!(share_after(&idle), 1.0, "it has no more to send");
    }

    #[test]
    fn e8_the_target_is_the_flows_ratio_of_lambda() {
        let lambda = Lambda { share: 0.5, ..Lambda::new(Rate::new(1e9), SIGMA, FLOOR) };
        let third = FlowTarget::Throughput(Rate::new(3e8));
        assert_eq!(lambda.part(third), FlowTarget::Throughput(Rate::new(1.5e8)));
        let latency = FlowTarget::Latency(Duration::from_millis(5));
        assert_eq!(lambda.part(latency), latency);
    }
}
