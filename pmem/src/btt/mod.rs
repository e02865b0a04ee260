//! A block translation table: logical blocks that are written whole or not at all, on persistent
//! memory that keeps only words whole.
//!
//! The layout on the medium is version 2.0 of the UEFI specification (section "Block Translation
//! Table (BTT) Layout"), which begins at the region's first byte, with blocks of 512 or 4096 bytes and
//! no metadata. The layout has no place for a growing region, and none for a checksum of data.
//!
//! # Layout
//!
//! A region is divided into arenas of 16 MiB to 512 GiB. An arena is, in this order:
//!
//! | part | holds |
//! |---|---|
//! | info block | 4096 bytes: sizes and places of the parts, with a checksum |
//! | data | internal blocks: one for each logical block, and one for each lane |
//! | map | 4 bytes for each logical block: its internal block, and whether it reads as zeroes or fails |
//! | flog | 64 bytes for each lane: two records of a write, used in turn |
//! | second info block | a copy of the first |
//!
//! A lane is what one write at a time uses: it owns one internal block that no logical block has.
//!
//! # Order of a write
//!
//! A write never touches the bytes that a logical block has. It goes to the lane's free block, and
//! then the map is changed:
//!
//! 1. It waits until nobody reads the free block any more (`readers`).
//! 2. It writes the bytes to the free block, and flushes them.
//! 3. It locks the block's entry in the map, and writes the first word of the lane's older record: the
//!    logical block, and the internal block that it has now. It flushes the word and fences. The record
//!    has its old sequence number and does not count.
//! 4. It writes the second word of the record: the new internal block, and the next sequence number.
//!    It flushes the word and fences. **From here on the write survives.**
//! 5. It sets the entry of the map to the new internal block, flushes it and fences. The old internal
//!    block is now the lane's free one.
//!
//! A cut in steps 1 to 3 leaves the block as it was. After a cut between 4 and 5 the record is found
//! when the region is opened, and the map is set. Words are stored whole, so no record and no entry is
//! ever torn; data is torn only where no entry leads.
//!
//! Each fence is needed. Without the fence of step 3 the record may survive its data. Without the
//! fence of step 4 the map may survive the record, and one internal block is then both free and in
//! use. Without the fence of step 5 the lane's next record may survive the map's entry, and the
//! entry's old block is lost.
//!
//! Zeroes are written by a bit of the map's entry alone. A write of several blocks is several writes:
//! each block is atomic, all of them together are not.
//!
//! # Opening
//!
//! [`Btt::open`] restores a damaged info block from its copy, completes writes that were cut off, and
//! then looks at every entry: no internal block may be in use twice. On a medium that keeps the
//! promises of [`medium`](crate::medium) it never is, and a table where one is is refused. A mapping of
//! a plain file keeps them only as long as the system runs: see [`Cuts`].

mod arena;
mod flog;
mod geometry;
mod info;
mod map;
mod open;
mod readers;
mod table;
#[cfg(test)]
mod tests;
mod threads;

pub use geometry::{BlockSize, TooSmall, region_bytes};
pub use map::Unreadable;
pub use open::{Cuts, OpenError, OpenReport};
pub use table::Btt;
