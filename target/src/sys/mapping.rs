//! Anonymous memory mappings.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A private anonymous mapping. It reads as zeroes, and takes memory only where it was written.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory that lives until `drop`; the callers of the `unsafe`
// accessors vouch that no two threads use the same bytes at once.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of zeroes, without reserving swap space for them.
    ///
    /// # Errors
    /// The operating system refuses, or the length is 0.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        let size = NonZeroUsize::new(length)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a mapping of 0 bytes"))?;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no
        // memory that exists.
        let start = unsafe {
            mmap_anonymous(
                None,
                size,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )
        }?;
        Ok(Self { start: start.cast(), length })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the mapping has no bytes, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the address of byte `offset`, or of the end where the mapping is shorter.
    #[must_use]
    pub fn address(&self, offset: usize) -> *mut u8 {
        // SAFETY: `offset` is clamped to the mapping's length.
        unsafe { self.start.as_ptr().add(offset.min(self.length)) }
    }

    /// Returns the bytes `offset..offset + length`, clamped to the mapping.
    ///
    /// # Safety
    /// Nobody writes to these bytes while the slice lives.
    #[must_use]
    pub unsafe fn slice(&self, offset: usize, length: usize) -> &[u8] {
        let length = length.min(self.length.saturating_sub(offset));
        // SAFETY: inside the mapping; the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts(self.address(offset), length) }
    }

    /// Returns the bytes `offset..offset + length`, clamped to the mapping, for writing.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes while the slice lives.
    #[must_use]
    #[expect(clippy::mut_from_ref, reason = "the caller vouches for exclusive use of the bytes")]
    pub unsafe fn slice_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        let length = length.min(self.length.saturating_sub(offset));
        // SAFETY: inside the mapping; the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts_mut(self.address(offset), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `anonymous` and nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}

// SAFETY: the bytes are mapped, for reading and writing, until `drop`.
unsafe impl fabric_verbs::Memory for Mapping {
    fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn length(&self) -> usize {
        self.length
    }
}
