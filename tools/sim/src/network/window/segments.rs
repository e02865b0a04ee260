//! Unacknowledged segments: which of them have arrived, and which are treated as lost.
//!
//! The network keeps the packets of a flow in order. So a segment counts as lost once the third transmission after it has
//! arrived (forward acknowledgement). Retransmissions have numbers of their own and are counted in the same way.

use std::collections::VecDeque;

/// How many transmissions later one must have arrived (RFC 5681, section 3.2).
const LATER: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sent,
    Arrived,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The place of its first byte in the stream.
    number: u64,
    /// The number of its last transmission.
    transmission: u64,
    bytes: u32,
    state: State,
    /// Whether the sender had too little to send when it was sent.
    idle: bool,
}

/// The segments from the first that is not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Segments {
    segments: VecDeque<Segment>,
    /// How many are in the network, as far as is known.
    flying: u32,
    /// How many have to be sent again.
    lost: u32,
    /// How many have arrived after a missing one.
    arrived: u32,
    transmissions: u64,
    /// The latest transmission that has arrived.
    latest: u64,
}

/// The result of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Segments that have arrived, and were not known to.
    pub(super) delivered: u32,
    pub(super) bytes: u64,
    /// Segments that are acknowledged in order, and were not before.
    pub(super) acknowledged: u32,
    /// Whether the sender had too little to send when the last of those delivered was sent.
    pub(super) idle: bool,
}

impl Segments {
    /// Returns how many segments are in the network, as far as is known.
    #[inline]
    pub(super) const fn flying(&self) -> u32 {
        self.flying
    }

    /// Returns how many segments have to be sent again.
    #[inline]
    pub(super) const fn lost(&self) -> u32 {
        self.lost
    }

    /// Returns whether everything is acknowledged.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds a segment that is sent; `idle` says that the sender had too little to send.
    #[inline]
    pub(super) fn add(&mut self, number: u64, bytes: u32, idle: bool) {
        self.transmissions += 1;
        let (transmission, state) = (self.transmissions, State::Sent);
        self.segments.push_back(Segment { number, transmission, bytes, state, idle });
        self.flying += 1;
    }

    /// Removes the first segment that has to be sent again: its place in the stream and its bytes.
    pub(super) fn again(&mut self) -> Option<(u64, u32)> {
        if self.lost == 0 {
            return None;
        }
        let segment = self.segments.iter_mut().find(|segment| segment.state == State::Lost)?;
        self.transmissions += 1;
        (segment.state, segment.transmission) = (State::Sent, self.transmissions);
        self.lost -= 1;
        self.flying += 1;
        Some((segment.number, segment.bytes))
    }

    /// Handles an acknowledgement of everything before `number`, and of a block after it.
    #[inline]
    pub(super) fn acknowledge(&mut self, number: u64, block: (u64, u64)) -> Told {
        let mut told = Told::default();
        while let Some(segment) =
            self.segments.pop_front_if(|first| first.number + u64::from(first.bytes) <= number)
        {
            told.acknowledged += 1;
            match segment.state {
                State::Sent => self.flying -= 1,
                State::Lost => self.lost -= 1,
                State::Arrived => {
                    self.arrived -= 1;
                    continue;
                }
            }
            told.delivered += 1;
            told.bytes += u64::from(segment.bytes);
            told.idle = segment.idle;
            self.latest = self.latest.max(segment.transmission);
        }
        let (from, to) = block;
        if from < to {
            let first = self.segments.partition_point(|segment| segment.number < from);
            for segment in self.segments.range_mut(first..) {
                if segment.number + u64::from(segment.bytes) > to {
                    break;
                }
                match segment.state {
                    State::Arrived => continue,
                    State::Sent => self.flying -= 1,
                    State::Lost => self.lost -= 1,
                }
                segment.state = State::Arrived;
                self.arrived += 1;
                told.delivered += 1;
                told.bytes += u64::from(segment.bytes);
                told.idle = segment.idle;
                self.latest = self.latest.max(segment.transmission);
            }
        }
        told
    }

    /// Finds lost segments by later arrivals. Returns whether it found any.
    #[inline]
    pub(super) fn find_lost(&mut self) -> bool {
        // Fast path: no segment arrived out of order.
        if self.arrived == 0
            && self.segments.front().is_none_or(|first| first.transmission + LATER > self.latest)
        {
            return false;
        }
        let before = self.lost;
        for segment in &mut self.segments {
            if segment.state == State::Sent && segment.transmission + LATER <= self.latest {
                segment.state = State::Lost;
                self.lost += 1;
                self.flying -= 1;
            }
        }
        self.lost > before
    }

    /// Marks all segments as lost that are not known to have arrived.
    pub(super) fn lose_all(&mut self) {
        for segment in &mut self.segments {
            if segment.state == State::Sent {
                segment.state = State::Lost;
                self.lost += 1;
                self.flying -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(count: u64) -> Segments {
        let mut segments = Segments::default();
        (0..count).for_each(|number| segments.add(number * 10, 10, false));
        segments
    }

    #[test]
    fn what_three_later_ones_have_overtaken_is_lost() {
        let mut segments = sent(6);
        assert_eq!(segments.acknowledge(10, (0, 0)).delivered, 1);
        for (block, lost) in [((20, 30), false), ((20, 40), false), ((20, 50), true)] {
            let told = segments.acknowledge(10, block);
            assert_eq!((told.delivered, told.acknowledged), (1, 0));
            assert_eq!(segments.find_lost(), lost, "{block:?}");
        }
        assert_eq!((segments.lost(), segments.flying()), (1, 1));
        assert_eq!(segments.again(), Some((10, 10)));
        assert_eq!(segments.again(), None);
        let told = segments.acknowledge(50, (0, 0));
        assert_eq!((told.delivered, told.acknowledged), (1, 4), "three were known already");
        assert!(!segments.find_lost());
        assert_eq!((segments.lost(), segments.flying()), (0, 1));
    }

    #[test]
    fn what_is_lost_again_is_found_by_what_was_sent_after_it() {
        let mut segments = sent(4);
        segments.acknowledge(0, (10, 40));
        assert!(segments.find_lost());
        assert_eq!(segments.again(), Some((0, 10)));
        for number in 4..7 {
            segments.add(number * 10, 10, false);
            segments.acknowledge(0, (10, number * 10 + 10));
            assert_eq!(segments.find_lost(), number == 6);
        }
        assert_eq!(segments.again(), Some((0, 10)));
    }

    #[test]
    fn an_acknowledgement_that_was_lost_is_made_up_for() {
        let mut segments = sent(5);
        let told = segments.acknowledge(0, (10, 50));
        assert_eq!((told.delivered, told.bytes), (4, 40));
        segments.lose_all();
        assert_eq!((segments.lost(), segments.flying()), (1, 0));
        assert_eq!(segments.acknowledge(50, (0, 0)).delivered, 1);
        assert!(segments.is_empty());
    }
}
