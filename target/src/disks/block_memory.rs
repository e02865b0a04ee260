//! Memory that several threads read and write, in which each logical block is atomic. All accesses to the bytes of
//! such memory are in this module, under its locks.
//!
//! An answer may also be sent from the memory itself: its groups of blocks are then held. Writes to a held group go
//! to a copy of it, which later reads find, and which replaces the group when nobody holds it any more.

use std::ops::Range;
use std::ptr::{NonNull, copy_nonoverlapping, write_bytes};
use std::sync::{Arc, Mutex, MutexGuard};

use nix::sys::mman::{MmapAdvise, madvise};

use sluice_core::HeldBlocks;

use crate::sys::mapping::Mapping;
use crate::sys::sync::lock;

/// Size in bytes of the group of blocks that one lock covers. Copying a group takes about a
/// microsecond.
const GROUP: usize = 16 << 10;
/// Number of locks: groups at this distance from each other share one.
const LOCKS: usize = 256;
/// Size in bytes of the part of a mapping that is zeroed at a time, under the locks of all of its
/// groups. It divides `GROUP * LOCKS`, so that no lock is needed twice.
const ZEROED: usize = 1 << 20;

/// A group of blocks that is held.
#[derive(Debug)]
struct HeldGroup {
    /// The address of the group's first byte.
    address: usize,
    /// The number of [`HeldPart`]s that hold it.
    holders: u32,
    /// The content that the group gets when nobody holds it any more, if somebody has written to it.
    newer: Option<Box<[u8]>>,
}

/// The held groups that one lock covers.
#[derive(Debug, Default)]
struct HeldGroups(Vec<HeldGroup>);

impl HeldGroups {
    #[inline]
    fn place(&self, address: usize) -> Option<usize> {
        self.0.iter().position(|group| group.address == address)
    }

    #[inline]
    fn find(&mut self, address: usize) -> Option<&mut HeldGroup> {
        let place = self.place(address)?;
        self.0.get_mut(place)
    }
}

/// A lock in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Lock(Mutex<HeldGroups>);

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
    fn group(&self, offset: usize) -> Option<MutexGuard<'_, HeldGroups>> {
        let found = self.0.get(offset / GROUP % LOCKS);
        debug_assert!(found.is_some(), "there are LOCKS locks");
        found.map(|group| lock(&group.0))
    }
}

/// Memory of zeroes that several threads may read and write at the same time.
///
/// Each access copies or holds the blocks group by group, each group under its lock. So a read finds
/// each block as one write has left it, where blocks are aligned and no larger than 16 KiB; an access
/// to several groups is not atomic as a whole.
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
            let (Some(into), Some(mut groups)) = (into.get_mut(part), self.locks.group(at)) else {
                return;
            };
            let held = groups.find(self.group_address(at));
            if let Some(newer) = held.and_then(|group| group.newer.as_ref()) {
                into.copy_from_slice(newer.get(within(at, into.len())).unwrap_or_default());
                return;
            }
            // SAFETY: the part is inside the mapping and in one group, as `parts` returns it, and
            // every access to a group's bytes holds its lock, as this one does, or reads while the
            // group is held, when nobody writes to it. `into` lies elsewhere, since no reference for
            // writing leaves this module.
            unsafe {
                copy_nonoverlapping(self.memory.address(at), into.as_mut_ptr(), into.len());
            }
        });
    }

    /// Copies into the memory at `offset`; bytes beyond the end are dropped.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) {
        self.parts(offset, from.len(), GROUP, |at, part| {
            let (Some(from), Some(mut groups)) = (from.get(part), self.locks.group(at)) else {
                return;
            };
            if let Some(held) = groups.find(self.group_address(at)) {
                if let Some(into) = self.newer(held, at).get_mut(within(at, from.len())) {
                    into.copy_from_slice(from);
                }
                return;
            }
            // SAFETY: as in `read`, and nobody holds the group.
            unsafe { copy_nonoverlapping(from.as_ptr(), self.memory.address(at), from.len()) };
        });
    }

    /// Makes `offset..offset + length` zeroes, and gives whole pages back to the system.
    pub fn zero(&self, offset: usize, length: usize) {
        self.parts(offset, length, ZEROED, |at, part| {
            let end = at + part.len();
            // All threads take several locks in ascending order, so that none waits in a circle.
            let mut locked: Vec<_> = (at / GROUP..end.div_ceil(GROUP))
                .filter_map(|group| Some((group * GROUP, self.locks.group(group * GROUP)?)))
                .collect();
            // Bytes before `done` are zeroes; bytes between `done` and a held group are not held.
            let mut done = at;
            for (group, groups) in &mut locked {
                let Some(held) = groups.find(self.group_address(*group)) else { continue };
                let (first, last) = (at.max(*group), end.min(*group + GROUP));
                if let Some(into) = self.newer(held, first).get_mut(within(first, last - first)) {
                    into.fill(0);
                }
                // SAFETY: the locks of all groups that the part touches are held, and nobody holds
                // the groups in between.
                unsafe { self.clear(done, first) };
                done = last;
            }
            // SAFETY: as above.
            unsafe { self.clear(done, end) };
        });
    }

    /// Holds `offset..offset + length`. `None` where a part of it lies beyond the end, or was
    /// written to while others held it: then it must be [read](Self::read).
    #[must_use]
    pub fn hold(self: &Arc<Self>, offset: usize, length: usize) -> Option<HeldPart> {
        if length > self.memory.len().saturating_sub(offset) {
            return None;
        }
        let mut part = HeldPart { memory: Arc::clone(self), offset, length: 0 };
        self.parts(offset, length, GROUP, |at, bytes| {
            if part.length == bytes.start && self.hold_group(at) {
                part.length = bytes.end;
            }
        });
        // If the rest cannot be held, dropping `part` releases its groups.
        (part.length == length).then_some(part)
    }

    /// Holds the group in which a byte lies. Returns false where it was written to while held.
    fn hold_group(&self, at: usize) -> bool {
        let Some(mut groups) = self.locks.group(at) else { return false };
        let address = self.group_address(at);
        match groups.find(address) {
            Some(HeldGroup { newer: Some(_), .. }) => return false,
            Some(group) => group.holders += 1,
            None => groups.0.push(HeldGroup { address, holders: 1, newer: None }),
        }
        true
    }

    /// Releases the group in which a byte lies. After the last holder, writes made meanwhile replace its content.
    fn let_go(&self, at: usize) {
        let Some(mut groups) = self.locks.group(at) else { return };
        let Some(place) = groups.place(self.group_address(at)) else {
            debug_assert!(false, "the group is held");
            return;
        };
        let Some(group) = groups.0.get_mut(place) else { return };
        group.holders -= 1;
        if group.holders > 0 {
            return;
        }
        let HeldGroup { newer, .. } = groups.0.swap_remove(place);
        if let Some(newer) = newer {
            // SAFETY: as in `write`: the lock of the group is held, and nobody holds the group any
            // more. The copy has the group's size, or less where the mapping ends.
            unsafe {
                let into = self.memory.address(at / GROUP * GROUP);
                copy_nonoverlapping(newer.as_ptr(), into, newer.len());
            }
        }
    }

    /// Returns the copy that a held group's writes go to; the first write makes the copy.
    fn newer<'a>(&self, held: &'a mut HeldGroup, at: usize) -> &'a mut [u8] {
        held.newer.get_or_insert_with(|| {
            let start = at / GROUP * GROUP;
            let length = GROUP.min(self.memory.len().saturating_sub(start));
            // SAFETY: inside the mapping; nobody writes to a group that is held.
            unsafe { self.memory.slice(start, length) }.into()
        })
    }

    /// Returns the address of the group in which a byte lies.
    #[inline]
    fn group_address(&self, at: usize) -> usize {
        self.memory.address(at / GROUP * GROUP) as usize
    }

    /// Makes `start..end` zeroes, and gives whole pages back to the system.
    ///
    /// # Safety
    /// The bytes are inside the mapping, the caller has the locks of all their groups, and none of
    /// these is held.
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

/// Returns where bytes from `at` on lie in their group.
#[inline]
fn within(at: usize, length: usize) -> Range<usize> {
    at % GROUP..at % GROUP + length
}

/// A part of a memory that stays as it is until this is dropped.
#[derive(Debug)]
pub struct HeldPart {
    memory: Arc<BlockMemory>,
    offset: usize,
    length: usize,
}

impl HeldBlocks for HeldPart {
    fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, which lives as long as this; nobody writes to groups that are
        // held.
        unsafe { self.memory.memory.slice(self.offset, self.length) }
    }
}

impl Drop for HeldPart {
    fn drop(&mut self) {
        self.memory.parts(self.offset, self.length, GROUP, |at, _| self.memory.let_go(at));
    }
}

// SAFETY: the bytes are mapped until `drop`. Nobody may write to them, as `is_writable` says.
unsafe impl fabric_verbs::Memory for BlockMemory {
    fn address(&self) -> *mut u8 {
        self.memory.address(0)
    }

    fn length(&self) -> usize {
        self.memory.len()
    }

    fn is_writable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accesses_beyond_the_end_are_cut() {
        let memory = BlockMemory::new(3 << 20, Arc::default()).unwrap();
        memory.write(0, &vec![9; 4 << 20]);
        memory.zero(100, (3 << 20) - 200);
        let mut seen = vec![1; 3 << 20];
        memory.read(0, &mut seen);
        let mut expected = vec![0; 3 << 20];
        expected[..100].fill(9);
        expected[(3 << 20) - 100..].fill(9);
        assert!(seen == expected);
        let mut beyond = [5; 8];
        memory.read((3 << 20) - 4, &mut beyond);
        assert_eq!(beyond, [9, 9, 9, 9, 5, 5, 5, 5]);
    }

    /// A step of a history with parts that are held.
    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, usize, u8),
        Hold(usize, usize),
        LetGo(prop::sample::Index),
    }

    const BYTES: usize = 6 * GROUP;

    fn step() -> impl Strategy<Value = Step> {
        let range = (0..BYTES, 1..2 * GROUP);
        let range = range.prop_map(|(at, length)| (at, length.min(BYTES - at)));
        prop_oneof![
            (range.clone(), 1..u8::MAX).prop_map(|((at, n), byte)| Step::Write(at, n, byte)),
            range.clone().prop_map(|(at, n)| Step::Write(at, n, 0)),
            range.prop_map(|(at, n)| Step::Hold(at, n)),
            any::<prop::sample::Index>().prop_map(Step::LetGo),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn what_is_held_stays_and_what_is_written_meanwhile_is_read(
            steps in proptest::collection::vec(step(), 1..60),
        ) {
            let memory = Arc::new(BlockMemory::new(BYTES, Arc::default()).unwrap());
            let (mut model, mut held) = (vec![0; BYTES], Vec::<(HeldPart, Vec<u8>)>::new());
            // The groups that were written to while they were held.
            let mut newer = [false; BYTES / GROUP];
            let groups = |at: usize, length: usize| at / GROUP..(at + length).div_ceil(GROUP);
            let is_held = |held: &[(HeldPart, Vec<u8>)], group: usize| {
                held.iter().any(|(part, _)| groups(part.offset, part.length).contains(&group))
            };
            for step in steps {
                match step {
                    // Writes of the byte 0 zero their place.
                    Step::Write(at, length, byte) => {
                        match byte {
                            0 => memory.zero(at, length),
                            _ => memory.write(at, &vec![byte; length]),
                        }
                        model[at..at + length].fill(byte);
                        for group in groups(at, length) {
                            newer[group] |= is_held(&held, group);
                        }
                    }
                    Step::Hold(at, length) => {
                        let part = memory.hold(at, length);
                        let stale = groups(at, length).any(|group| newer[group]);
                        prop_assert_eq!(part.is_none(), stale);
                        held.extend(part.map(|part| (part, model[at..at + length].to_vec())));
                    }
                    Step::LetGo(index) if !held.is_empty() => {
                        drop(held.swap_remove(index.index(held.len())));
                        for (group, newer) in newer.iter_mut().enumerate() {
                            *newer &= is_held(&held, group);
                        }
                    }
                    Step::LetGo(_) => {}
                }
                let mut seen = vec![1; BYTES];
                memory.read(0, &mut seen);
                prop_assert!(seen == model);
                for (part, content) in &held {
                    prop_assert!(part.bytes() == content);
                }
            }
            held.clear();
            let left: usize = memory.locks.0.iter().map(|group| lock(&group.0).0.len()).sum();
            prop_assert_eq!(left, 0, "groups that nobody holds");
            let whole = memory.hold(0, BYTES).unwrap();
            prop_assert!(whole.bytes() == model);
            prop_assert!(memory.hold(1, BYTES).is_none(), "beyond the end");
        }
    }

    #[test]
    fn a_block_is_of_one_write_whoever_writes_meanwhile() {
        const BLOCK: usize = 4096;
        const BLOCKS: usize = 3;
        let memory = Arc::new(BlockMemory::new(1 << 20, Arc::default()).unwrap());
        let reading = AtomicUsize::new(3);
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
        let rounds = 100 * ProptestConfig::default().cases;
        let count_torn = |seen: &[u8]| {
            let is_torn = |block: &&[u8]| block.iter().any(|byte| *byte != block[0]);
            seen.chunks(BLOCK).filter(is_torn).count()
        };
        let reads = || {
            let (mut seen, mut torn) = ([0; BLOCKS * BLOCK], 0);
            for _ in 0..rounds {
                memory.read(0, &mut seen);
                torn += count_torn(&seen);
            }
            reading.fetch_sub(1, Relaxed);
            assert_eq!(torn, 0, "blocks with bytes of two writes");
        };
        let holds = || {
            let (mut torn, mut held) = (0, 0);
            for _ in 0..rounds {
                let Some(part) = memory.hold(0, BLOCKS * BLOCK) else { continue };
                held += 1;
                let seen = part.bytes().to_vec();
                torn += count_torn(&seen) + usize::from(seen != part.bytes());
            }
            reading.fetch_sub(1, Relaxed);
            assert_eq!(torn, 0, "blocks that were written to while they were held");
            assert!(held > 0, "nobody else holds them");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| writes(1));
            scope.spawn(|| writes(2));
            scope.spawn(reads);
            scope.spawn(holds);
            reads();
        });
    }
}
