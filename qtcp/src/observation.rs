//! Observations of the network by a flow in one control interval.

use core::time::Duration;

use crate::Rate;

/// The part of a new mark fraction in the smoothed one (g of Eq. 3) that RFC 8257 (section 4.2) recommends.
pub const G_RFC_8257: f64 = 1.0 / 16.0;

/// The state of the network that one flow saw since its previous observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The time that the observation covers: a round trip, or the caller's substitute for one.
    pub interval: Duration,
    /// Packets that were delivered.
    pub delivered: u32,
    /// Delivered packets that carried a congestion mark.
    pub marked: u32,
    /// Bytes of payload that were delivered.
    pub bytes: u64,
    /// The round-trip time, queues included.
    pub rtt: Duration,
    /// Bytes of payload in a full packet.
    pub mss: u32,
    /// Whether the sender had less to send than it might have sent: a window that was not used says
    /// nothing of the network, and does not grow.
    pub app_limited: bool,
}

impl Observation {
    /// Computes the delivery rate of the interval (the throughput of Eq. 1); `None` where no time
    /// has passed.
    #[must_use]
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        #[expect(clippy::cast_precision_loss, reason = "bytes of one interval")]
        let bytes = self.bytes as f64;
        (!self.interval.is_zero()).then(|| Rate::over(bytes, self.interval))
    }

    /// Computes the fraction of marked packets, 0.0 to 1.0 (`f` of Eq. 3); 0 where nothing was
    /// delivered.
    #[must_use]
    #[inline]
    pub fn mark_fraction(&self) -> f64 {
        if self.delivered == 0 {
            return 0.0;
        }
        (f64::from(self.marked) / f64::from(self.delivered)).min(1.0)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Observation {
    /// A round trip of 1 ms in which 100 packets of 1000 bytes arrived without a mark.
    pub const SEEN: Self = Self {
        interval: Duration::from_millis(1),
        delivered: 100,
        marked: 0,
        bytes: 100_000,
        rtt: Duration::from_millis(1),
        mss: 1000,
        app_limited: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e1_mark_fraction_is_bounded() {
        let seen = |delivered, marked| Observation { delivered, marked, ..Observation::SEEN };
        assert_eq!(seen(0, 0).mark_fraction(), 0.0);
        assert_eq!(seen(8, 2).mark_fraction(), 0.25);
        assert_eq!(seen(1, 3).mark_fraction(), 1.0, "echoes may be latched over a round trip");
    }
}
