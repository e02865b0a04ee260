//! I/O buffers: one arena for each reactor, handed out in powers of two (a buddy allocator).
//!
//! The arena is mapped at the start and never grows, so that what hosts do cannot make the target
//! take more memory. Buffers are page-aligned, as O_DIRECT and passthrough want them. A buffer
//! gives itself back when it is dropped; nothing here is shared between threads.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

use sluice_core::buddies::{Block, Buddies, arena_bytes};
use sluice_core::{Memory, Use};

use super::registered::Parts;
use super::ring::Ring;
use crate::sys::mapping::Mapping;

/// A reactor's I/O buffers.
#[derive(Clone)]
pub struct Pool(Rc<Arena>);

struct Arena {
    memory: Arc<Mapping>,
    free: RefCell<Buddies>,
    parts: Parts,
}

impl Pool {
    /// Maps `bytes` (rounded down to a multiple of `largest`) for buffers of up to `largest`
    /// bytes, a power of two of at least 4 KiB.
    ///
    /// # Errors
    /// The operating system has no memory for the arena, or it is smaller than one buffer.
    pub fn new(bytes: usize, largest: usize) -> io::Result<Self> {
        let all = arena_bytes(bytes, largest);
        if all == 0 {
            return Err(io::Error::other("io_memory is smaller than max_transfer"));
        }
        let memory = Arc::new(Mapping::anonymous(all)?);
        let free = RefCell::new(Buddies::new(bytes, largest));
        let parts = Parts::new(all, largest);
        Ok(Self(Rc::new(Arena { memory, free, parts })))
    }

    /// Lets buffers be registered with a ring, at places of its table from `first` on. Returns how many
    /// places there are.
    #[must_use]
    pub fn allow_registration(&self, first: u16) -> u16 {
        self.0.parts.allow(first, self.0.memory.len())
    }

    /// Returns the memory of all buffers, for devices that are to reach it.
    #[must_use]
    pub fn memory(&self) -> Arc<Mapping> {
        Arc::clone(&self.0.memory)
    }
}

impl Memory for Pool {
    type Buffer = Buffer;

    #[inline]
    fn take(&self, length: usize, what: Use) -> Option<Buffer> {
        let block = self.0.free.borrow_mut().take(length, what)?;
        Some(Buffer { pool: self.clone(), block, length })
    }

    #[inline]
    fn has(&self, length: usize) -> bool {
        self.0.free.borrow_mut().has(length)
    }

    fn usage(&self) -> (usize, usize) {
        (self.0.free.borrow().used(), self.0.memory.len())
    }

    fn data_used(&self) -> usize {
        self.0.free.borrow().data_used()
    }

    fn reserve_used(&self) -> usize {
        self.0.free.borrow().reserve_used()
    }

    fn data_freed(&self) -> u64 {
        self.0.free.borrow().data_freed()
    }
}

/// A buffer from a [`Pool`]; dropping it gives it back.
pub struct Buffer {
    pool: Pool,
    block: Block,
    length: usize,
}

impl Buffer {
    fn offset(&self) -> usize {
        self.block.offset()
    }

    /// Returns the address of byte `at` (at most the length), for the kernel.
    #[must_use]
    pub fn address(&self, at: usize) -> *mut u8 {
        self.pool.0.memory.address(self.offset() + at.min(self.length))
    }

    /// Returns the place of the ring's registered buffer in which this one lies; `None` where there is
    /// none.
    #[inline]
    pub(super) fn registered(&self, ring: &mut Ring) -> Option<u16> {
        self.pool.0.parts.place(self.offset(), &self.pool.0.memory, ring)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocator hands each block to one buffer at a time, `self.length` is no
        // more than the block, and the kernel writes to it only while an operation owns it.
        unsafe { self.pool.0.memory.slice(self.offset(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` is the only handle to the block.
        unsafe { self.pool.0.memory.slice_mut(self.offset(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.0.free.borrow_mut().give_back(&self.block);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {:#x})", self.length, self.offset())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, total) = self.usage();
        write!(f, "Pool({used} of {total} bytes used)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn buffers_never_overlap_and_all_memory_comes_back(
            steps in proptest::collection::vec((any::<bool>(), 1usize..=1 << 18, any::<usize>()), 1..300),
        ) {
            let pool = Pool::new(1 << 20, 1 << 18).unwrap();
            let mut held: Vec<Buffer> = Vec::new();
            for (mark, (take, length, pick)) in steps.into_iter().enumerate() {
                if take {
                    let could = pool.has(length);
                    let got = pool.take(length, Use::Any);
                    prop_assert_eq!(got.is_some(), could);
                    if let Some(mut buffer) = got {
                        buffer.fill(u8::try_from(mark % 251).unwrap());
                        held.push(buffer);
                    }
                } else if !held.is_empty() {
                    drop(held.swap_remove(pick % held.len()));
                }
                for buffer in &held {
                    // Buffers begin at pages: overlapping ones have a page's first byte in common.
                    prop_assert!(buffer.iter().step_by(4096).all(|&b| b == buffer[0]), "overlap");
                    prop_assert_eq!(buffer.as_ptr() as usize % 4096, 0);
                }
            }
            held.clear();
            prop_assert_eq!(pool.usage(), (0, 1 << 20));
            let whole: Vec<_> = (0..4).map(|_| pool.take(1 << 18, Use::Any)).collect();
            prop_assert!(whole.iter().all(Option::is_some), "free blocks were not joined again");
            prop_assert!(pool.take(1, Use::Any).is_none());
        }
    }
}
