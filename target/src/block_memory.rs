//! Memory that several threads read and write, in which each logical block is atomic. All accesses
//! to the bytes of such memory are in this module, under its locks.

use std::ops::Range;
use std::ptr::{NonNull, copy_nonoverlapping, write_bytes};
use std::sync::{Arc, Mutex, MutexGuard};

use nix::sys::mman::{MmapAdvise, madvise};

use crate::mapping::Mapping;
use crate::sync::lock;

/// Size in bytes of the group of blocks that one lock covers. Copying a group takes about a
/// microsecond.
const GROUP: usize = 16 << 10;
/// Number of locks: groups at this distance from each other share one.
const LOCKS: usize = 256;
/// Size in bytes of the part of a mapping that is zeroed at a time, under the locks of all of its
/// groups. It divides `GROUP * LOCKS`, so that no lock is needed twice.
const ZEROED: usize = 1 << 20;

/// A lock in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Lock(Mutex<()>);

/// The locks of one or several [`BlockMemory`]s.
#[derive(Debug)]
pub struct BlockLocks(Box<[Lock]>);

impl Default for BlockLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Lock::default()).collect())
    }
}

impl BlockLocks {
    /// Locks the group in which a byte lies.
    #[inline]
    fn group(&self, offset: usize) -> Option<MutexGuard<'_, ()>> {
        let found = self.0.get(offset / GROUP % LOCKS);
        debug_assert!(found.is_some(), "there are LOCKS locks");
        found.map(|group| lock(&group.0))
    }
}

/// Memory of zeroes that several threads may read and write at the same time.
///
/// Each access copies the blocks group by group, each group under its lock. So a read finds each
/// block as one write has left it, where blocks are aligned and no larger than 16 KiB; an access to
/// several groups is not atomic as a whole.
#[derive(Debug)]
pub struct BlockMemory {
    memory: Mapping,
    locks: Arc<BlockLocks>,
}

impl BlockMemory {
    /// Maps `length` bytes of zeroes, the accesses to which `locks` guard.
    ///
    /// # Errors
    /// The operating system refuses, or the length is 0.
    pub fn new(length: usize, locks: Arc<BlockLocks>) -> std::io::Result<Self> {
        Ok(Self { memory: Mapping::anonymous(length)?, locks })
    }

    /// Copies out of the memory from `offset`; bytes of `into` beyond the end stay as they are.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.parts(offset, into.len(), GROUP, |at, part| {
            if let (Some(part), Some(_group)) = (into.get_mut(part), self.locks.group(at)) {
                // SAFETY: the part is inside the mapping and in one group, as `parts` returns it,
                // and every access to a group's bytes holds its lock, as this one does. `into` lies
                // elsewhere, since no reference to the mapping leaves this module.
                unsafe {
                    copy_nonoverlapping(self.memory.address(at), part.as_mut_ptr(), part.len());
                }
            }
        });
    }

    /// Copies into the memory at `offset`; bytes beyond the end are dropped.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) {
        self.parts(offset, from.len(), GROUP, |at, part| {
            if let (Some(part), Some(_group)) = (from.get(part), self.locks.group(at)) {
                // SAFETY: as in `read`.
                unsafe { copy_nonoverlapping(part.as_ptr(), self.memory.address(at), part.len()) };
            }
        });
    }

    /// Makes `offset..offset + length` zeroes, and gives whole pages back to the system.
    pub fn zero(&self, offset: usize, length: usize) {
        self.parts(offset, length, ZEROED, |at, part| {
            let end = at + part.len();
            // All threads take several locks in ascending order, so that none waits in a circle.
            let groups =
                (at / GROUP..end.div_ceil(GROUP)).map(|group| self.locks.group(group * GROUP));
            let _groups: Vec<_> = groups.collect();
            // SAFETY: as in `read`: the locks of all groups that the part touches are held.
            unsafe { self.clear(at, end) };
        });
    }

    /// Makes `start..end` zeroes, and gives whole pages back to the system.
    ///
    /// # Safety
    /// The bytes are inside the mapping, and the locks of all their groups are held.
    unsafe fn clear(&self, start: usize, end: usize) {
        const PAGE: usize = 4096;
        let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        let fill = |from: usize, to: usize| {
            // SAFETY: the caller vouches for the bytes, of which these are a part.
            unsafe { write_bytes(self.memory.address(from), 0, to - from) };
        };
        // SAFETY: the caller vouches for the bytes; `first` and `last` are multiples of a page.
        if first < last && unsafe { self.discard(first, last) } {
            fill(start, first);
            fill(last, end);
        } else {
            fill(start, end);
        }
    }

    /// Gives whole pages back, which read as zeroes afterwards. Returns whether the system took
    /// them.
    ///
    /// # Safety
    /// As for [`Self::clear`]; and both numbers are multiples of a page.
    unsafe fn discard(&self, start: usize, end: usize) -> bool {
        let Some(address) = NonNull::new(self.memory.address(start).cast()) else {
            debug_assert!(false, "no mapping is at address 0");
            return false;
        };
        // SAFETY: whole pages inside a private anonymous mapping, which read as zeroes once they
        // were dropped; the caller vouches that nobody else uses them.
        unsafe { madvise(address, end - start, MmapAdvise::MADV_DONTNEED) }.is_ok()
    }

    /// Splits `offset..offset + length` at multiples of `size`, without the bytes beyond the end.
    /// Calls `each` with a part's offset in the memory, and its bytes of the access.
    #[inline]
    fn parts(
        &self,
        offset: usize,
        length: usize,
        size: usize,
        mut each: impl FnMut(usize, Range<usize>),
    ) {
        let length = length.min(self.memory.len().saturating_sub(offset));
        let mut done = 0;
        while done < length {
            let at = offset + done;
            let bytes = (size - at % size).min(length - done);
            each(at, done..done + bytes);
            done += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn accesses_of_any_place_and_size_touch_just_their_bytes() {
        let memory = BlockMemory::new(3 << 20, Arc::default()).unwrap();
        let (offset, length) = (GROUP - 100, 2 * GROUP + 200);
        memory.write(offset, &vec![7; length]);
        memory.zero(GROUP + 50, GROUP);
        let mut seen = vec![1; 3 << 20];
        memory.read(0, &mut seen);
        let mut expected = vec![0; 3 << 20];
        expected[offset..offset + length].fill(7);
        expected[GROUP + 50..2 * GROUP + 50].fill(0);
        assert!(seen == expected);
        memory.write(0, &vec![9; 4 << 20]);
        memory.zero(100, (3 << 20) - 200);
        memory.read(0, &mut seen);
        expected.fill(0);
        expected[..100].fill(9);
        expected[(3 << 20) - 100..].fill(9);
        assert!(seen == expected, "what lies beyond the end is dropped");
        let mut beyond = [5; 8];
        memory.read((3 << 20) - 4, &mut beyond);
        assert_eq!(beyond, [9, 9, 9, 9, 5, 5, 5, 5]);
    }

    /// Threads write blocks, each of one byte alone, and zeroes, and read them.
    #[test]
    fn a_block_is_of_one_write_whoever_writes_meanwhile() {
        const BLOCK: usize = 4096;
        const BLOCKS: usize = 3;
        let memory = BlockMemory::new(1 << 20, Arc::default()).unwrap();
        let reading = AtomicUsize::new(2);
        let writes = |byte: u8| {
            for round in 0_usize.. {
                if reading.load(Relaxed) == 0 {
                    return;
                }
                let at = round % BLOCKS * BLOCK;
                match round % 64 {
                    63 => memory.zero(at, BLOCK),
                    // Two blocks, each of which is atomic for itself.
                    31 => memory.write(at, &[byte; 2 * BLOCK]),
                    _ => memory.write(at, &[byte; BLOCK]),
                }
            }
        };
        let reads = || {
            let (mut seen, mut torn) = ([0; BLOCKS * BLOCK], 0);
            for _ in 0..20_000 {
                memory.read(0, &mut seen);
                for block in seen.chunks(BLOCK) {
                    torn += usize::from(block.iter().any(|byte| *byte != block[0]));
                }
            }
            reading.fetch_sub(1, Relaxed);
            assert_eq!(torn, 0, "blocks with bytes of two writes");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| writes(1));
            scope.spawn(|| writes(2));
            scope.spawn(reads);
            reads();
        });
    }
}
