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

use crate::mapping::Mapping;

/// log2 of the smallest buffer: 4 KiB.
const MIN_SHIFT: u32 = 12;
/// End of a free list.
const NONE: u32 = u32::MAX;

/// A reactor's I/O buffers.
#[derive(Clone)]
pub struct Pool(Rc<Arena>);

struct Arena {
    memory: Mapping,
    free: RefCell<Buddies>,
}

/// The free lists: for each order a doubly linked list of free blocks through two arrays.
struct Buddies {
    /// First free block of each order, in units of the smallest buffer.
    heads: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// The order of the free block that starts here; `u8::MAX` where none does.
    order: Vec<u8>,
    /// Bytes handed out.
    used: usize,
    /// Of these, for data from hosts; and what of that came back since the start.
    data: usize,
    data_freed: u64,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Anything.
    Any,
    /// Data that a host is asked for.
    Data,
}

impl Pool {
    /// Maps `bytes` (rounded down to a multiple of `largest`) for buffers of up to `largest`
    /// bytes, a power of two of at least 4 KiB.
    ///
    /// # Errors
    /// The operating system has no memory for the arena, or it is smaller than one buffer.
    pub fn new(bytes: usize, largest: usize) -> io::Result<Self> {
        let largest = largest.next_power_of_two().max(1 << MIN_SHIFT);
        let bytes = bytes / largest * largest;
        if bytes == 0 {
            return Err(io::Error::other("io_memory is smaller than max_transfer"));
        }
        let memory = Mapping::anonymous(bytes)?;
        let free = RefCell::new(Buddies::new(bytes, largest));
        Ok(Self(Rc::new(Arena { memory, free })))
    }

    /// A buffer of at least `length` bytes (its length is `length`), or `None` when there is
    /// none: wait until one is dropped. The contents are whatever they were.
    #[must_use]
    pub fn take(&self, length: usize) -> Option<Buffer> {
        self.take_for(length, Use::Any)
    }

    /// Like [`Self::take`], counted by its use.
    #[must_use]
    pub fn take_for(&self, length: usize, what: Use) -> Option<Buffer> {
        let order = order_of(length);
        let mut free = self.0.free.borrow_mut();
        let block = free.take(order)?;
        if what == Use::Data {
            free.data += size_of_order(order);
        }
        Some(Buffer { pool: self.clone(), block, order, length, what })
    }

    /// Bytes in use for something.
    #[must_use]
    pub fn used_for(&self, what: Use) -> usize {
        let free = self.0.free.borrow();
        match what {
            Use::Any => free.used,
            Use::Data => free.data,
        }
    }

    /// Bytes of data from hosts whose buffers came back since the start.
    #[must_use]
    pub fn data_freed(&self) -> u64 {
        self.0.free.borrow().data_freed
    }

    /// Whether [`Self::take`] of `length` bytes would give a buffer now.
    #[must_use]
    pub fn has(&self, length: usize) -> bool {
        let free = self.0.free.borrow();
        free.heads.iter().skip(order_of(length) as usize).any(|&head| head != NONE)
    }

    /// Bytes in use, and bytes in all.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.0.free.borrow().used, self.0.memory.len())
    }
}

/// The bytes of a buffer of an order.
fn size_of_order(order: u32) -> usize {
    1 << (order + MIN_SHIFT)
}

/// The order (log2 in units of the smallest buffer) of a buffer of `length` bytes.
fn order_of(length: usize) -> u32 {
    length.next_power_of_two().trailing_zeros().saturating_sub(MIN_SHIFT)
}

#[expect(clippy::indexing_slicing, reason = "block numbers come from the lists themselves")]
impl Buddies {
    fn new(bytes: usize, largest: usize) -> Self {
        let blocks = bytes >> MIN_SHIFT;
        let top = order_of(largest);
        let mut new = Self {
            heads: vec![NONE; top as usize + 1],
            next: vec![NONE; blocks],
            previous: vec![NONE; blocks],
            order: vec![u8::MAX; blocks],
            used: 0,
            data: 0,
            data_freed: 0,
        };
        for block in (0..blocks).step_by(1 << top).rev() {
            new.push(u32::try_from(block).unwrap_or(NONE), top);
        }
        new
    }

    fn push(&mut self, block: u32, order: u32) {
        let head = self.heads[order as usize];
        self.next[block as usize] = head;
        self.previous[block as usize] = NONE;
        if head != NONE {
            self.previous[head as usize] = block;
        }
        self.heads[order as usize] = block;
        self.order[block as usize] = u8::try_from(order).unwrap_or(u8::MAX);
    }

    fn unlink(&mut self, block: u32, order: u32) {
        let (previous, next) = (self.previous[block as usize], self.next[block as usize]);
        if previous == NONE {
            self.heads[order as usize] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        self.order[block as usize] = u8::MAX;
    }

    fn take(&mut self, order: u32) -> Option<u32> {
        let mut from = order;
        while *self.heads.get(from as usize)? == NONE {
            from += 1;
        }
        let block = self.heads[from as usize];
        self.unlink(block, from);
        while from > order {
            from -= 1;
            self.push(block + (1 << from), from);
        }
        self.used += size_of_order(order);
        Some(block)
    }

    fn give(&mut self, mut block: u32, mut order: u32) {
        self.used -= size_of_order(order);
        let top = u32::try_from(self.heads.len() - 1).unwrap_or(0);
        while order < top {
            let buddy = block ^ (1 << order);
            if self.order[buddy as usize] != u8::try_from(order).unwrap_or(u8::MAX) {
                break;
            }
            self.unlink(buddy, order);
            block &= !(1 << order);
            order += 1;
        }
        self.push(block, order);
    }
}

/// A buffer from a [`Pool`]; dropping it gives it back.
pub struct Buffer {
    pool: Pool,
    block: u32,
    order: u32,
    length: usize,
    what: Use,
}

impl Buffer {
    fn offset(&self) -> usize {
        (self.block as usize) << MIN_SHIFT
    }

    /// The address of byte `at` (at most the length), for the kernel.
    #[must_use]
    pub fn address(&self, at: usize) -> *mut u8 {
        self.pool.0.memory.address(self.offset() + at.min(self.length))
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
        let mut free = self.pool.0.free.borrow_mut();
        if self.what == Use::Data {
            let bytes = size_of_order(self.order);
            free.data -= bytes;
            free.data_freed += bytes as u64;
        }
        free.give(self.block, self.order);
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
                    let got = pool.take(length);
                    prop_assert_eq!(got.is_some(), could);
                    if let Some(mut buffer) = got {
                        buffer.fill(u8::try_from(mark % 251).unwrap());
                        held.push(buffer);
                    }
                } else if !held.is_empty() {
                    drop(held.swap_remove(pick % held.len()));
                }
                for buffer in &held {
                    prop_assert!(buffer.iter().all(|&b| b == buffer[0]), "overlap");
                    prop_assert_eq!(buffer.as_ptr() as usize % 4096, 0);
                }
            }
            held.clear();
            prop_assert_eq!(pool.usage(), (0, 1 << 20));
            let whole: Vec<_> = (0..4).map(|_| pool.take(1 << 18)).collect();
            prop_assert!(whole.iter().all(Option::is_some), "free blocks were not joined again");
            prop_assert!(pool.take(1).is_none());
        }
    }
}
