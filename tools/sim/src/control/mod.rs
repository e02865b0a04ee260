//! The congestion controllers that the daemon does not have.
//!
//! - [`Dcqcn`] and [`Qrdma`] run in simulated adapters. They have a rate, and step at any time.
//! - [`quality`]: the quality factor that windows and rates of the sources go by. Simulated sockets have Eq. 5 with it.
//! - [`Controller`]: the trait of these and of the laws of windows that figures compare.

pub mod dcqcn;
pub mod qrdma;
pub mod quality;

use core::fmt::Debug;
use core::time::Duration;

use qtcp::{Observation, Rate};
use units::{Nanos, within};

pub use self::dcqcn::Dcqcn;
pub use self::qrdma::Qrdma;

/// The rate of a decision that was made before the path was known, which is as good as no bound.
pub const NO_BOUND: Rate = Rate::new(1e15);

/// The target of a flow: its part of the target of its class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FlowTarget {
    /// No target: the quality factor is 1.
    #[default]
    None,
    /// A throughput (Eq. 1).
    Throughput(Rate),
    /// Round trips no longer than this, queues included (Eq. 2).
    Latency(Duration),
}

/// The decision of a controller: the flow has no more than `window` packets under way, and sends no
/// faster than `rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The congestion window in packets: finite, within the controller's [`Limits`].
    pub window: f64,
    /// The rate that goes with the window.
    pub rate: Rate,
}

/// The bounds of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The least window in packets, at least 1.
    pub min: f64,
    /// The largest window in packets.
    pub max: f64,
    /// The window of a new flow in packets (RFC 6928: 10).
    pub initial: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { min: 1.0, max: 1e6, initial: 10.0 }
    }
}

impl Limits {
    /// Brings a window within these limits.
    #[must_use]
    #[inline]
    pub fn clamp(&self, window: f64) -> f64 {
        // Not `f64::clamp`: it panics where min is above max, and keeps NaN.
        if window > self.min { window.min(self.max.max(self.min)) } else { self.min }
    }

    /// Repairs limits that make no sense: at least one packet, at most 10^12, in order.
    #[must_use]
    pub fn sound(self) -> Self {
        let min = within(self.min, 1.0, 1e12);
        let max = within(self.max, min, 1e12);
        Self { min, max, initial: within(self.initial, min, max) }
    }
}

/// The last known facts of the path of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Bytes of payload in a packet.
    mss: f64,
    /// The round-trip time in seconds.
    rtt: f64,
}

impl Path {
    /// Takes the facts of an observation; zeroes are unknown.
    #[inline]
    pub fn see(&mut self, seen: &Observation) {
        if seen.mss > 0 {
            self.mss = f64::from(seen.mss);
        }
        if !seen.rtt.is_zero() {
            self.rtt = seen.rtt.as_secs_f64();
        }
    }

    /// Computes the rate of a window in packets; no bound while the path is not known.
    #[must_use]
    #[inline]
    pub fn rate(&self, window: f64) -> Rate {
        if self.mss > 0.0 && self.rtt > 0.0 {
            Rate::new(window * self.mss / self.rtt)
        } else {
            NO_BOUND
        }
    }

    /// Computes the packets that a rate in bytes per second has under way; `None` while the path is
    /// not known.
    #[must_use]
    #[inline]
    pub fn window(&self, rate: f64) -> Option<f64> {
        (self.mss > 0.0 && self.rtt > 0.0).then(|| rate * self.rtt / self.mss)
    }
}

/// Computes what DCTCP multiplies its window with (Eq. 4).
#[must_use]
#[inline]
pub fn reduction(alpha: f64) -> f64 {
    1.0 - alpha / 2.0
}

/// The measurements of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The smoothed fraction of marked packets, 0.0 to 1.0 (Eq. 3).
    pub alpha: f64,
    /// The quality factor Q (Eq. 1, 2); 1 where there is no target.
    pub quality: f64,
    /// The smoothed throughput.
    pub rate: Rate,
}

/// The congestion controller of one flow: time and observations in, window and rate out.
pub trait Controller: Debug + Send {
    /// Sets the target of the flow from now on. Controllers without targets ignore it.
    fn set_target(&mut self, target: FlowTarget);

    /// Processes the observation of the control interval that ends `now` (a round trip; for
    /// rate-based controllers any time), and decides.
    fn step(&mut self, now: Nanos, seen: &Observation) -> Decision;

    /// Returns the last decision.
    fn decision(&self) -> Decision;

    /// Returns the measurements that the controller goes by.
    fn report(&self) -> Report;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_make_no_sense_are_repaired() {
        let bad = Limits { min: f64::NAN, max: f64::INFINITY, initial: f64::NAN };
        assert_eq!(bad.sound(), Limits { min: 1.0, max: 1e12, initial: 1.0 });
        let swapped = Limits { min: 20.0, max: 5.0, initial: 1e9 };
        assert_eq!(swapped.sound(), Limits { min: 20.0, max: 20.0, initial: 20.0 });
    }
}
