//! The window that all laws have.

use qtcp::Observation;
use sluice_sim::control::{Decision, Limits, Path};
use units::{Average, within};

use super::settings::Settings;

/// The window of one flow: alpha, slow start, growth, and one reduction a round trip.
#[derive(Clone, Debug)]
pub(super) struct Window {
    limits: Limits,
    epsilon: f64,
    size: f64,
    alpha: Average,
    slow_start: bool,
    path: Path,
}

impl Window {
    pub(super) fn new(settings: &Settings) -> Self {
        let limits = settings.limits.sound();
        let alpha = within(settings.initial_alpha, 0.0, 1.0);
        Self {
            limits,
            epsilon: within(settings.epsilon, 0.0, 1.0),
            size: limits.initial,
            alpha: Average::taking(settings.g).starting(alpha),
            slow_start: true,
            path: Path::default(),
        }
    }

    /// Ends a round trip. If the flow saw marks that count, the window is multiplied once with the
    /// result of `factor` for alpha; else the window grows, by `growth` packets after slow start.
    ///
    /// Marks of this round trip decide, not alpha alone: Eq. 5 and Fig. 3 grow the window in each
    /// round trip without a mark. Eq. 12, for want of single marks in its model, looks at alpha.
    #[inline]
    pub(super) fn step(
        &mut self,
        seen: &Observation,
        growth: f64,
        factor: impl FnOnce(f64) -> f64,
    ) {
        self.path.see(seen);
        if seen.delivered == 0 {
            return;
        }
        let fraction = seen.mark_fraction();
        let alpha = self.alpha.add(fraction);
        if fraction > 0.0 {
            self.slow_start = false;
        }
        if fraction > 0.0 && alpha > self.epsilon {
            self.size = self.limits.clamp(self.size * factor(alpha));
        } else if !seen.app_limited {
            self.grow(f64::from(seen.delivered), growth);
        }
    }

    /// Grows the window: in slow start by the delivered packets, so that it doubles (RFC 5681,
    /// section 3.1), else by `packets` (Eq. 5: one).
    #[inline]
    fn grow(&mut self, delivered: f64, packets: f64) {
        let more = if self.slow_start { delivered.min(self.size) } else { packets };
        self.size = self.limits.clamp(self.size + more);
    }

    #[inline]
    pub(super) fn decision(&self) -> Decision {
        Decision { window: self.size, rate: self.path.rate(self.size) }
    }

    #[inline]
    pub(super) const fn alpha(&self) -> f64 {
        self.alpha.value()
    }
}
