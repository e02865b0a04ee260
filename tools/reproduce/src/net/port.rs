//! An output port: a queue, and the link behind it.

use std::collections::VecDeque;

use super::time::{SECOND, Time};

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The flow that the packet is of.
    pub(crate) flow: u32,
    /// The size on the wire in bytes.
    pub(crate) bytes: u32,
    /// Whether the queue that the packet joined was at its threshold.
    pub(crate) marked: bool,
    /// The time at which the sender sent the packet.
    pub(crate) sent: Time,
}

/// The properties of a port and its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortSetup {
    /// The rate in bits per second, at least 1.
    pub(crate) rate: u64,
    /// The time of a bit to the far end.
    pub(crate) delay: Time,
    /// The packets in the queue from which on joining packets are marked (K).
    pub(crate) threshold: Option<usize>,
}

/// A port with its queue: first in, first out, without loss.
#[derive(Debug)]
pub(crate) struct Port {
    setup: PortSetup,
    /// The packets that wait; the first is being sent.
    queue: VecDeque<Packet>,
}

impl Port {
    pub(crate) fn new(setup: PortSetup) -> Self {
        Self { setup, queue: VecDeque::with_capacity(4096) }
    }

    /// Adds a packet to the queue. Returns how long the link takes to send it, if sending starts at
    /// once.
    #[inline]
    pub(crate) fn join(&mut self, mut packet: Packet) -> Option<Time> {
        packet.marked |= self.setup.threshold.is_some_and(|limit| self.queue.len() >= limit);
        self.queue.push_back(packet);
        (self.queue.len() == 1).then(|| self.time_for(packet.bytes))
    }

    /// Removes the first packet, which has been sent. Returns it, and how long the next one takes.
    #[inline]
    pub(crate) fn done(&mut self) -> Option<(Packet, Option<Time>)> {
        let packet = self.queue.pop_front()?;
        Some((packet, self.queue.front().map(|next| self.time_for(next.bytes))))
    }

    /// Returns the time of a bit to the far end.
    #[inline]
    pub(crate) const fn delay(&self) -> Time {
        self.setup.delay
    }

    /// Counts the packets in the queue, with the one in transmission.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    fn time_for(&self, bytes: u32) -> Time {
        u64::from(bytes) * 8 * SECOND / self.setup.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32) -> Packet {
        Packet { flow, bytes: 1500, marked: false, sent: 0 }
    }

    #[test]
    fn packets_are_sent_in_order_one_after_the_other_at_the_link_s_rate() {
        let mut link = Port::new(PortSetup { rate: 100_000_000_000, delay: 5, threshold: None });
        assert_eq!(link.join(packet(1)), Some(120_000), "120 ns");
        assert_eq!(link.join(packet(2)), None, "busy");
        let (first, next) = link.done().unwrap();
        assert_eq!((first.flow, next), (1, Some(120_000)));
        let (second, next) = link.done().unwrap();
        assert_eq!((second.flow, next), (2, None));
        assert_eq!(link.done(), None);
        assert_eq!(link.join(packet(3)), Some(120_000), "free again");
    }

    #[test]
    fn what_joins_a_queue_at_its_threshold_is_marked() {
        let mut link = Port::new(PortSetup { rate: 1, delay: 0, threshold: Some(3) });
        (0..5).for_each(|flow| _ = link.join(packet(flow)));
        let marks: Vec<bool> =
            std::iter::from_fn(|| link.done()).map(|(packet, _)| packet.marked).collect();
        assert_eq!(marks, [false, false, false, true, true]);
    }
}
