//! The host's end of a queue.

use super::{Payload, Termination};
#[cfg(doc)]
use crate::nvme::Status;
use crate::nvme::{Cqe, Sqe};

/// An event that a host learns from a target.
#[derive(Debug)]
pub enum HostReceived<'a> {
    /// Commands may be submitted.
    Ready {
        /// The most bytes in one piece of data to the target (MAXH2CDATA).
        max_h2c_data: u32,
        /// Whether header digests are in use.
        header_digest: bool,
        /// Whether data digests are in use.
        data_digest: bool,
    },
    /// A piece of the data that a command reads.
    ReadData {
        /// The command.
        cid: u16,
        /// Offset of `bytes` within the command's data.
        offset: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The data digest of a piece was wrong: the data of this command must not be trusted. The
    /// command's [`Self::Response`] follows and does not say success.
    DigestError {
        /// The command.
        cid: u16,
    },
    /// The command is complete and its identifier free.
    Response {
        /// The command.
        cid: u16,
        /// The completion; made up where another message stood for it. A success whose data had a
        /// wrong digest is turned into [`Status::TRANSIENT_TRANSPORT_ERROR`].
        cqe: Cqe,
        /// Number of bytes that were read.
        received: u32,
    },
    /// The target ends the connection. Later input is ignored.
    Terminated(Termination),
}

/// The reason why a command was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Commands may be submitted between [`HostReceived::Ready`] and the end of the connection.
    #[error("the connection is not initialized, or has ended")]
    NotReady,
    /// The command identifier belongs to a command that is not complete.
    #[error("command identifier {0} is in use: wait for its response or take another")]
    CidInUse(u16),
    /// The command's data does not fit the memory that commands of this queue move theirs from.
    #[error("the data does not fit the part of the memory that the command has")]
    NoMemory,
}

/// The host's end of a queue.
pub trait HostTransport {
    /// The buffer type of data that a command writes.
    type Payload: Payload;
    /// A piece of what arrives, as [`super::Inbox::Chunk`].
    type Chunk<'a>;
    /// A violation of the protocol by a target.
    type Violation: core::error::Error + Send + Sync + 'static;

    /// Sets how much data a write may have, in bytes, to travel in its capsule: (IOCCSZ - 4) * 16
    /// on an I/O queue. Without this call the limit is the admin queue's, which is right for
    /// Connect.
    fn set_in_capsule_data(&mut self, bytes: u32);

    /// Queues a command under the identifier in `sqe`, which also indexes a table: keep the
    /// identifier small. The data descriptor and PSDT are filled in here: `data` goes in the
    /// capsule if it fits, else when the target fetches it; `read_length` is the number of bytes
    /// that the command reads.
    ///
    /// # Errors
    /// The connection is not ready, or the identifier is in use; nothing is queued.
    fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Self::Payload>,
        read_length: u32,
    ) -> Result<(), SubmitError>;

    /// Consumes the units of the next event from `input`. Returns `None` when all of `input` was
    /// used up.
    ///
    /// # Errors
    /// The target broke the protocol, and was notified if the protocol has a way: send the queued
    /// output, then close. Input is ignored from then on.
    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Self::Violation>;

    /// Returns the number of commands that are not complete.
    fn in_flight(&self) -> usize;
}
