//! Work requests and their completions.

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;

use crate::devices::{Outcome, ReceiveBuffer};

/// A work request; `P` is data that it sends, `B` a buffer that it writes to.
#[derive(Debug)]
pub enum Work<P, B> {
    /// SEND of a few bytes, copied when they are posted, and of data behind them.
    Send {
        /// The bytes, of which the first `length` are sent.
        head: [u8; 64],
        /// Number of bytes of `head`.
        length: u8,
        /// Data behind them.
        payload: Option<P>,
        /// The peer's key that is invalidated with it (SEND with INVALIDATE).
        invalidate: Option<u32>,
    },
    /// RDMA WRITE.
    Write {
        /// The data.
        payload: P,
        /// Its place in the peer's memory.
        remote: Remote,
    },
    /// RDMA WRITE that is carried out behind all READs and atomics that were posted before it; others may
    /// overtake them.
    WriteBehind {
        /// The data.
        payload: P,
        /// Its place in the peer's memory.
        remote: Remote,
    },
    /// RDMA READ of as many bytes as the buffer has.
    Read {
        /// The buffer.
        into: B,
        /// The place in the peer's memory.
        remote: Remote,
    },
    /// Atomic addition to a 64-bit word, whose value before goes to the buffer of 8 bytes, in the
    /// byte order of this machine.
    FetchAdd {
        /// The buffer.
        into: B,
        /// The word's place in the peer's memory, a multiple of 8.
        remote: Remote,
        /// The number to add.
        add: u64,
    },
    /// Atomic exchange of a 64-bit word where it has an expected value; the value before goes to
    /// the buffer of 8 bytes, in the byte order of this machine.
    CompareSwap {
        /// The buffer.
        into: B,
        /// The word's place in the peer's memory, a multiple of 8.
        remote: Remote,
        /// The value that is expected.
        expect: u64,
        /// The value to set.
        swap: u64,
    },
    /// RDMA FLUSH: it completes once the data of earlier WRITEs is placed. It is posted by itself,
    /// by [`ActivePair::flush`](crate::ActivePair::flush).
    Flush {
        /// The place of the first byte in the peer's memory.
        remote: Remote,
        /// The number of bytes.
        length: u32,
        /// The place that the bytes are brought to.
        placement: Placement,
    },
}

impl<P, B> Work<P, B> {
    /// Makes a SEND of up to 64 bytes.
    #[must_use]
    pub fn send(bytes: &[u8], invalidate: Option<u32>) -> Self {
        let (head, length) = head(bytes);
        Self::Send { head, length, payload: None, invalidate }
    }

    /// Makes a SEND of up to 64 bytes with data behind them.
    #[must_use]
    pub fn send_with(bytes: &[u8], payload: P) -> Self {
        let (head, length) = head(bytes);
        Self::Send { head, length, payload: Some(payload), invalidate: None }
    }

    /// Returns whether the peer has to answer with data, of which only so many are out at once.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !matches!(self, Self::Send { .. } | Self::Write { .. } | Self::WriteBehind { .. })
    }
}

/// Copies up to 64 bytes.
fn head(bytes: &[u8]) -> ([u8; 64], u8) {
    let mut head = [0; 64];
    debug_assert!(bytes.len() <= head.len(), "a longer SEND has its data behind the first bytes");
    let mut length = 0;
    for (to, from) in head.iter_mut().zip(bytes) {
        *to = *from;
        length += 1;
    }
    (head, length)
}

/// The size of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairSize {
    /// Entries of the send queue.
    pub sends: u32,
    /// Receive buffers.
    pub receives: u16,
    /// Bytes of each receive buffer.
    pub receive_bytes: usize,
    /// Whether SENDs have data behind their first bytes.
    pub send_payloads: bool,
    /// Whether FLUSHes are posted, where device and library have them.
    pub flushes: bool,
}

/// A completion, as its queue pair explains it.
#[derive(Debug)]
pub enum Done<P, B> {
    /// Something was received.
    Received(ReceiveBuffer),
    /// A work request is over, with its payload and buffer.
    Work {
        /// The work request.
        work: Work<P, B>,
        /// Its outcome.
        outcome: Outcome,
        /// Whether it is the last of the requests that were posted together.
        ends: bool,
    },
    /// A receive buffer came back empty: the queue pair is in error.
    Lost(Outcome),
}

/// The order in which the works of a queue pair were posted: a number of 31 bits that wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkOrder(u32);

impl WorkOrder {
    const MASK: u32 = u32::MAX >> 1;

    /// Returns the next number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & Self::MASK)
    }

    /// Returns how many numbers lie between an earlier one and this one.
    #[must_use]
    pub fn after(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    pub(super) fn from_bits(bits: u32) -> Self {
        Self(bits & Self::MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_works_wrap() {
        let last = WorkOrder::from_bits(u32::MAX);
        assert_eq!(last.bits(), u32::MAX >> 1);
        assert_eq!(last.next(), WorkOrder::from_bits(0));
        assert_eq!((last.next().next().after(last), last.after(last)), (2, 0));
    }
}
