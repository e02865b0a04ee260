//! The errors with which devices answer commands. A backend notes them, and the keeper logs them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::nvm::IoCommand;
use fabric::nvme::Status;
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A command that a device answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The operation of the command.
    pub operation: Operation,
    /// The first logical block of the part that failed; `None` for a Flush.
    pub lba: Option<u64>,
    /// The device's answer.
    pub answer: Answer,
}

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read, and reads that a backend does for other commands.
    Read,
    /// Write.
    Write,
    /// Compare.
    Compare,
    /// Verify.
    Verify,
    /// Flush.
    Flush,
    /// Write Zeroes.
    WriteZeroes,
    /// Dataset Management.
    Deallocate,
}

/// The answer of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The operating system's error.
    Errno(i32),
    /// An NVMe status of the device itself.
    Status(Status),
    /// No answer: the file ends before the block.
    EndOfFile,
}

impl DeviceError {
    /// Notes an error of a command, at `lba` of its range.
    #[must_use]
    pub fn new(command: &IoCommand, lba: u64, answer: Answer) -> Self {
        let operation = match command {
            IoCommand::Read { .. } => Operation::Read,
            IoCommand::Write { .. } => Operation::Write,
            IoCommand::Compare { .. } => Operation::Compare,
            IoCommand::Verify { .. } => Operation::Verify,
            IoCommand::Flush => Operation::Flush,
            IoCommand::WriteZeroes { .. } => Operation::WriteZeroes,
            IoCommand::DatasetManagement { .. } | IoCommand::Deallocate { .. } => {
                Operation::Deallocate
            }
        };
        let lba = (operation != Operation::Flush).then_some(lba);
        Self { operation, lba, answer }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.answer {
            Answer::Errno(errno) => write!(f, "{:?} ({errno})", Errno::from_raw(errno))?,
            Answer::Status(status) => write!(f, "{status}")?,
            Answer::EndOfFile => f.write_str("end of the file")?,
        }
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Compare => "compare",
            Operation::Verify => "verify",
            Operation::Flush => "flush",
            Operation::WriteZeroes => "write zeroes",
            Operation::Deallocate => "deallocate",
        };
        write!(f, " on {operation}")?;
        if let Some(lba) = self.lba { write!(f, " at LBA {lba}") } else { Ok(()) }
    }
}

/// Returns whether a status is about the path to the device (status code type 3): the kernel returns it for
/// commands to a controller that is not live, and an array for commands on an inaccessible path.
#[must_use]
pub(super) fn concerns_path(status: Status) -> bool {
    status.bits() >> 8 & 0x7 == 3
}

/// Returns whether the device, and not the host's command, is the reason for a status: internal errors, capacity,
/// media and data integrity (except a Compare that found a difference), and the vendor's own statuses.
#[must_use]
pub(super) fn blames_device(status: Status) -> bool {
    let of = |other: Status| status.bits() & 0x7ff == other.bits() & 0x7ff;
    match status.bits() >> 8 & 0x7 {
        0 => [
            Status::DATA_TRANSFER_ERROR,
            Status::INTERNAL_ERROR,
            Status::CAPACITY_EXCEEDED,
            Status::NAMESPACE_NOT_READY,
        ]
        .into_iter()
        .any(of),
        2 => !of(Status::COMPARE_FAILURE) && !of(Status::DEALLOCATED_OR_UNWRITTEN),
        7 => true,
        _ => false,
    }
}

/// A wake-up of the keeper, the thread that opens namespaces' devices. Any number of errors wakes
/// the keeper once, until the keeper clears the wake-up.
#[derive(Debug)]
pub struct WakeUp {
    pending: AtomicBool,
    event: EventFd,
}

impl WakeUp {
    /// Makes a wake-up that is not pending.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> std::io::Result<Arc<Self>> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Self { pending: AtomicBool::new(false), event }))
    }

    /// Wakes the keeper, if no wake-up is pending.
    pub fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            // The counter cannot be full.
            let _ = self.event.write(1);
        }
    }

    /// Clears the wake-up: the next error wakes the keeper again.
    pub fn clear(&self) {
        let _ = self.event.read();
        self.pending.store(false, Ordering::Release);
    }

    /// Returns the descriptor that is readable while a wake-up is pending.
    #[must_use]
    pub fn descriptor(&self) -> &EventFd {
        &self.event
    }
}

#[cfg(test)]
mod tests {
    use fabric::nvm::LbaRange;

    use super::*;

    #[test]
    fn an_error_is_told_with_its_name_number_and_place() {
        let range = LbaRange { lba: 4711, blocks: 8 };
        let read = IoCommand::Read { range, fua: false };
        let media = Answer::Status(Status::UNRECOVERED_READ_ERROR);
        for (command, answer, words) in [
            (&read, Answer::Errno(libc::EIO), "EIO (5) on read at LBA 4713"),
            (&IoCommand::Flush, Answer::Errno(libc::ENOSPC), "ENOSPC (28) on flush"),
            (&read, Answer::EndOfFile, "end of the file on read at LBA 4713"),
            (&read, media, "unrecovered read error (SCT 2h, SC 81h) on read at LBA 4713"),
        ] {
            assert_eq!(DeviceError::new(command, 4713, answer).to_string(), words);
        }
    }

    #[test]
    fn what_the_host_did_wrong_is_no_error_of_the_device() {
        for (status, blames, concerns) in [
            (Status::UNRECOVERED_READ_ERROR, true, false),
            (Status::WRITE_FAULT, true, false),
            (Status::INTERNAL_ERROR, true, false),
            (Status::LBA_OUT_OF_RANGE, false, false),
            (Status::COMPARE_FAILURE, false, false),
            (Status::INVALID_FIELD, false, false),
            (Status::INVALID_OPCODE, false, false),
            (Status::ABORT_REQUESTED, false, false),
            (Status::HOST_PATHING_ERROR, false, true),
        ] {
            let status = status.dnr();
            let judged = (blames_device(status), concerns_path(status));
            assert_eq!(judged, (blames, concerns), "{status}");
        }
    }

    #[test]
    fn a_wake_up_is_signalled_once_until_it_is_cleared() {
        let wake_up = WakeUp::new().unwrap();
        wake_up.wake();
        wake_up.wake();
        assert_eq!(wake_up.descriptor().read().unwrap(), 1, "one system call for two errors");
        wake_up.clear();
        wake_up.wake();
        assert_eq!(wake_up.descriptor().read().unwrap(), 1);
    }
}
