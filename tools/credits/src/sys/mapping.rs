//! A segment's file, mapped.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

use crate::layout::Shared;

/// A segment that other processes map as well.
#[derive(Debug)]
pub(crate) struct Mapping(NonNull<Shared>);

// SAFETY: the mapping lives until `drop`, and all of it is atomics, which threads share.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file of the size of a segment.
    ///
    /// If somebody truncates the file later, an access ends the process by a signal (SIGBUS).
    ///
    /// # Errors
    /// The operating system refuses, or the file is too short.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let length = size_of::<Shared>();
        if file.metadata()?.len() < length as u64 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
        let start = unsafe { libc::mmap(null_mut(), length, access, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?))
    }
}

impl Deref for Mapping {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        // SAFETY: the whole structure is mapped for reading and writing until `drop`, from a page on,
        // which is aligned for it. All of its fields but padding are atomics, for which any bytes are
        // valid. A store of another process is like a store of another thread.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and nothing borrows from it any more.
        let _ = unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Shared>()) };
    }
}
