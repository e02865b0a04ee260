//! Memory that peers read and write without asking.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::device::Domain;
use super::receive::ReceiveMemory;
use super::region::Region;
use crate::error::Error;
use crate::memory::{Access, Memory};

/// Memory of 64-bit words, all zeroes at first, of which peers reach parts, each by a [`Region`] with
/// rights of its own. A peer may write at any time, so nobody on this machine holds a reference to the
/// bytes: words are loaded and stored, each as a whole.
///
/// A device need not order its atomics with the processor's. So what peers change by atomics is changed
/// by this machine through the device too, by a connection to itself.
#[derive(Clone, Debug)]
pub struct SharedMemory(Arc<ReceiveMemory>);

impl SharedMemory {
    /// Allocates `length` bytes, rounded up to the next multiple of 64.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(length: usize) -> Result<Self, Error> {
        Ok(Self(ReceiveMemory::new(1, length).ok_or_else(Error::no_memory)?))
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length()
    }

    /// Registers a part of the memory for peers on queue pairs of a domain, until the region is dropped.
    ///
    /// # Errors
    /// As [`Region::part`].
    pub fn share(
        &self,
        domain: &Domain,
        part: Range<usize>,
        access: Access,
    ) -> Result<Region, Error> {
        Region::part(domain, self.0.clone(), part, access)
    }

    /// Loads the word at an offset in bytes; `None` where there is none, or the offset is no multiple
    /// of 8.
    #[must_use]
    pub fn load(&self, offset: usize) -> Option<u64> {
        self.word(offset).map(|word| word.load(Ordering::Acquire))
    }

    /// Stores a word at an offset in bytes. Returns false where there is none, or the offset is no
    /// multiple of 8.
    pub fn store(&self, offset: usize, value: u64) -> bool {
        self.word(offset).inspect(|word| word.store(value, Ordering::Release)).is_some()
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let end = offset.checked_add(size_of::<u64>())?;
        if !offset.is_multiple_of(size_of::<u64>()) || end > self.0.length() {
            return None;
        }
        // SAFETY: the offset is inside the allocation.
        let word = unsafe { self.0.address().add(offset) };
        // SAFETY: the word is inside the allocation, which lives as long as the answer, and aligned. On
        // this machine it is only used as an atomic.
        Some(unsafe { AtomicU64::from_ptr(word.cast()) })
    }
}

// SAFETY: the memory is mapped until the last clone is dropped, and is only used as atomics on this machine.
unsafe impl Memory for SharedMemory {
    fn address(&self) -> *mut u8 {
        self.0.address()
    }

    fn length(&self) -> usize {
        self.0.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_accesses_stay_within_memory() {
        let memory = SharedMemory::new(100).unwrap();
        assert_eq!(memory.length(), 128);
        assert!(memory.store(8, 7) && memory.store(120, u64::MAX));
        assert_eq!([0, 8, 120].map(|at| memory.load(at)), [Some(0), Some(7), Some(u64::MAX)]);
        for at in [4, 121, 128, usize::MAX, usize::MAX - 7] {
            assert_eq!(memory.load(at), None, "{at}");
            assert!(!memory.store(at, 1), "{at}");
        }
        assert_eq!(memory.clone().load(8), Some(7), "a clone is the same memory");
    }
}
