//! The laws of windows that figures compare.
//!
//! - **DCTCP** (RFC 8257) makes the equal shares of Fig. 12 (E7), the slower curve of Fig. 10 (E4), the interfering
//!   flow of Fig. 14b (E8) and the misses of Fig. 15b (E9).
//! - **QTCP** (docs/research/sources.md, E1; Eq. 1 to 5 and Fig. 3) makes Fig. 8 (E3), Fig. 9 (E1), Fig. 10 (E4), the
//!   offered load of Fig. 12 (E7), Fig. 14a (E8) and Fig. 15b (E9).
//! - **QTCP with Fig. 15a** measures the bandwidth that other flows leave ([`Lambda`]; E8, Fig. 14b).
//! - **D2TCP** (Vamanan et al., SIGCOMM 2012) goes by deadlines (E9, Fig. 15b).
//!
//! The daemon has none of them: there the kernel keeps the windows. Sockets of the simulated network have Eq. 5 by the
//! same quality factor.

mod lambda;
mod settings;
mod window;

#[cfg(test)]
mod tests;

use qtcp::{Nanos, Observation};
use sluice_sim::control::quality::Quality;
use sluice_sim::control::{Controller, Decision, FlowTarget, Report, reduction};
use units::within;

pub use lambda::{FLOOR, Lambda, SIGMA};
pub use settings::{Growth, Settings, TARGET_PART};

use window::Window;

/// The law that decides a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// DCTCP: the fraction of marked packets alone decides (Eq. 3, 4). Targets are ignored.
    Dctcp,
    /// QTCP: in a round trip with marks, a flow that has more than its target (Q < 1) shrinks its window by Q on top
    /// of DCTCP's reduction. Without marks, or short of its target, the flow does as DCTCP (Eq. 5).
    ///
    /// Without a target a flow is DCTCP of the same settings, window for window.
    Qtcp,
    /// QTCP whose target is the flow's part of lambda. Lambda falls only in round trips with marks in which all the
    /// window was used: otherwise no other flow keeps this one from its target. With a target that is no throughput
    /// the flow is one of [`Law::Qtcp`].
    Interference(Lambda),
    /// D2TCP: the window is multiplied with `1 - alpha^d / 2`, d being the measured delay divided by the target delay:
    /// a late flow (d > 1) gives way less than DCTCP, an early flow more.
    ///
    /// The urgency d is the quality factor, bounded to [`URGENCY`]: with [`FlowTarget::Latency`] (Eq. 2) it is the
    /// smoothed round-trip time by the target. With [`FlowTarget::Throughput`] (Eq. 1), set to the rest of a transfer
    /// over the remaining time, d is the time needed by the time left, as in the paper. Without a target d is 1: DCTCP.
    D2tcp,
}

/// The bounds of the urgency d in D2TCP, so that near deadlines do not starve far ones (section 3.2 of its paper).
pub const URGENCY: (f64, f64) = (0.5, 2.0);

/// The controller of one flow's window. A step is a round trip.
#[derive(Clone, Debug)]
pub struct WindowControl {
    law: Law,
    window: Window,
    quality: Quality,
    growth: Growth,
}

impl WindowControl {
    /// Makes a flow in slow start, without a target.
    #[must_use]
    pub fn new(law: Law, settings: &Settings) -> Self {
        Self {
            law,
            window: Window::new(settings),
            quality: Quality::new(settings.gamma),
            growth: settings.growth,
        }
    }

    /// Makes a flow of DCTCP with the settings of RFC 8257.
    #[must_use]
    pub fn dctcp() -> Self {
        Self::new(Law::Dctcp, &Settings::default())
    }

    /// Makes a flow of QTCP with [`Settings::qtcp`].
    #[must_use]
    pub fn qtcp() -> Self {
        Self::new(Law::Qtcp, &Settings::qtcp())
    }

    /// Returns the target: with Fig. 15a, the part of it that is left.
    #[inline]
    fn target(&self) -> FlowTarget {
        match self.law {
            Law::Interference(lambda) => lambda.part(self.quality.target()),
            _ => self.quality.target(),
        }
    }

    #[inline]
    fn quality(&self) -> f64 {
        self.quality.against(self.target())
    }

    /// Runs one round of Fig. 15a.
    #[inline]
    fn detect(&mut self, seen: &Observation) {
        let Law::Interference(lambda) = &mut self.law else { return };
        let target = self.quality.target();
        let quality = self.quality.against(lambda.part(target));
        let congested = seen.marked > 0 && !seen.app_limited;
        if let FlowTarget::Throughput(_) = target
            && (congested || quality < 1.0)
        {
            lambda.note(quality);
        }
    }
}

impl Controller for WindowControl {
    fn set_target(&mut self, target: FlowTarget) {
        if self.law != Law::Dctcp {
            self.quality.set_target(target);
        }
    }

    #[inline]
    fn step(&mut self, _: Nanos, seen: &Observation) -> Decision {
        self.quality.see(seen);
        self.detect(seen);
        let quality = self.quality();
        if self.law == Law::D2tcp {
            let urgency = within(quality, URGENCY.0, URGENCY.1);
            self.window.step(seen, 1.0, |alpha| reduction(alpha.powf(urgency)));
        } else {
            let growth = self.growth.packets(quality, self.target(), seen);
            self.window.step(seen, growth, |alpha| reduction(alpha) * quality.min(1.0));
        }
        self.window.decision()
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn report(&self) -> Report {
        Report { alpha: self.window.alpha(), quality: self.quality(), rate: self.quality.rate() }
    }
}
