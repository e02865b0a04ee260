//! A client's traffic as the data node's device counts it, independent of its reports.
//!
//! The device counts packets, and a token permits an I/O of up to the agreed size. So an I/O is as
//! many packets as that size has. If a packet holds less than an I/O, smaller I/Os count in parts: the
//! count never exceeds the I/Os of a client that respects the size.

use core::num::NonZeroU64;

use crate::token::Tokens;

/// Bits of a packet sequence number.
const SEQUENCE_BITS: u32 = 24;

/// How far a client's packets have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The packet sequence number that the data node expects next: 24 bits.
    pub next: u32,
    /// The packets of an I/O of the agreed size.
    pub packets_per_io: NonZeroU64,
}

impl Arrivals {
    /// Returns the packets since an earlier count; fewer than 2^24 have come in between.
    const fn packets_since(self, next: u32) -> u64 {
        (self.next.wrapping_sub(next) & ((1 << SEQUENCE_BITS) - 1)) as u64
    }
}

/// The traffic of a client in the running period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// The last count.
    last: Option<Arrivals>,
    /// Packets since the period's start.
    packets: u64,
    /// Whether packets are counted since the period's start.
    is_whole: bool,
    /// Number of periods in a row with more I/Os than the client has reported.
    pub(super) unreported: u32,
}

impl Traffic {
    /// Begins a period.
    pub(super) const fn begin(&mut self) {
        self.is_whole = self.last.is_some();
        self.packets = 0;
    }

    /// Takes a count. Some are needed before 2^24 packets have come.
    pub(super) const fn count(&mut self, arrivals: Arrivals) {
        if let Some(last) = self.last {
            self.packets = self.packets.saturating_add(arrivals.packets_since(last.next));
        }
        self.last = Some(arrivals);
    }

    /// Returns the least number of I/Os of the running period: all packets but `others` belong to
    /// I/Os of the agreed size. `None` if its beginning was not counted.
    pub(super) fn ios(&self, others: u64) -> Option<Tokens> {
        let packets = self.packets.saturating_sub(others);
        let last = self.last.filter(|_| self.is_whole)?;
        Some(Tokens(packets / last.packets_per_io))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(next: u32) -> Arrivals {
        Arrivals { next, packets_per_io: NonZeroU64::new(4).unwrap() }
    }

    #[test]
    fn h2_packets_count_across_wrap_of_sequence_number() {
        let mut traffic = Traffic::default();
        traffic.count(arrivals((1 << 24) - 10));
        traffic.begin();
        traffic.count(arrivals(30));
        assert_eq!(traffic.ios(0), Some(Tokens(10)));
        traffic.count(arrivals(70));
        assert_eq!(traffic.ios(40), Some(Tokens(10)), "40 packets are of no I/O");
        traffic.begin();
        assert_eq!(traffic.ios(0), Some(Tokens::ZERO));
    }

    #[test]
    fn h2_period_without_counted_start_is_unknown() {
        let mut traffic = Traffic::default();
        traffic.begin();
        traffic.count(arrivals(0));
        traffic.count(arrivals(400));
        assert_eq!(traffic.ios(0), None);
    }
}
