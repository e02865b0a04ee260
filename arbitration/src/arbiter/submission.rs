//! A command as it comes to an arbiter, and as it goes to its device.

use units::Class;

use super::grant::Grant;
use super::ids::DeviceId;
use crate::limit::Content;

/// A command as its caller submits it to the arbiter.
#[derive(Clone, Copy, Debug)]
pub struct Submission<T> {
    /// The caller's handle of the command.
    pub item: T,
    /// Whether the command changes the device.
    pub write: bool,
    /// Bytes that the command reads or changes.
    pub bytes: u32,
    /// What limits per second are charged for the command.
    pub content: Content,
    /// Operation credits that the command takes: 1 for a host's command (docs/research/sources.md, D2:
    /// credits bound what runs).
    pub operations: u32,
    /// The first block, for devices that order by LBA.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Whether the limits are charged for the command, because its host resent it after a reconnect
    /// ([`charge_resent`](crate::session::Session::charge_resent)), or sent it for the last time
    /// ([`charge_last_try`](crate::session::Session::charge_last_try)). The command is enqueued under the
    /// root session, and bypasses the limits and credits of all sessions below.
    pub past_limits: bool,
}

impl<T> Submission<T> {
    /// Makes the submission of a host's command.
    #[must_use]
    pub fn of_host(item: T, write: bool, bytes: u32) -> Self {
        Self {
            item,
            write,
            bytes,
            content: Content::Data,
            operations: 1,
            lba: 0,
            blocks: 0,
            past_limits: false,
        }
    }
}

/// A command that may go to its device now.
#[derive(Debug)]
pub struct Dispatched<T> {
    /// The caller's handle of the command.
    pub item: T,
    /// The device that the command goes to.
    pub device: DeviceId,
    /// Class of the command.
    pub class: Class,
    /// Grant that the command holds until it completes.
    pub grant: Grant,
}
