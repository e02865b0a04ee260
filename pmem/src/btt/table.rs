//! The table as its users see it.

use super::arena::Arena;
use super::geometry::BlockSize;
use super::map::{Logical, Unreadable};
use super::readers::Readers;
use crate::medium::Medium;

/// A block translation table on a medium. Any number of threads may read and write at the same time.
#[derive(Debug)]
pub struct Btt<M> {
    pub(super) medium: M,
    block: BlockSize,
    blocks: u64,
    /// Arenas with the number of their first logical block, in ascending order.
    arenas: Vec<(u64, Arena)>,
    pub(super) readers: Readers,
}

impl<M: Medium> Btt<M> {
    /// Joins arenas, whose blocks have the given size.
    pub(super) fn new(medium: M, block: BlockSize, arenas: Vec<Arena>) -> Self {
        let mut blocks = 0;
        let numbered = arenas.into_iter().map(|arena| {
            let first = blocks;
            blocks += u64::from(arena.geometry.external);
            (first, arena)
        });
        let arenas = numbered.collect();
        Self { medium, block, blocks, arenas, readers: Readers::default() }
    }

    /// Returns the size of a logical block.
    #[must_use]
    pub fn block_size(&self) -> BlockSize {
        self.block
    }

    /// Returns the number of logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the medium.
    #[must_use]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Finds the arena of a block, and the block's number there.
    #[inline]
    pub(super) fn find(&self, block: u64) -> Option<(&Arena, Logical)> {
        let after = self.arenas.partition_point(|(first, _)| *first <= block);
        let (first, arena) = self.arenas.get(after.checked_sub(1)?)?;
        let logical = u32::try_from(block - first).ok()?;
        (logical < arena.geometry.external).then_some((arena, Logical(logical)))
    }

    /// Reads a block. The result has the bytes of one write, under any concurrent writes. `into`
    /// has the size of a block; for a block beyond the end it stays unchanged.
    ///
    /// # Errors
    /// The block cannot be read.
    #[inline]
    pub fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        debug_assert_eq!(into.len(), self.block.bytes() as usize);
        match self.find(block) {
            Some((arena, logical)) => arena.read(&self.medium, &self.readers, logical, into),
            None => Ok(()),
        }
    }

    /// Writes a block. It survives when this returns, on a medium that keeps its promises. `from` has
    /// the size of a block; a block beyond the end is dropped.
    #[inline]
    pub fn write(&self, block: u64, from: &[u8]) {
        debug_assert_eq!(from.len(), self.block.bytes() as usize);
        if let Some((arena, logical)) = self.find(block) {
            arena.write(&self.medium, &self.readers, logical, from);
        }
    }

    /// Makes `count` blocks read as zeroes, without those beyond the end. They do so after a cut, too,
    /// when this returns.
    pub fn zero(&self, block: u64, count: u64) {
        let (mut next, mut left) = (block, count);
        while let Some((arena, logical)) = self.find(next).filter(|_| left > 0) {
            let here = u64::from(arena.geometry.external - logical.0).min(left);
            arena.zero(&self.medium, logical, u32::try_from(here).unwrap_or(u32::MAX));
            (next, left) = (next + here, left - here);
        }
    }
}
