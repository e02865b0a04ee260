//! Events that a target receives from a host.

use super::SlotId;
#[cfg(doc)]
use crate::nvme::Status;

/// An event that a target receives from a host.
#[derive(Debug)]
pub enum Received<'a> {
    /// The connection is set up (TCP: ICReq was accepted and ICResp is queued).
    Initialized,
    /// A command. Its slot is taken until it is completed, and [`super::Transport::sqe_of`] has its
    /// submission queue entry.
    Command {
        /// The command's slot.
        slot: SlotId,
        /// The in-capsule data.
        data: CapsuleData<'a>,
    },
    /// A piece of a command's data: in-capsule data that did not come in one, or fetched data.
    Data {
        /// The command's slot.
        slot: SlotId,
        /// Offset of `bytes` within the command's data. Pieces need not come in order.
        offset: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// All of a command's data has arrived, in the capsule or fetched.
    DataEnd {
        /// The command's slot.
        slot: SlotId,
        /// False if a data digest was wrong. The shell must then complete the command with
        /// [`Status::TRANSIENT_TRANSPORT_ERROR`]; the connection goes on.
        digest_ok: bool,
    },
    /// All data granted by [`super::Transport::grant`] has arrived, but not yet all of the
    /// command's data: the next grant is due.
    GrantEnd {
        /// The command's slot.
        slot: SlotId,
    },
    /// The host ends the connection. Later input is ignored.
    Terminated(Termination),
}

/// The peer's reason for ending the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    /// Code of the reason; on TCP the Fatal Error Status, see [`crate::tcp::Fes`].
    pub code: u16,
    /// Details of the reason; on TCP the Fatal Error Information.
    pub information: u32,
}

/// The in-capsule data of a command.
#[derive(Debug)]
pub enum CapsuleData<'a> {
    /// The command has no in-capsule data.
    None,
    /// All of the data, its digest checked.
    Whole(&'a [u8]),
    /// [`Received::Data`] follows, then [`Received::DataEnd`].
    Partial {
        /// Amount of data that follows, in bytes.
        length: u32,
    },
}
