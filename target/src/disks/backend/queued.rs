//! Backends whose commands go through the reactor's ring, in units.

use std::fmt;
use std::sync::atomic::AtomicBool;

use arbitration::session::HostId;
use fabric::nvm::IoCommand;
use fabric::nvme::{Sqe, Status};
use io_uring::squeue;
use sluice_core::device::Data;

use super::Answer;

/// Returns whether a command ends with its data on the medium: with an `fdatasync` if writes are cached.
pub(super) fn synchronizes(command: &IoCommand) -> bool {
    matches!(
        command,
        IoCommand::Flush
            | IoCommand::Write { fua: true, .. }
            | IoCommand::WriteZeroes { fua: true, .. }
    )
}

/// Returns whether a command changes the content of blocks.
pub(super) fn modifies(command: &IoCommand) -> bool {
    matches!(
        command,
        IoCommand::Write { .. }
            | IoCommand::WriteZeroes { .. }
            | IoCommand::DatasetManagement { deallocate: true, .. }
            | IoCommand::Deallocate { .. }
    )
}

/// Returns whether an error of the kernel means that it lacked resources for a moment (ENOMEM among others), and
/// not that the device failed: the same command may succeed a little later.
pub(super) fn is_transient(errno: i32) -> bool {
    matches!(errno, libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ENOMEM)
}

/// The largest scratch buffer of a command without data (Verify), in bytes.
pub const SCRATCH_MAX: usize = 256 << 10;

/// A command on its way through a [`Queued`] backend.
#[derive(Debug)]
pub struct Job<'a> {
    /// The command.
    pub command: &'a IoCommand,
    /// The command as it came from the host.
    pub sqe: &'a Sqe,
    /// The host.
    pub host: HostId,
    /// The host's data (Write, Compare, Dataset Management), else empty.
    pub data: &'a [u8],
}

/// A part of a command: one entry in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// First byte on the device.
    pub offset: u64,
    /// Bytes on the device.
    pub length: u64,
    /// First byte in the command's memory.
    pub at: u32,
}

/// The memory that a command's units move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// None.
    None,
    /// The command's data buffer.
    Data,
    /// A scratch buffer of this many bytes, which the reactor provides (Compare, Verify, a part of
    /// Dataset Management).
    Scratch(u32),
    /// [`zeroes`](sluice_core::zeroes).
    Zeroes,
}

/// The meaning of a unit's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The unit has ended, with the result and status for the host.
    Done(u64, Status),
    /// The first bytes are done; the rest must be submitted.
    Partial(u32),
    /// The device is busy: submit the unit again, a little later.
    Busy,
    /// No path leads to the device at present (its controller is reset, or it is being removed): submit the unit
    /// again, a little later; a device that stays so is gone.
    NoPath,
    /// The error may be an effect of the device's removal: classify the same completion once more, a little later. If
    /// the error is still [`Self::Doubtful`] then, it is final. Has the device's answer, for its
    /// [errors](super::Health), and the status for the host.
    Doubtful(Answer, Status),
    /// The backend has learned that this kind of command needs another way: plan the command again.
    Replan,
}

/// The memory of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The address of its first byte; null where the unit moves no memory.
    pub address: *mut u8,
    /// The number of the ring's registered buffer in which it lies; `None`: in no such buffer.
    pub registered: Option<u16>,
}

/// A backend whose commands go through the ring.
pub trait Queued: fmt::Debug {
    /// Carries out what of a command needs no ring; `data` has the command's length. `None`: the
    /// command is planned, and the rest of it, or all, goes through the ring.
    fn at_once(&self, _command: &IoCommand, _data: Data<'_>) -> Option<Status> {
        None
    }

    /// Splits a command into units, and says which memory the units move. A command without units
    /// is complete.
    ///
    /// # Errors
    /// The status to complete the command with.
    fn plan(&self, job: &Job<'_>, units: &mut Vec<Unit>) -> Result<Memory, Status>;

    /// Fills the scratch buffer, as long as [`Memory::Scratch`] said, before the first unit goes
    /// to the ring. Most commands read into it.
    fn fill(&self, _job: &Job<'_>, _scratch: &mut [u8]) {}

    /// Returns whether units may have memory in the ring's registered buffers, which is cleared when the
    /// kernel has refused one. There is nothing in it for a backend whose units copy data: only where a
    /// device moves it, pages need not be pinned for each.
    fn registered(&self) -> Option<&AtomicBool> {
        None
    }

    /// Returns the ring entry of a unit with its memory.
    fn entry(&self, job: &Job<'_>, unit: &Unit, memory: Place) -> squeue::Entry128;

    /// Returns whether EINVAL may mean that the command was malformed. If not, the device had no path.
    fn may_refuse(&self) -> bool {
        true
    }

    /// Returns the outcome of a completion: `result` as in the ring's completion, `extra` its first extra quadword.
    fn finish(&self, job: &Job<'_>, unit: &Unit, result: i32, extra: u64) -> Outcome;
}

/// Splits bytes `offset..offset + length` into units of at most `largest` bytes whose memory is
/// contiguous.
pub(super) fn split(units: &mut Vec<Unit>, offset: u64, length: u64, largest: u64) {
    let mut done = 0;
    while done < length {
        let bytes = largest.min(length - done);
        let at = u32::try_from(done).unwrap_or(u32::MAX);
        units.push(Unit { offset: offset + done, length: bytes, at });
        done += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_their_range_once() {
        for (length, largest) in [(0u64, 8u64), (1, 8), (8, 8), (9, 8), (1 << 20, 128 << 10)] {
            let mut units = Vec::new();
            split(&mut units, 4096, length, largest);
            let mut next = 4096;
            for unit in &units {
                assert_eq!((unit.offset, u64::from(unit.at)), (next, next - 4096));
                assert!(unit.length > 0 && unit.length <= largest);
                next += unit.length;
            }
            assert_eq!(next, 4096 + length);
        }
    }
}
