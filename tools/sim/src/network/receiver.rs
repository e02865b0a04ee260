//! The receiver of a flow: the stream in order, and the receiver's answers.

use super::packet::Packet;
use super::time::{MICRO, Picos};

/// The time in which a receiver sends one notification of congestion at most (N of DCQCN's paper,
/// section 3.1).
const NOTIFICATIONS: Picos = 50 * MICRO;

/// How a receiver treats data out of order, and marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Keeps it, and echoes each mark on its acknowledgement (RFC 8257, section 3.2).
    Each,
    /// Keeps it, and echoes marks until the sender says that it has reacted (RFC 3168).
    Latched,
    /// Drops it and asks for it again, and notifies the sender of marks.
    Again,
}

/// A receiver's answer to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Bytes that the stream in order has grown by.
    pub(super) came: u64,
    /// Whether an acknowledgement is sent.
    pub(super) acknowledge: bool,
    /// Whether it asks for everything from there on again.
    pub(super) again: bool,
    /// Whether it echoes a mark.
    pub(super) marked: bool,
    /// The block that has come after a gap: how many bytes after the stream in order, and its
    /// bytes.
    pub(super) block: (u32, u32),
    /// Whether a notification of congestion is sent.
    pub(super) notify: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    manner: Manner,
    /// Up to where the stream has come in order.
    expected: u64,
    /// Ranges after a gap: beginnings and ends, in order, none touching another.
    later: Vec<(u64, u64)>,
    /// Whether marks are echoed, or everything was asked for again.
    latched: bool,
    /// The time of the last notification.
    notified: Option<Picos>,
    /// Packets that were marked, of a sender with a rate.
    marked: u64,
}

impl Receiver {
    pub(super) const fn new(manner: Manner) -> Self {
        Self { manner, expected: 0, later: Vec::new(), latched: false, notified: None, marked: 0 }
    }

    /// Returns up to where the stream has come in order.
    #[inline]
    pub(super) const fn expected(&self) -> u64 {
        self.expected
    }

    /// Counts the packets that were marked, of a sender with a rate.
    pub(super) const fn marked(&self) -> u64 {
        self.marked
    }

    /// Handles a data packet.
    #[inline]
    pub(super) fn take(&mut self, now: Picos, packet: &Packet) -> Answer {
        let end = packet.number + u64::from(packet.payload);
        match self.manner {
            Manner::Again => self.take_or_ask(now, packet, end),
            Manner::Each | Manner::Latched => {
                let before = self.expected;
                let block = self.keep(packet.number, end);
                let marked = if self.manner == Manner::Each {
                    packet.marked
                } else {
                    self.latched = packet.marked || self.latched && !packet.asks;
                    self.latched
                };
                let came = self.expected - before;
                Answer { came, acknowledge: true, marked, block, ..Answer::default() }
            }
        }
    }

    /// Keeps the data of a packet. Returns the block that it is part of, if there is a gap before it.
    #[inline]
    fn keep(&mut self, from: u64, end: u64) -> (u32, u32) {
        if from <= self.expected {
            self.expected = self.expected.max(end);
            while let Some((first, last)) = self.later.first().copied()
                && first <= self.expected
            {
                self.expected = self.expected.max(last);
                self.later.remove(0);
            }
            return (0, 0);
        }
        // All blocks that it touches become one with it.
        let first = self.later.partition_point(|(_, last)| *last < from);
        let last = self.later.partition_point(|(first, _)| *first <= end);
        let (mut from, mut end) = (from, end);
        for (begins, ends) in self.later.drain(first..last) {
            (from, end) = (from.min(begins), end.max(ends));
        }
        self.later.insert(first, (from, end));
        let short = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        (short(from - self.expected), short(end - from))
    }

    /// Accepts data in order, and requests the rest again.
    fn take_or_ask(&mut self, now: Picos, packet: &Packet, end: u64) -> Answer {
        let mut answer = Answer::default();
        self.marked += u64::from(packet.marked);
        if packet.marked && self.notified.is_none_or(|at| now >= at + NOTIFICATIONS) {
            self.notified = Some(now);
            answer.notify = true;
        }
        if packet.number > self.expected {
            // It is asked for once, until it comes.
            answer.again = !core::mem::replace(&mut self.latched, true);
            return answer;
        }
        if end > self.expected {
            answer.came = end - self.expected;
            self.expected = end;
            self.latched = false;
        }
        answer.acknowledge = packet.asks;
        answer
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::network::packet::{Kind, Queue};

    pub(in super::super) fn data(number: u64, payload: u32, marked: bool, asks: bool) -> Packet {
        Packet {
            number,
            sent: 0,
            block: (0, 0),
            flow: 0,
            bytes: payload,
            payload,
            kind: Kind::Data,
            urgent: false,
            queue: Queue::Other,
            hop: 0,
            capable: true,
            marked,
            asks,
        }
    }

    proptest! {
        #[test]
        fn everything_arrives_once_in_whatever_order_it_comes(
            order in prop::collection::vec(0u64..40, 0..200)
        ) {
            let mut receiver = Receiver::new(Manner::Each);
            let mut came = 0;
            for number in order.iter().copied().chain(0..40) {
                let answer = receiver.take(0, &data(number * 10, 10, false, false));
                came += answer.came;
                prop_assert_eq!(came, receiver.expected());
                if answer.block.1 > 0 {
                    let from = came + u64::from(answer.block.0);
                    let end = from + u64::from(answer.block.1);
                    prop_assert!(from > came && (from..end).contains(&(number * 10)));
                }
                prop_assert!(receiver.later.is_sorted_by(|one, next| one.1 < next.0));
            }
            prop_assert_eq!(came, 400);
            prop_assert!(receiver.later.is_empty());
        }
    }

    #[test]
    fn a_block_tells_all_that_has_come_around_a_packet() {
        let mut receiver = Receiver::new(Manner::Each);
        let block = |receiver: &mut Receiver, number| {
            receiver.take(0, &data(number, 10, false, false)).block
        };
        assert_eq!(block(&mut receiver, 20), (20, 10));
        assert_eq!(block(&mut receiver, 40), (40, 10));
        assert_eq!(block(&mut receiver, 30), (20, 30), "between the two");
        assert_eq!(receiver.take(0, &data(0, 10, false, false)).came, 10);
        assert_eq!(receiver.take(0, &data(10, 10, false, false)).came, 40, "the gap is filled");
    }

    #[test]
    fn marks_are_echoed_each_or_until_the_sender_has_reacted() {
        let marks = [(true, false), (false, false), (false, true), (true, true)];
        let echoes = |manner| {
            let mut receiver = Receiver::new(manner);
            let mut number = 0;
            marks.map(|(marked, reacted)| {
                number += 10;
                receiver.take(0, &data(number - 10, 10, marked, reacted)).marked
            })
        };
        assert_eq!(echoes(Manner::Each), [true, false, false, true]);
        assert_eq!(echoes(Manner::Latched), [true, true, false, true]);
    }

    #[test]
    fn an_adapter_asks_once_for_what_is_missing_and_notifies_once_in_50_us() {
        let mut receiver = Receiver::new(Manner::Again);
        let mut take = |now, number, marked| receiver.take(now, &data(number, 10, marked, false));
        assert!(take(0, 0, true).notify);
        assert!(!take(49 * MICRO, 10, true).notify);
        assert!(take(50 * MICRO, 20, true).notify);
        assert!(take(0, 40, false).again);
        assert!(!take(0, 50, false).again, "once");
        assert_eq!(take(0, 30, false).came, 10, "what came out of order was dropped");
        assert!(take(0, 60, false).again);
    }
}
