//! The packets on links.

use super::time::Picos;

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data of a flow, from its sender to its receiver.
    Data,
    /// An acknowledgement, from the receiver to the sender.
    Ack,
    /// A receiver's answer to data that came out of order, where all of it is to be sent again
    /// from [`Packet::number`] on.
    Again,
    /// A receiver's notification of congestion (DCQCN's CNP).
    Congestion,
}

/// The queue of a port in which a packet waits. Urgent goes before all others, where a port knows
/// priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Queue {
    /// Before all others, without interrupting a packet in transmission.
    Urgent,
    /// In order of arrival.
    Other,
}

impl Queue {
    /// All of them, the first to be served first.
    pub(super) const ALL: [Self; 2] = [Self::Urgent, Self::Other];
}

/// One value for each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerQueue<T> {
    urgent: T,
    other: T,
}

impl<T> core::ops::Index<Queue> for PerQueue<T> {
    type Output = T;

    #[inline]
    fn index(&self, queue: Queue) -> &T {
        match queue {
            Queue::Urgent => &self.urgent,
            Queue::Other => &self.other,
        }
    }
}

impl<T> core::ops::IndexMut<Queue> for PerQueue<T> {
    #[inline]
    fn index_mut(&mut self, queue: Queue) -> &mut T {
        match queue {
            Queue::Urgent => &mut self.urgent,
            Queue::Other => &mut self.other,
        }
    }
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// The place in the stream: of data, of its first byte; of an acknowledgement, of the byte that
    /// is expected next.
    pub(super) number: u64,
    /// The time at which the data was sent; of an acknowledgement, of the data that it answers.
    pub(super) sent: Picos,
    /// The first block of a selective acknowledgement (RFC 2018): the number of bytes from [`Self::number`] to the
    /// block, and the number of bytes in it; no bytes: no block.
    pub(super) block: (u32, u32),
    /// The slot of the flow.
    pub(super) flow: u32,
    /// The size of the IP packet in bytes, which queues count.
    pub(super) bytes: u32,
    /// The bytes of the stream in it.
    pub(super) payload: u32,
    /// Purpose.
    pub(super) kind: Kind,
    /// Whether its DSCP says Urgent.
    pub(super) urgent: bool,
    /// The queue in which it waits at the port where it is.
    pub(super) queue: Queue,
    /// The links that it has passed.
    pub(super) hop: u8,
    /// Whether the sender reacts to marks (ECT of RFC 3168).
    pub(super) capable: bool,
    /// Whether a queue has marked it (CE); of an acknowledgement, whether it echoes a mark (ECE).
    pub(super) marked: bool,
    /// Of data with a window: the sender has reacted to the echo (CWR of RFC 3168); with a rate: an
    /// acknowledgement is asked for.
    pub(super) asks: bool,
}
