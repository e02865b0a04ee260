//! A buddy allocator, which hands out parts of an arena of I/O buffers in powers of two.
//!
//! The allocator knows numbers of blocks alone; the owner of the arena keeps the bytes.

use std::fmt;

use crate::machine::arena::Use;

/// log2 of the smallest buffer: 4 KiB.
pub const MIN_SHIFT: u32 = 12;
/// End of a free list.
const NONE: u32 = u32::MAX;

/// A part of the arena that is handed out.
#[derive(Debug)]
pub struct Block {
    /// Number of the first block, in units of the smallest buffer.
    first: u32,
    order: u32,
    what: Use,
}

impl Block {
    /// Returns the block's offset in the arena, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        (self.first as usize) << MIN_SHIFT
    }
}

/// Number of free blocks of each order that are not joined with their buddies.
const SPARES: u32 = 128;

/// Free blocks of one order that are not joined with their buddies: a list through [`Buddies::next`].
#[derive(Clone, Copy)]
struct Spares {
    head: u32,
    count: u32,
}

/// The free lists: for each order a doubly linked list of free blocks through two arrays.
///
/// Some free blocks are spares: they are handed out again as they are, the latest first, while its memory is in the
/// cache. They are joined with their buddies when a block is needed that nothing else provides.
pub struct Buddies {
    /// First free block of each order, in units of the smallest buffer.
    heads: Vec<u32>,
    spares: Vec<Spares>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// The order of the free block that starts here; `u8::MAX` where none does.
    order: Vec<u8>,
    /// Bytes that are handed out.
    used: usize,
    /// Bytes of `used` for data from hosts, and bytes of such data that came back since the start.
    data: usize,
    data_freed: u64,
    /// Bytes of `data` that are of the reserve.
    reserve: usize,
}

impl fmt::Debug for Buddies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buddies {{ used: {} }}", self.used)
    }
}

/// Returns the bytes of a buffer of an order.
fn size_of_order(order: u32) -> usize {
    1 << (order + MIN_SHIFT)
}

/// Returns the order (log2 in units of the smallest buffer) of a buffer of `length` bytes.
fn order_of(length: usize) -> u32 {
    length.next_power_of_two().trailing_zeros().saturating_sub(MIN_SHIFT)
}

/// Returns the size of an arena for at most `bytes` bytes in buffers of up to `largest`, rounded down to a multiple
/// of the largest buffer.
#[must_use]
pub fn arena_bytes(bytes: usize, largest: usize) -> usize {
    let largest = largest_block(largest);
    bytes / largest * largest
}

fn largest_block(largest: usize) -> usize {
    largest.next_power_of_two().max(1 << MIN_SHIFT)
}

#[expect(clippy::indexing_slicing, reason = "block numbers come from the lists themselves")]
impl Buddies {
    /// Makes the buddies of an arena of [`arena_bytes`]`(bytes, largest)`, all of it free; buffers
    /// have up to `largest` bytes.
    #[must_use]
    pub fn new(bytes: usize, largest: usize) -> Self {
        let blocks = arena_bytes(bytes, largest) >> MIN_SHIFT;
        let top = order_of(largest_block(largest));
        let mut new = Self {
            heads: vec![NONE; top as usize + 1],
            spares: vec![Spares { head: NONE, count: 0 }; top as usize + 1],
            next: vec![NONE; blocks],
            previous: vec![NONE; blocks],
            order: vec![u8::MAX; blocks],
            used: 0,
            data: 0,
            data_freed: 0,
            reserve: 0,
        };
        for block in (0..blocks).step_by(1 << top).rev() {
            new.push(u32::try_from(block).unwrap_or(NONE), top);
        }
        new
    }

    /// Takes a block of at least `length` bytes; `None` when there is none.
    #[inline]
    pub fn take(&mut self, length: usize, what: Use) -> Option<Block> {
        let order = order_of(length);
        let first = match self.take_spare(order) {
            Some(first) => first,
            None => self.take_block(order)?,
        };
        let bytes = size_of_order(order);
        self.used += bytes;
        if what != Use::Any {
            self.data += bytes;
        }
        if what == Use::Reserve {
            self.reserve += bytes;
        }
        Some(Block { first, order, what })
    }

    /// Takes a block back.
    #[inline]
    pub fn give_back(&mut self, block: &Block) {
        let bytes = size_of_order(block.order);
        self.used -= bytes;
        if block.what != Use::Any {
            self.data -= bytes;
            self.data_freed += bytes as u64;
        }
        if block.what == Use::Reserve {
            self.reserve -= bytes;
        }
        self.keep(block.first, block.order);
    }

    /// Returns whether [`Self::take`] of `length` bytes would return a block now.
    #[inline]
    #[must_use]
    pub fn has(&mut self, length: usize) -> bool {
        let order = order_of(length);
        self.spares.get(order as usize).is_some_and(|spares| spares.head != NONE)
            || self.has_block(order)
            || (self.join_spares() && self.has_block(order))
    }

    /// Returns whether the free lists have a block of at least an order.
    fn has_block(&self, order: u32) -> bool {
        self.heads.iter().skip(order as usize).any(|&head| head != NONE)
    }

    /// Takes the latest spare of an order.
    #[inline]
    fn take_spare(&mut self, order: u32) -> Option<u32> {
        let spares = self.spares.get_mut(order as usize)?;
        let block = spares.head;
        spares.head = *self.next.get(block as usize)?;
        spares.count -= 1;
        Some(block)
    }

    /// Makes a block a spare, or joins it with its buddies if there are enough spares.
    #[inline]
    fn keep(&mut self, block: u32, order: u32) {
        let spares = &mut self.spares[order as usize];
        if spares.count == SPARES {
            self.give_block(block, order);
            return;
        }
        self.next[block as usize] = spares.head;
        (spares.head, spares.count) = (block, spares.count + 1);
    }

    /// Joins all spares with their buddies. Returns whether there were any.
    #[cold]
    fn join_spares(&mut self) -> bool {
        let mut any = false;
        for order in 0..u32::try_from(self.spares.len()).unwrap_or(0) {
            while let Some(block) = self.take_spare(order) {
                self.give_block(block, order);
                any = true;
            }
        }
        any
    }

    /// Returns the number of bytes handed out.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the number of bytes handed out for data that hosts were asked for.
    #[must_use]
    pub fn data_used(&self) -> usize {
        self.data
    }

    /// Returns the number of bytes handed out of the reserve for such data.
    #[must_use]
    pub fn reserve_used(&self) -> usize {
        self.reserve
    }

    /// Returns the number of bytes for data that hosts were asked for which came back since the
    /// start.
    #[must_use]
    pub fn data_freed(&self) -> u64 {
        self.data_freed
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

    /// Takes a block of an order out of the free lists; splits a larger one if need be.
    fn take_block(&mut self, order: u32) -> Option<u32> {
        if !self.has_block(order) && !self.join_spares() {
            return None;
        }
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
        Some(block)
    }

    /// Adds a block to the free lists, joined with its buddies.
    fn give_block(&mut self, mut block: u32, mut order: u32) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_never_overlap_and_join_again(
            steps in prop::collection::vec((any::<bool>(), 1usize..300_000, any::<usize>()), 1..200)
        ) {
            let (all, largest) = (1 << 20, 1 << 18);
            let mut buddies = Buddies::new(all, largest);
            let mut held: Vec<(Block, usize)> = Vec::new();
            for (take, length, pick) in steps {
                if take {
                    let could = buddies.has(length);
                    let got = buddies.take(length, Use::Any);
                    prop_assert_eq!(got.is_some(), could);
                    held.extend(got.map(|block| (block, length)));
                } else if !held.is_empty() {
                    buddies.give_back(&held.swap_remove(pick % held.len()).0);
                }
                let mut ends: Vec<_> =
                    held.iter().map(|(block, length)| (block.offset(), *length)).collect();
                ends.sort_unstable();
                prop_assert!(ends.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "overlap");
                prop_assert!(ends.last().is_none_or(|(at, length)| at + length <= all));
            }
            held.drain(..).for_each(|(block, _)| buddies.give_back(&block));
            prop_assert_eq!(buddies.used(), 0);
            let whole: Vec<_> = (0..4).map(|_| buddies.take(largest, Use::Any)).collect();
            prop_assert!(whole.iter().all(Option::is_some), "free blocks were not joined again");
            prop_assert!(buddies.take(1, Use::Any).is_none());
        }
    }

    #[test]
    fn freed_blocks_are_reused_and_joined_on_demand() {
        let mut buddies = Buddies::new(2 << 20, 1 << 20);
        let held: Vec<_> = std::iter::from_fn(|| buddies.take(4096, Use::Any)).collect();
        assert_eq!(held.len(), 512, "more than are kept as they are");
        held.iter().for_each(|block| buddies.give_back(block));
        let last = held[usize::try_from(SPARES).unwrap() - 1].offset();
        assert_eq!(buddies.take(4096, Use::Any).map(|block| block.offset()), Some(last));
        let large: Vec<_> = (0..2).map(|_| buddies.take(1 << 20, Use::Any)).collect();
        assert!(large[0].is_some() && large[1].is_none(), "one block of 4 KiB is in use");
    }
}
