//! The settings of window laws.

use qtcp::Observation;
use qtcp::observation::G_RFC_8257;
use sluice_sim::control::{FlowTarget, Limits};
use units::within;

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

impl Settings {
    /// Makes the settings of QTCP: DCTCP's, except that alpha starts from 0.
    ///
    /// The first marks, at the end of slow start, then shrink the windows by Q far more than by alpha, and the ratios
    /// hold from there on. From 1 all windows would be halved first, and would find their ratios at a packet a round
    /// trip. With the g = 1/2 of docs/research/sources.md, E1, alpha follows single marks, cuts flows that lack
    /// bandwidth as well, and keeps ratios and utilisation lower than RFC 8257's g does.
    ///
    /// Windows grow as in Eq. 5, so that with Q = 1 a flow is one of DCTCP exactly, and takes no more than its part
    /// beside flows of DCTCP. Small windows then rest above their targets and large ones below, by up to a tenth where
    /// windows are of a few packets. [`Growth::Target`] has no such bias, and settles in half as many round trips.
    #[must_use]
    pub fn qtcp() -> Self {
        Self { initial_alpha: 0.0, ..Self::default() }
    }
}
