//! Operations on memory of a peer, and their ends.

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;
use thiserror::Error as ThisError;

use crate::devices::{Part, ReceiveBuffer};
use crate::error::Error;

/// The mark of an operation, which identifies its completion. The caller that posts it chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// An operation on memory of the peer. Words are 64 bits at multiples of 8, in the byte order of this
/// machine, which must be the peer's.
#[derive(Debug)]
pub enum OneSidedWork {
    /// Reads a word.
    ReadWord {
        /// The word's place.
        at: Remote,
    },
    /// Writes a word.
    WriteWord {
        /// The word's place.
        at: Remote,
        /// The new word.
        word: u64,
    },
    /// Adds to a word, wrapping around. Atomic with other atomics that go through the same device.
    FetchAdd {
        /// The word's place.
        at: Remote,
        /// The number to add.
        add: u64,
    },
    /// Writes a word if it is as expected. Atomic as an addition is.
    CompareSwap {
        /// The word's place.
        at: Remote,
        /// The word that is expected.
        expect: u64,
        /// The new word.
        swap: u64,
    },
    /// Reads as many bytes as the buffer has.
    Read {
        /// The place of the first byte.
        at: Remote,
        /// The buffer.
        into: Part,
    },
    /// Writes the bytes of a buffer.
    Write {
        /// The place of the first byte.
        at: Remote,
        /// The buffer.
        from: Part,
    },
    /// Brings earlier written data to a place.
    Flush {
        /// The place of the first byte.
        at: Remote,
        /// The number of bytes.
        length: u32,
        /// The place that the bytes are brought to.
        placement: Placement,
    },
    /// Sends a message of up to 64 bytes, which arrives after the data of earlier WRITEs.
    Send {
        /// The message.
        bytes: Vec<u8>,
    },
}

/// The reason why an operation has failed. Whether it was carried out is not known then, and the
/// connection is of no use any more: a queue pair ends with the first failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Fault {
    /// The peer allows no such access there: wrong key, out of range, or a right that was not
    /// granted, or was revoked.
    #[error("the peer refuses access to this memory")]
    Refused,
    /// The operation was not tried, or given up, since the connection had ended.
    #[error("the connection had ended")]
    Flushed,
    /// The peer did not answer, however often it was asked.
    #[error("the peer does not answer")]
    Unanswered,
    /// The device says something else.
    #[error("{0}")]
    Other(&'static str),
}

/// An event of the connection.
#[derive(Debug)]
pub enum OneSidedEvent {
    /// An operation is over.
    Done {
        /// Its mark.
        ticket: Ticket,
        /// The word that was read or that there was before; for a write, the word written, and 0 for a
        /// range, a FLUSH or a message.
        result: Result<u64, Fault>,
        /// The buffer of a range.
        buffer: Option<Part>,
    },
    /// The peer has sent a message.
    Message(ReceiveBuffer),
}

/// An operation that was not posted.
#[derive(Debug, ThisError)]
pub enum Unposted {
    /// As many operations are under way as there is room for.
    #[error("too many operations are under way: post it again after a completion")]
    Full(OneSidedWork),
    /// The device refuses it: the connection has ended, or the device has failed.
    #[error("the operation cannot be posted: {0}")]
    Failed(#[source] Error),
}

/// The size of a connection.
#[derive(Clone, Copy, Debug)]
pub struct OneSidedSize {
    /// Operations under way at once.
    pub operations: u16,
    /// Messages that can come at once.
    pub messages: u16,
    /// Bytes of a message, at the most.
    pub message_bytes: usize,
}
