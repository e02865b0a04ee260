//! QTCP (docs/research/sources.md, E1; Eq. 1, 2, 5 and Fig. 3): DCTCP with a quality factor.
//!
//! QTCP makes Fig. 8 (E3), Fig. 9 (E1), Fig. 10 (E4), the offered load of Fig. 12 (E7), Fig. 14a
//! (E8) and Fig. 15b (E9). Sockets of the simulated network have Eq. 5 by the same quality factor.

use super::dctcp::{Growth, Settings, Window, reduction};
use super::quality::Quality;
use super::{Controller, Decision, FlowTarget, Report};
use crate::{Nanos, Observation};

/// Returns the default settings of QTCP: DCTCP's, except that alpha starts from 0.
///
/// The first marks, at the end of slow start, then shrink the windows by Q far more than by alpha,
/// and the ratios hold from there on. From 1 all windows would be halved first, and would find
/// their ratios at a packet a round trip. With g = [`G_E1`](super::dctcp::G_E1), the default of
/// docs/research/sources.md, E1, alpha follows single marks, cuts flows that lack bandwidth as well, and
/// keeps ratios and utilisation lower than RFC 8257's g does.
///
/// Windows grow as in Eq. 5, so that with Q = 1 a flow is one of DCTCP exactly, and takes no more
/// than its part beside flows of DCTCP. Small windows then rest above their targets and large ones
/// below, by up to a tenth where windows are of a few packets. [`Growth::Target`] has no such bias,
/// and settles in half as many round trips.
#[must_use]
pub fn settings() -> Settings {
    Settings { initial_alpha: 0.0, ..Settings::default() }
}

/// QTCP: in a round trip with marks, a flow that has more than its target (Q < 1) shrinks its
/// window by Q on top of what DCTCP takes; without marks, or short of its target, the flow does as
/// DCTCP.
///
/// Without a target a flow is DCTCP of the same settings, window for window. A step is a round
/// trip.
#[derive(Clone, Debug)]
pub struct Qtcp {
    window: Window,
    quality: Quality,
    growth: Growth,
}

impl Qtcp {
    /// Makes a flow in slow start, without a target.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            window: Window::new(settings),
            quality: Quality::new(settings.gamma),
            growth: settings.growth,
        }
    }
}

impl Default for Qtcp {
    fn default() -> Self {
        Self::new(&settings())
    }
}

impl Controller for Qtcp {
    fn set_target(&mut self, target: FlowTarget) {
        self.quality.set_target(target);
    }

    #[inline]
    fn step(&mut self, _: Nanos, seen: &Observation) -> Decision {
        self.quality.see(seen);
        let quality = self.quality.value();
        let growth = self.growth.packets(quality, self.quality.target(), seen);
        self.window.step(seen, growth, |alpha| reduction(alpha) * quality.min(1.0));
        self.window.decision()
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn report(&self) -> Report {
        self.quality.report(self.window.alpha())
    }
}
