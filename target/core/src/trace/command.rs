//! A command with the parts of its time.

use std::sync::Arc;

use arbitration::Class;
use arbitration::session::Session;
use fabric::Nanos;
use fabric::controller::{ConnectionId, ControllerShared};
use fabric::nvme::Status;

use super::part::Times;

/// A command whose answer was sent, with the parts of its time.
#[derive(Clone, Debug)]
pub struct TracedCommand {
    /// The connection that the command came over.
    pub connection: ConnectionId,
    /// The controller, with the names of the host and the subsystem.
    pub controller: Arc<ControllerShared>,
    /// The number of the I/O queue.
    pub qid: u16,
    /// Identifier of the command on its queue.
    pub cid: u16,
    /// Opcode of the command.
    pub opcode: u8,
    /// Namespace of the command.
    pub nsid: u32,
    /// The first block of the command.
    pub lba: u64,
    /// Bytes that the command moved between host and target.
    pub bytes: u32,
    /// Class of the command.
    pub class: Class,
    /// Status of the answer.
    pub status: Status,
    /// The time at which the target received the command.
    pub received: Nanos,
    /// The parts of the time since then.
    pub times: Times,
    /// The session whose limits or credits delayed the command most; `None`: none did.
    pub session: Option<Arc<Session>>,
    /// The number of selected commands since the last traced command that exceeded the rate of traces.
    pub skipped: u32,
}
