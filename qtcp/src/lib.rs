//! Congestion control with classes: what a controller observes and what it answers.
#![forbid(unsafe_code)]

use core::time::Duration;

/// What one connection saw of the network since the previous observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Packets that were delivered.
    pub delivered: u32,
    /// Of these, packets that carried a congestion mark.
    pub marked: u32,
    /// The smoothed round-trip time.
    pub rtt: Duration,
}

impl Observation {
    /// The fraction of marked packets, 0.0 to 1.0 (F in seed row E1, Eq. 3); 0 where nothing was
    /// delivered.
    #[must_use]
    pub fn mark_fraction(&self) -> f64 {
        if self.delivered == 0 {
            return 0.0;
        }
        (f64::from(self.marked) / f64::from(self.delivered)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e1_mark_fraction_is_bounded() {
        let seen = |delivered, marked| Observation { delivered, marked, rtt: Duration::ZERO };
        assert_eq!(seen(0, 0).mark_fraction(), 0.0);
        assert_eq!(seen(8, 2).mark_fraction(), 0.25);
        assert_eq!(seen(1, 3).mark_fraction(), 1.0, "echoes may be latched over a round trip");
    }
}
