//! Locks of single bytes of a segment's file, which show that their owners live.
//!
//! The kernel ties such a lock to the opening of the file, and releases it when the last thread of the
//! process has ended, also by SIGKILL. At that moment no instruction of the process can store to the
//! segment any more. A process ID shows less: it is used again, is another one in each namespace, and
//! may not be readable.

use std::fs::File;
use std::io;

use libc::{F_UNLCK, F_WRLCK, SEEK_SET, c_int, c_short, flock};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use crate::layout::Seat;

/// A byte that is locked. It need not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Byte {
    /// Byte 0, in every version of the layout.
    Agent,
    /// The byte of a process: its slot's index + 1.
    Process(Seat),
}

fn set(file: &File, byte: Byte, kind: c_int) -> Result<c_int, Errno> {
    let offset = match byte {
        Byte::Agent => 0,
        Byte::Process(seat) => seat.index() + 1,
    };
    let small = |number: c_int| c_short::try_from(number).map_err(|_| Errno::EINVAL);
    let lock = flock {
        l_type: small(kind)?,
        l_whence: small(SEEK_SET)?,
        l_start: offset.try_into().map_err(|_| Errno::EINVAL)?,
        l_len: 1,
        // As the kernel requires for locks of this kind.
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock))
}

/// Locks a byte. Returns false if another opening of the file has locked it.
///
/// # Errors
/// The kernel has no room for locks, or the file is not open for writing.
pub(crate) fn try_lock(file: &File, byte: Byte) -> io::Result<bool> {
    match set(file, byte, F_WRLCK) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Unlocks a byte.
///
/// # Errors
/// The kernel has no room for the locks on both sides of the byte.
pub(crate) fn unlock(file: &File, byte: Byte) -> io::Result<()> {
    set(file, byte, F_UNLCK)?;
    Ok(())
}
