//! The map: for each logical block, the internal block that has its bytes.

use thiserror::Error;

use super::geometry::{ENTRY, Geometry, NUMBER_BITS};
use crate::medium::{Medium, WORD};

/// A logical block of an arena: "pre-map ABA" in the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Logical(pub(super) u32);

/// An internal block of an arena: "post-map ABA" in the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Internal(pub(super) u32);

/// Bit 31 of an entry: the block reads as zeroes.
const ZERO: u32 = 1 << 31;
/// Bit 30 of an entry: the block cannot be read.
const ERROR: u32 = 1 << 30;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// A block that cannot be read: the map marks it so. It can be written.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the map marks the block as unreadable; writing it makes it readable")]
pub struct Unreadable;

/// The content of a logical block, as its entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// That of the internal block.
    Stored,
    /// Zeroes.
    Zeroes,
    /// None: reads fail until the block is written.
    Unreadable,
}

/// An entry of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    raw: u32,
    logical: Logical,
}

impl Entry {
    /// Returns the internal block that belongs to the logical one, whether written or not. Before
    /// the first write it has the same number.
    pub(super) fn internal(self) -> Internal {
        match self.raw & (ZERO | ERROR) {
            0 => Internal(self.logical.0),
            _ => Internal(self.raw & NUMBER),
        }
    }

    pub(super) fn content(self) -> Content {
        match (self.raw & ZERO != 0, self.raw & ERROR != 0) {
            (true, true) => Content::Stored,
            // Nothing has been written, or zeroes have.
            (false, false) | (true, false) => Content::Zeroes,
            (false, true) => Content::Unreadable,
        }
    }

    /// Returns the entry for a block that was written.
    pub(super) fn stored(logical: Logical, at: Internal) -> Self {
        Self { raw: at.0 & NUMBER | ZERO | ERROR, logical }
    }

    /// Returns the entry with another internal block and the same content.
    pub(super) fn moved(self, to: Internal) -> Self {
        match self.content() {
            Content::Stored => Self::stored(self.logical, to),
            Content::Zeroes => Self { raw: to.0 & NUMBER | ZERO, logical: self.logical },
            Content::Unreadable => Self { raw: to.0 & NUMBER | ERROR, logical: self.logical },
        }
    }

    /// Returns the logical block.
    pub(super) fn logical(self) -> Logical {
        self.logical
    }

    /// Returns the entry for a block of zeroes, which keeps its internal block.
    pub(super) fn zeroed(self) -> Self {
        Self { raw: self.internal().0 | ZERO, logical: self.logical }
    }
}

impl Geometry {
    /// Returns the place of the word of a block's entry, and the lowest bit of the entry in it.
    fn entry_at(&self, logical: Logical) -> (u64, u32) {
        let at = self.start + self.map + u64::from(logical.0) * ENTRY;
        (at / WORD * WORD, if at.is_multiple_of(WORD) { 0 } else { 32 })
    }

    /// Returns a block's entry.
    #[inline]
    pub(super) fn entry(&self, medium: &impl Medium, logical: Logical) -> Entry {
        let (at, shift) = self.entry_at(logical);
        let raw = (medium.load(at) >> shift) & u64::from(u32::MAX);
        Entry { raw: u32::try_from(raw).unwrap_or_default(), logical }
    }

    /// Sets a block's entry. It has yet to be flushed. The caller has the lock of the block's group, in
    /// which the other entry of the same word is, too.
    #[inline]
    pub(super) fn set_entry(&self, medium: &impl Medium, entry: Entry) {
        let (at, shift) = self.entry_at(entry.logical);
        let word = medium.load(at);
        let other = word & !(u64::from(u32::MAX) << shift);
        let set = medium.exchange(at, word, other | u64::from(entry.raw) << shift);
        debug_assert_eq!(set, Ok(()), "whoever changes a word has the lock of its group");
    }

    /// Flushes the entries of `count` blocks.
    #[inline]
    pub(super) fn flush_entries(&self, medium: &impl Medium, first: Logical, count: u32) {
        let at = self.start + self.map + u64::from(first.0) * ENTRY;
        medium.flush(at, u64::from(count) * ENTRY);
    }

    /// Returns the place of an internal block's bytes.
    #[inline]
    pub(super) fn bytes_at(&self, internal: Internal) -> u64 {
        self.start + self.data + u64::from(internal.0) * u64::from(self.internal_size)
    }
}
