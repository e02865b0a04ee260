//! Registered memory: a region that a peer reads and writes, and this machine by copying; and
//! buffers with an owner each.

use std::sync::Arc;

use fabric::queue::Remote;

use super::receive::ReceiveMemory;
use super::region::{Region, Regions};
use crate::error::Error;
use crate::memory::{Access, Memory as _, Stable, StableMut};

/// Registered memory that is all zeroes at first. A peer may write to it at any time, as far as the
/// registration lets it: so nobody holds a reference to the bytes, and they are copied.
#[derive(Debug)]
pub struct Arena {
    memory: Arc<ReceiveMemory>,
    region: Arc<Region>,
}

impl Arena {
    /// Allocates and registers `length` bytes, rounded up to the next multiple of 64.
    ///
    /// # Errors
    /// There is no memory, or as [`Region::new`].
    pub fn new(regions: &Regions, length: usize, access: Access) -> Result<Self, Error> {
        let memory = ReceiveMemory::new(1, length).ok_or_else(Error::no_memory)?;
        let region = regions.add(memory.clone(), access)?;
        Ok(Self { memory, region })
    }

    /// Returns the place of the first byte as peers name it.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.region.remote()
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.memory.length()
    }

    /// Copies bytes to the memory, from `offset` on. Returns whether it has room for them there; else
    /// nothing is copied.
    #[must_use]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(place) = self.place(offset, bytes.len()) else { return false };
        // SAFETY: the place has room for the bytes, and nobody on this machine has a reference to
        // it: no other thread copies while this arena is borrowed for change.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }

    /// Copies bytes from the memory, from `offset` on. Returns whether the memory has as many there;
    /// else nothing is copied.
    #[must_use]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(place) = self.place(offset, into.len()) else { return false };
        // SAFETY: the place has as many bytes, and nobody on this machine writes to it while this
        // arena is borrowed.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(place, into.len()) };
        true
    }

    /// Returns the address of `length` bytes from `offset` on; `None` where they are not all inside.
    fn place(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let end = offset.checked_add(length)?;
        // SAFETY: the offset is inside the allocation, or at its end.
        (end <= self.memory.length()).then(|| unsafe { self.memory.address().add(offset) })
    }
}

/// A buffer in registered memory, which only its owner uses.
#[derive(Debug)]
pub struct Part {
    memory: Arc<ReceiveMemory>,
    index: u16,
    length: usize,
}

impl Part {
    /// Allocates and registers `count` buffers of `length` bytes each.
    ///
    /// # Errors
    /// There is no memory, or as [`Region::new`].
    pub fn several(regions: &Regions, count: u16, length: usize) -> Result<Vec<Self>, Error> {
        let memory = ReceiveMemory::new(count, length).ok_or_else(Error::no_memory)?;
        regions.add(memory.clone(), Access::LOCAL_WRITE)?;
        Ok((0..count).map(|index| Self { memory: Arc::clone(&memory), index, length }).collect())
    }
}

// SAFETY: the memory stays where it is while it is held, and each part has bytes of its own: no index
// is given twice.
unsafe impl StableMut for Part {
    fn stable_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the buffer is inside the memory, has as many bytes, and this is its only user.
        unsafe { std::slice::from_raw_parts_mut(self.memory.buffer(self.index), self.length) }
    }
}

// SAFETY: as for `StableMut`.
unsafe impl Stable for Part {
    fn stable_bytes(&self) -> &[u8] {
        // SAFETY: the buffer is inside the memory, has as many bytes, and this is its only user.
        unsafe { std::slice::from_raw_parts(self.memory.buffer(self.index), self.length) }
    }
}

impl Part {
    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.stable_bytes()
    }

    /// Returns the bytes, to write to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.stable_bytes_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_bytes_of_their_own() {
        let memory = ReceiveMemory::new(2, 100).unwrap();
        let part = |index| Part { memory: Arc::clone(&memory), index, length: 100 };
        let (mut one, mut two) = (part(0), part(1));
        one.stable_bytes_mut().fill(1);
        two.stable_bytes_mut().fill(2);
        assert_eq!(one.stable_bytes_mut(), [1; 100]);
    }
}
