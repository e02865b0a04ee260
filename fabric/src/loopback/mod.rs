//! An in-process transport: messages in place of bytes, for simulations and tests.
//!
//! [`LoopbackHost`] and [`LoopbackTarget`] put their output into an outbox. The caller that joins
//! them takes messages from there and hands them over, at once or later, some or all, or never. The
//! order of messages has to stay. Payload is moved, not copied. Command data that does not fit the
//! capsule is fetched like on other transports: the target grants, the host sends.

mod host;
mod target;

pub use host::LoopbackHost;
pub use target::{LoopbackParams, LoopbackTarget};

use crate::nvme::{Cqe, Sqe};
use crate::queue::SlotId;

/// A message of a host; `H` is the payload of its writes.
#[derive(Clone, Debug)]
pub enum ToTarget<H> {
    /// A command with its in-capsule data.
    Command {
        /// The submission queue entry.
        sqe: Sqe,
        /// In-capsule data.
        data: Option<H>,
    },
    /// The data that a [`ToHost::Grant`] asked for.
    Data(DataMessage<H>),
    /// The host ends the connection, for the reason given.
    Terminated(Violation),
}

/// A message of a target; `P` is the payload of what it returns.
#[derive(Clone, Debug)]
pub enum ToHost<P> {
    /// The connection is set up.
    Accepted {
        /// The most bytes in one [`ToTarget::Data`].
        max_data: u32,
    },
    /// The host may send a part of a command's data.
    Grant(GrantMessage),
    /// A part of the data that a command reads.
    Data {
        /// The command.
        cid: u16,
        /// Offset of the payload within the command's data.
        offset: u32,
        /// The payload.
        data: P,
    },
    /// The command is complete.
    Response(Cqe),
    /// The target ends the connection, for the reason given.
    Terminated(Violation),
}

/// Command data that the host may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantMessage {
    /// The command's identifier.
    pub cid: u16,
    /// The command's slot, which the data has to name.
    pub slot: SlotId,
    /// Number of the grant, which the data has to name.
    pub tag: u16,
    /// Offset of the first byte within the command's data.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
}

/// Command data that was granted: bytes `offset..offset + length` of `data`, which is all of the
/// command's data.
#[derive(Clone, Debug)]
pub struct DataMessage<H> {
    /// The slot that the grant named.
    pub slot: SlotId,
    /// The number that the grant had.
    pub tag: u16,
    /// Offset of the first byte, within the command's data and within `data`.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
    /// The command's data.
    pub data: H,
}

/// The peer broke the protocol: the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Violation {
    /// Number of the reason, which [`crate::queue::Termination::code`] has at the peer.
    pub code: u16,
    /// Description of the fault.
    pub what: &'static str,
}

impl Violation {
    pub(crate) const SEQUENCE: Self =
        Self { code: 1, what: "more commands outstanding than queue entries" };
    pub(crate) const CAPSULE: Self =
        Self { code: 2, what: "more in-capsule data than the queue takes" };
    pub(crate) const NOT_GRANTED: Self = Self { code: 3, what: "data that was not granted" };
    pub(crate) const OUT_OF_RANGE: Self =
        Self { code: 4, what: "data that is not the next of its grant, or too much of it" };
    pub(crate) const UNKNOWN_COMMAND: Self =
        Self { code: 5, what: "a message for a command that is not outstanding" };
    pub(crate) const NOT_NEXT: Self =
        Self { code: 6, what: "data, or a grant, that is not the next of its command" };
    pub(crate) const TWICE_ACCEPTED: Self =
        Self { code: 7, what: "the connection was set up before" };
}
