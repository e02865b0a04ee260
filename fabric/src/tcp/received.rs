//! What a target learns from a host.

use super::SlotId;
use crate::nvme::Sqe;
#[cfg(doc)]
use crate::nvme::Status;

/// What a chunk of the stream meant.
#[derive(Debug)]
pub enum Received<'a> {
    /// ICReq was accepted and ICResp is queued.
    Initialized,
    /// A command. Its slot is taken until it is completed.
    Command {
        /// The command's slot.
        slot: SlotId,
        /// The submission queue entry.
        sqe: Sqe,
        /// The in-capsule data.
        data: CapsuleData<'a>,
    },
    /// A piece of a command's data: in-capsule data that did not fit the chunk, or H2CData.
    Data {
        /// The command's slot.
        slot: SlotId,
        /// Offset of `bytes` within the command's data. The pieces of one PDU are contiguous;
        /// several R2T PDUs may be answered in any order.
        offset: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// All of a command's data has arrived: what the capsule held, or what
    /// [`super::TargetConnection::request_data`] asked for.
    DataEnd {
        /// The command's slot.
        slot: SlotId,
        /// False if the data digest of any PDU was wrong. The command is then to be completed
        /// with [`Status::TRANSIENT_TRANSPORT_ERROR`]; the connection goes on.
        digest_ok: bool,
    },
    /// All that [`super::TargetConnection::grant_data`] asked for has come, and not yet all of the
    /// command's data: the next grant is due.
    GrantEnd {
        /// The command's slot.
        slot: SlotId,
    },
    /// H2CTermReq: the host ends the connection. Whatever follows is ignored.
    Terminated {
        /// Fatal Error Status, see [`super::Fes`].
        fes: u16,
        /// Fatal Error Information.
        fei: u32,
    },
}

/// The in-capsule data of a command.
#[derive(Debug)]
pub enum CapsuleData<'a> {
    /// There is none.
    None,
    /// All of it, its digest checked.
    Whole(&'a [u8]),
    /// [`Received::Data`] follows, then [`Received::DataEnd`].
    Partial {
        /// How much data follows, bytes.
        length: u32,
    },
}
