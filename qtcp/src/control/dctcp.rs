//! DCTCP (RFC 8257; docs/research/sources.md, E1: windows follow a quality factor, Eq. 3 and 4), and the
//! window that QTCP and D2TCP share with it.
//!
//! The figures compare with DCTCP: it makes the equal shares of Fig. 12 (E7), the slower curve of
//! Fig. 10 (E4), the interfering flow of Fig. 14b (E8), the misses of Fig. 15b (E9).

use units::{Average, within};

use super::{Controller, Decision, FlowTarget, Limits, NO_BOUND, Report};
use crate::{Nanos, Observation, Rate};

/// The part of a new mark fraction in alpha that RFC 8257 (section 4.2) recommends.
pub const G_RFC_8257: f64 = 1.0 / 16.0;

/// The part of a new mark fraction in alpha that the source of QTCP has as its default
/// (docs/research/sources.md, E1; Eq. 3).
pub const G_E1: f64 = 0.5;

/// The growth of a window in a round trip without marks, once slow start is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// One packet (Eq. 5).
    #[default]
    Packet,
    /// The square of the quality factor in packets, an eighth to eight of them. It is not in the
    /// source of QTCP, and meant for flows whose round-trip times differ. By a packet each, the
    /// flow with a round trip half as long grows four times as fast in throughput, and Q, which
    /// counts only beside marks, does not make up for that. Flows that are far from their targets,
    /// and have a long way to go a packet at a time, also reach them in about half as many round
    /// trips.
    Quality,
    /// [`TARGET_PART`] of the window that the target needs, times the square of the quality factor,
    /// one to eight times. It is not in the source of QTCP. For a flow aimed at a latency it is
    /// [`Self::Quality`], and without a target [`Self::Packet`].
    ///
    /// In the steady state each congestion takes from a window its growth since the last
    /// congestion. With growth by one packet, a small window grows by more of itself than a large
    /// one, and Q takes the difference back only once the small one is above its target, and the
    /// large one below. With growth by a part of each target, all grow by the same part, for any
    /// shares and round-trip times, and settle where Q is the same for all: at 1, if the targets
    /// add up to the carried load. The growth of a queue in a round trip depends on the bandwidth,
    /// not on the number of flows.
    ///
    /// This growth is Eq. 5 only where the target needs a window of 32 packets; elsewhere a flow
    /// whose Q is 1 gives way as DCTCP does, and grows by another step.
    Target,
}

/// The part of a target's window that [`Growth::Target`] grows by in a round trip. A greater part
/// settles sooner, and leaves more of the link unused: with a 32nd, 98.7 % and more
/// of the link is used.
pub const TARGET_PART: f64 = 1.0 / 32.0;

impl Growth {
    /// Computes the packets that a window grows by in the round trip that was `seen`.
    #[inline]
    pub(super) fn packets(self, quality: f64, target: FlowTarget, seen: &Observation) -> f64 {
        let square = quality * quality;
        match (self, target) {
            (Self::Packet, _) | (Self::Target, FlowTarget::None) => 1.0,
            (Self::Target, FlowTarget::Throughput(rate)) if seen.mss > 0 && !seen.rtt.is_zero() => {
                let window = rate.bytes() * seen.rtt.as_secs_f64() / f64::from(seen.mss);
                window * TARGET_PART * within(square, 1.0, 8.0)
            }
            _ => within(square, 0.125, 8.0),
        }
    }
}

/// The settings of a controller with a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The bounds of the window, in packets.
    pub limits: Limits,
    /// The part of a new mark fraction in alpha (g of Eq. 3), above 0.0 to 1.0.
    pub g: f64,
    /// Alpha of a new flow, 0.0 to 1.0; 1 is the careful choice of RFC 8257, section 3.3: the
    /// first mark halves the window.
    pub initial_alpha: f64,
    /// Alpha up to which marks do not count, and the window grows (epsilon of Eq. 12), 0.0 to 1.0.
    pub epsilon: f64,
    /// The part of the old value in the smoothed throughput and latency (gamma of Eq. 1 and 2),
    /// 0.0 to below 1.0.
    pub gamma: f64,
    /// The growth of flows with targets; DCTCP and D2TCP grow by a packet.
    pub growth: Growth,
}

impl Default for Settings {
    /// Makes the settings that RFC 8257 recommends.
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            g: G_RFC_8257,
            initial_alpha: 1.0,
            epsilon: 0.0,
            gamma: 0.5,
            growth: Growth::Packet,
        }
    }
}

/// The last known facts of the path of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// Bytes of payload in a packet.
    pub(super) mss: f64,
    /// The round-trip time in seconds.
    pub(super) rtt: f64,
}

impl Path {
    #[inline]
    pub(super) fn see(&mut self, seen: &Observation) {
        if seen.mss > 0 {
            self.mss = f64::from(seen.mss);
        }
        if !seen.rtt.is_zero() {
            self.rtt = seen.rtt.as_secs_f64();
        }
    }

    /// Computes the rate of a window in packets; no bound while the path is not known.
    #[inline]
    pub(super) fn rate(&self, window: f64) -> Rate {
        if self.mss > 0.0 && self.rtt > 0.0 {
            Rate::new(window * self.mss / self.rtt)
        } else {
            NO_BOUND
        }
    }

    /// Computes the packets that a rate in bytes per second has under way; `None` while the path is
    /// not known.
    #[inline]
    pub(super) fn window(&self, rate: f64) -> Option<f64> {
        (self.mss > 0.0 && self.rtt > 0.0).then(|| rate * self.rtt / self.mss)
    }
}

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

/// Computes what DCTCP multiplies its window with (Eq. 4).
#[inline]
pub(super) fn reduction(alpha: f64) -> f64 {
    1.0 - alpha / 2.0
}

/// DCTCP as RFC 8257 has it, without a target. A step is a round trip.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    rate: Average,
}

impl Dctcp {
    /// Makes a flow in slow start.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { window: Window::new(settings), rate: Average::keeping(settings.gamma) }
    }
}

impl Default for Dctcp {
    fn default() -> Self {
        Self::new(&Settings::default())
    }
}

impl Controller for Dctcp {
    fn set_target(&mut self, _: FlowTarget) {}

    #[inline]
    fn step(&mut self, _: Nanos, seen: &Observation) -> Decision {
        if let Some(rate) = seen.rate() {
            self.rate.add(rate.bytes());
        }
        self.window.step(seen, 1.0, reduction);
        self.window.decision()
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn report(&self) -> Report {
        let rate = Rate::new(self.rate.value());
        Report { alpha: self.window.alpha(), quality: 1.0, rate }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const RTT: Duration = Duration::from_micros(100);

    fn seen(delivered: u32, marked: u32) -> Observation {
        let bytes = u64::from(delivered) * 1000;
        Observation { interval: RTT, delivered, marked, bytes, rtt: RTT, ..Observation::SEEN }
    }

    fn window(flow: &mut Dctcp, seen: &Observation) -> f64 {
        flow.step(Nanos(0), seen).window
    }

    #[test]
    fn e1_slow_start_doubles_until_first_mark() {
        let mut flow = Dctcp::default();
        assert_eq!(flow.decision(), Decision { window: 10.0, rate: NO_BOUND });
        assert_eq!(window(&mut flow, &seen(10, 0)), 20.0);
        assert_eq!(window(&mut flow, &seen(20, 0)), 40.0);
        assert_eq!(window(&mut flow, &seen(90, 0)), 80.0, "at most double, whatever came");
        // Three round trips without a mark, and one in which half of the packets had one (Eq. 3).
        let alpha = (15.0_f64 / 16.0).powi(4) + 0.5 / 16.0;
        let cut = 80.0 * (1.0 - alpha / 2.0);
        assert!((window(&mut flow, &seen(80, 40)) - cut).abs() < 1e-9);
        assert!((window(&mut flow, &seen(50, 0)) - cut - 1.0).abs() < 1e-9);
    }

    #[test]
    fn e1_unused_window_is_cut_but_never_grows() {
        let mut flow = Dctcp::default();
        let idle = Observation { app_limited: true, ..seen(5, 0) };
        assert_eq!(window(&mut flow, &idle), 10.0);
        assert!(window(&mut flow, &Observation { marked: 5, ..idle }) < 10.0);
    }

    #[test]
    fn e1_constant_marks_halve_window_to_one_packet() {
        let mut flow = Dctcp::default();
        assert_eq!(window(&mut flow, &seen(10, 10)), 5.0);
        for _ in 0..10 {
            window(&mut flow, &seen(10, 10));
        }
        assert_eq!(flow.decision().window, 1.0);
    }

    #[test]
    fn e1_alpha_up_to_epsilon_lets_the_window_grow() {
        let settings = Settings { epsilon: 0.5, initial_alpha: 0.0, ..Settings::default() };
        let mut flow = Dctcp::new(&settings);
        assert_eq!(window(&mut flow, &seen(10, 10)), 11.0, "Eq. 12, first line");
        assert_eq!(flow.report().alpha, 1.0 / 16.0);
    }

    #[test]
    fn e1_growth_is_proportional_to_target_window() {
        let seen = seen(10, 0);
        // 640 packets of 1000 bytes in a round trip of 100 us.
        let target = FlowTarget::Throughput(Rate::new(6.4e9));
        let grows = |quality, target| Growth::Target.packets(quality, target, &seen);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} against {b}");
        near(grows(1.0, target), 20.0);
        near(grows(0.5, target), 20.0);
        near(grows(2.0, target), 80.0);
        near(grows(100.0, target), 160.0);
        near(grows(1.0, FlowTarget::Throughput(Rate::new(0.32e9))), 1.0);
        near(grows(2.0, FlowTarget::None), 1.0);
        near(grows(2.0, FlowTarget::Latency(RTT)), 4.0);
        let unknown = Observation { rtt: Duration::ZERO, ..seen };
        near(Growth::Target.packets(2.0, target, &unknown), 4.0);
    }

    #[test]
    fn e1_the_rate_goes_with_the_window() {
        let mut flow = Dctcp::default();
        let decision = flow.step(Nanos(0), &seen(10, 0));
        assert!((decision.rate.bytes() - 20.0 * 1000.0 / 1e-4).abs() < 1.0);
        assert!((flow.report().rate.bytes() - 10.0 * 1000.0 / 1e-4).abs() < 1.0);
    }
}
