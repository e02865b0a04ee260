//! The bandwidth that flows which know nothing of QTCP leave (docs/research/sources.md, E8; Fig. 14b, Fig. 15a).
//!
//! Fig. 15a is printed with `lambda = (lambda + factor) x target_i` and the same sign in both
//! branches. This module follows its text: lambda, the bandwidth that the flows of QTCP share, is
//! scaled by 1 - sigma while they fall short of their targets, and by 1 + sigma while they exceed
//! them.

use qtcp::Rate;
use sluice_sim::control::FlowTarget;
use units::within;

/// The deviation of Q from 1 that counts as an interfering flow (docs/research/sources.md, E8: interfering
/// flows are detected).
pub const SIGMA: f64 = 0.05;

/// The least part of the capacity that lambda falls to.
pub const FLOOR: f64 = 0.01;

/// The bandwidth of a bottleneck that is left to flows of QTCP.
///
/// Each flow of [`Law::Interference`](super::Law::Interference) has one, and recognises interference by itself. Beside an
/// interfering flow, the flows with large targets are then pressed down to their actual rates,
/// while a flow whose target is below its fair share notices nothing.
///
/// A sender with many flows may have one lambda for all of them, so that they keep their ratio. In
/// each round trip with marks it [notes](Self::note) the quality of all together, which is lambda
/// divided by the sum of their smoothed throughputs, and aims every flow of
/// [`Law::Qtcp`](super::Law::Qtcp) at its part of lambda.
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
