//! Mappings of files, devices and anonymous memory, as words that threads share.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::medium::WORD;

/// The way in which memory is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) enum How<'a> {
    /// Stores go to the file.
    Shared(&'a File),
    /// As `Shared`, if the file system has DAX and makes its own data about the file durable before
    /// stores (`MAP_SYNC`).
    Synchronous(&'a File),
    /// Stores are visible to this mapping alone. The file is open for reading at least.
    Private(&'a File),
    /// Memory of zeroes.
    Anonymous,
}

#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<AtomicU64>,
    /// Length in words.
    words: usize,
}

// SAFETY: the mapping lives until `drop`, and all accesses are through `&[AtomicU64]`, which threads
// share.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes, rounded down to whole words, from the start of a file, or of zeroes.
    ///
    /// If a file becomes shorter than its mapping, or its medium cannot be read, an access ends the
    /// process by a signal (SIGBUS).
    ///
    /// # Errors
    /// The operating system refuses, or there is no whole word to map.
    pub(super) fn new(how: How<'_>, bytes: u64) -> io::Result<Self> {
        let words = usize::try_from(bytes / WORD).map_err(|_| ErrorKind::OutOfMemory)?;
        if words == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a mapping of 0 bytes"));
        }
        let (flags, file) = match how {
            How::Shared(file) => (libc::MAP_SHARED, Some(file)),
            How::Synchronous(file) => (libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC, Some(file)),
            How::Private(file) => (libc::MAP_PRIVATE | libc::MAP_NORESERVE, Some(file)),
            How::Anonymous => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, None),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let descriptor = file.map_or(-1, AsRawFd::as_raw_fd);
        let length = words * size_of::<AtomicU64>();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }

    /// Returns the words of the mapping. They begin at a page.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped at `start`, for reading and writing, until `drop`; a
        // page is aligned for them; any bytes are a valid word; and no other reference of another
        // type exists. Stores of other processes in a shared mapping behave like another thread's
        // stores.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and nothing borrows from it any more.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// Allocates file system space for the first `bytes` bytes of a file, without changing their content, so that no store
/// to a mapping finds the file system full.
///
/// # Errors
/// There is not enough space, or the file system cannot do this.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off64_t::try_from(bytes).map_err(|_| ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: the call changes the file's extents, and no memory.
        if unsafe { libc::fallocate64(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns whether a file is of a file system that is itself in memory.
///
/// # Errors
/// The operating system refuses.
pub(super) fn is_in_memory(file: &File) -> io::Result<bool> {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the call fills the structure or fails.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded and filled it.
    let found = unsafe { found.assume_init() };
    // TMPFS_MAGIC and RAMFS_MAGIC: numbers of 32 bits, in a field of any width.
    Ok(matches!(found.f_type & 0xffff_ffff, 0x0102_1994 | 0x8584_58f6))
}
