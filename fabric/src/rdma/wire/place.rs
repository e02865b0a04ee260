//! The place of a command's data: in the host's memory by a keyed descriptor, or in the capsule.

use crate::nvm::Transfer;
use crate::nvme::{SglKind, Sqe, Status};
use crate::queue::{self, CapsuleData, Remote};

/// The keyed descriptor of a command, if its data is where one says.
pub(super) struct Keyed {
    /// Place of the data in the host's memory.
    pub(super) remote: Remote,
    /// Whether the response invalidates the key.
    pub(super) invalidate: bool,
}

impl Keyed {
    /// Returns the keyed descriptor of a command.
    pub(super) fn from_command(sqe: &Sqe) -> Option<Self> {
        match sqe.sgl.decode() {
            SglKind::Keyed { address, key, invalidate, .. } if sqe.psdt() == Sqe::SGL => {
                Some(Self { remote: Remote { address, key }, invalidate })
            }
            _ => None,
        }
    }
}

/// Checks a command's descriptor: a keyed one (40h, or 4Fh with invalidation) whose memory has room
/// for all of the data, or one of in-capsule data.
///
/// # Errors
/// The status to complete the command with, with Do Not Retry.
pub(super) fn check(sqe: &Sqe, transfer: &Transfer, data: &CapsuleData<'_>) -> Result<(), Status> {
    let wanted = match transfer {
        Transfer::ToController(bytes) | Transfer::ToHost(bytes) => *bytes,
        Transfer::None => 0,
    };
    if wanted > 0 && sqe.psdt() != Sqe::SGL {
        return Err(Status::INVALID_FIELD.dnr());
    }
    match sqe.sgl.decode() {
        SglKind::Keyed { length, .. } if length >= wanted && matches!(data, CapsuleData::None) => {
            Ok(())
        }
        SglKind::Keyed { .. } => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
        SglKind::Transport => Err(Status::SGL_TYPE_INVALID.dnr()),
        SglKind::InCapsule { .. } | SglKind::Other(_) => queue::check_place(sqe, transfer, data),
    }
}
