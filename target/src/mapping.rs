//! Anonymous memory mappings.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// A private anonymous mapping. It reads as zeroes, and takes memory only where it was written.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory that lives until `drop`; who may touch which byte when is
// the business of the `unsafe` accessors' callers.
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

    /// Says whether the mapping has no bytes, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the address of byte `offset`, which must lie inside (or at the end); else the end.
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

    /// Copies out of the mapping from `offset`; bytes of `into` beyond the end stay as they are.
    ///
    /// # Safety
    /// Nobody writes to these bytes meanwhile, and `into` is not a part of the mapping.
    pub unsafe fn read(&self, offset: usize, into: &mut [u8]) {
        let length = into.len().min(self.length.saturating_sub(offset));
        // SAFETY: source and destination are valid for `length` bytes; the caller vouches that they
        // do not overlap and that nobody writes to the source.
        unsafe { std::ptr::copy_nonoverlapping(self.address(offset), into.as_mut_ptr(), length) };
    }

    /// Copies into the mapping at `offset`; bytes beyond the end are dropped.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes meanwhile, and `from` is not a part of the mapping.
    pub unsafe fn write(&self, offset: usize, from: &[u8]) {
        let length = from.len().min(self.length.saturating_sub(offset));
        // SAFETY: as in `read`, with the caller's word for both directions.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.address(offset), length) };
    }

    /// Makes `offset..offset + length` zeroes, giving whole pages back to the system.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes meanwhile.
    pub unsafe fn zero(&self, offset: usize, length: usize) {
        const PAGE: usize = 4096;
        let end = offset.saturating_add(length).min(self.length);
        let (first, last) = (offset.next_multiple_of(PAGE), end / PAGE * PAGE);
        // SAFETY: the caller vouches for the bytes.
        unsafe {
            if first < last && self.discard(first, last - first) {
                self.fill(offset, first);
                self.fill(last, end);
            } else {
                self.fill(offset, end);
            }
        }
    }

    /// Gives whole pages back, which read as zeroes afterwards. Returns whether the system did so.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes meanwhile.
    unsafe fn discard(&self, offset: usize, length: usize) -> bool {
        let Some(start) = NonNull::new(self.address(offset).cast()) else {
            debug_assert!(false, "no mapping is at address 0");
            return false;
        };
        // SAFETY: page-aligned and inside a private anonymous mapping, whose dropped pages read
        // as zeroes again.
        unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) }.is_ok()
    }

    /// Writes zeroes to the bytes `offset..end`.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes meanwhile.
    unsafe fn fill(&self, offset: usize, end: usize) {
        let length = end.min(self.length).saturating_sub(offset);
        // SAFETY: inside the mapping; the caller vouches for the rest.
        unsafe { std::ptr::write_bytes(self.address(offset), 0, length) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `anonymous` and nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroing_touches_just_its_range() {
        let map = Mapping::anonymous(4 * 4096).unwrap();
        let mut seen = vec![0; 4 * 4096];
        // SAFETY: no other thread knows of the mapping.
        unsafe {
            map.write(0, &[7; 4 * 4096]);
            map.zero(1000, 10_000);
            map.read(0, &mut seen);
        }
        assert!(seen[..1000].iter().all(|&b| b == 7));
        assert!(seen[1000..11_000].iter().all(|&b| b == 0));
        assert!(seen[11_000..].iter().all(|&b| b == 7));
    }
}
