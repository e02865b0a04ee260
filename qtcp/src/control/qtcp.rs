//! QTCP (seed row E1, Eq. 1, 2, 5 and Fig. 3): DCTCP with a quality factor.
//!
//! Serves Fig. 8 (E3), Fig. 9 (E1), Fig. 10 (E4), Fig. 12 and 13 (E7), Fig. 14a (E8) and Fig. 15b
//! (E9).

use super::dctcp::{G_E1, Settings, Window, reduction};
use super::quality::Quality;
use super::{Controller, Decision, Report, Target};
use crate::{Nanos, Observation};

/// The defaults of QTCP: those of DCTCP, with g as seed row E1 has it ([`G_E1`]).
#[must_use]
pub fn settings() -> Settings {
    Settings { g: G_E1, ..Settings::default() }
}

/// QTCP: in a round trip with marks, a flow that has more than its target (Q < 1) shrinks its
/// window by Q on top of what DCTCP takes; without marks, or short of its target, it does as DCTCP.
///
/// Without a target it is DCTCP of the same settings, window for window. A step is a round trip.
#[derive(Clone, Debug)]
pub struct Qtcp {
    window: Window,
    quality: Quality,
}

impl Qtcp {
    /// A new flow in slow start, without a target.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { window: Window::new(settings), quality: Quality::new(settings.gamma) }
    }
}

impl Default for Qtcp {
    fn default() -> Self {
        Self::new(&settings())
    }
}

impl Controller for Qtcp {
    fn aim(&mut self, target: Target) {
        self.quality.aim(target);
    }

    #[inline]
    fn step(&mut self, _: Nanos, seen: &Observation) -> Decision {
        self.quality.see(seen);
        let quality = self.quality.value();
        self.window.step(seen, |alpha| reduction(alpha) * quality.min(1.0));
        self.window.decision()
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn report(&self) -> Report {
        Report {
            alpha: self.window.alpha(),
            quality: self.quality.value(),
            rate: self.quality.rate(),
        }
    }
}
