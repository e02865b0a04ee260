//! The division of a region into arenas, and of an arena into its parts.

use std::fmt;

use thiserror::Error;

/// The alignment of all parts of an arena, and the size of an info block, in bytes.
pub(super) const PAGE: u64 = 4096;
/// The size in bytes of a lane's part of the flog: two entries, and padding to a cache line.
pub(super) const LANE: u64 = 64;
/// The size in bytes of an entry of the map.
pub(super) const ENTRY: u64 = 4;
/// The bits of a block's number in the map; the two above are flags.
pub(super) const NUMBER_BITS: u32 = 30;

/// The size of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4096 bytes.
    B4096,
}

impl BlockSize {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    pub(super) fn from_bytes(bytes: u32) -> Option<Self> {
        [Self::B512, Self::B4096].into_iter().find(|size| size.bytes() == bytes)
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

/// The limits by which a new region is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The size of the largest arena in bytes.
    pub(super) largest: u64,
    /// The size of the smallest arena in bytes.
    pub(super) smallest: u64,
    /// The number of lanes of an arena, equal to its number of free blocks.
    pub(super) lanes: u32,
}

/// The limits of the specification: arenas of 16 MiB to 512 GiB; and the 256 lanes that Linux makes.
pub(super) const SHAPE: Shape = Shape { largest: 512 << 30, smallest: 16 << 20, lanes: 256 };

/// A region that is too small.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the region has {bytes} bytes: a block translation table needs at least {least}")]
pub struct TooSmall {
    /// The size of the region in bytes.
    pub bytes: u64,
    /// The least size in bytes.
    pub least: u64,
}

/// The parts of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// The first byte of the arena in the region; all other places count from here.
    pub(super) start: u64,
    /// The place of the next arena; 0 where this is the last.
    pub(super) next: u64,
    /// The size of a logical block.
    pub(super) block: BlockSize,
    /// The size of an internal block in bytes.
    pub(super) internal_size: u32,
    /// The number of logical blocks.
    pub(super) external: u32,
    /// The number of internal blocks: a free one for each lane more.
    pub(super) internal: u32,
    pub(super) lanes: u32,
    /// The place of the internal blocks.
    pub(super) data: u64,
    /// The place of the map.
    pub(super) map: u64,
    /// The place of the flog.
    pub(super) flog: u64,
    /// The place of the second info block.
    pub(super) backup: u64,
}

impl Geometry {
    /// Divides an arena of `bytes` bytes. `None` where it has no room for a logical block.
    fn new(start: u64, bytes: u64, block: BlockSize, lanes: u32) -> Option<Self> {
        let flog_bytes = (u64::from(lanes) * LANE).next_multiple_of(PAGE);
        let room = (bytes / PAGE * PAGE).checked_sub(2 * PAGE)?.checked_sub(flog_bytes)?;
        let internal = room.checked_sub(PAGE)? / (u64::from(block.bytes()) + ENTRY);
        let internal = u32::try_from(internal).ok().filter(|n| n >> NUMBER_BITS == 0)?;
        let external = internal.checked_sub(lanes).filter(|n| *n > 0)?;
        let map_bytes = (u64::from(external) * ENTRY).next_multiple_of(PAGE);
        let map = PAGE + room - map_bytes;
        Some(Self {
            start,
            next: 0,
            block,
            internal_size: block.bytes(),
            external,
            internal,
            lanes,
            data: PAGE,
            map,
            flog: map + map_bytes,
            backup: map + map_bytes + flog_bytes,
        })
    }

    /// Checks that the parts follow one another inside an arena of at most `bytes` bytes, and that
    /// the numbers agree.
    pub(super) fn check(&self, bytes: u64) -> Result<(), &'static str> {
        let end = |start: u64, count: u32, size: u64| {
            u64::from(count).checked_mul(size).and_then(|length| start.checked_add(length))
        };
        let before = |end: Option<u64>, next: u64| end.is_some_and(|end| end <= next);
        let places = [self.data, self.map, self.flog, self.backup, self.next];
        if places.iter().any(|place| !place.is_multiple_of(PAGE)) {
            return Err("a part is not at a multiple of 4096 bytes");
        }
        if self.internal_size < self.block.bytes() || !self.internal_size.is_multiple_of(64) {
            return Err("its internal blocks have an impossible size");
        }
        let blocks = self.external.checked_add(self.lanes);
        if self.lanes == 0 || self.external == 0 || blocks != Some(self.internal) {
            return Err("its numbers of blocks and of free blocks do not fit each other");
        }
        if self.internal >> NUMBER_BITS != 0 {
            return Err("it has more blocks than the map can name");
        }
        let inside = self.data >= PAGE
            && before(end(self.data, self.internal, self.internal_size.into()), self.map)
            && before(end(self.map, self.external, ENTRY), self.flog)
            && before(end(self.flog, self.lanes, LANE), self.backup)
            && before(self.backup.checked_add(PAGE), bytes)
            && (self.next == 0 || before(self.backup.checked_add(PAGE), self.next));
        if inside { Ok(()) } else { Err("its parts overlap, or go beyond the region's end") }
    }
}

/// Divides a region of `bytes` bytes into arenas.
pub(super) fn divide(
    bytes: u64,
    block: BlockSize,
    shape: Shape,
) -> Result<Vec<Geometry>, TooSmall> {
    let mut arenas: Vec<Geometry> = Vec::new();
    let mut start = 0;
    while bytes - start >= shape.smallest {
        let size = shape.largest.min(bytes - start);
        let Some(arena) = Geometry::new(start, size, block, shape.lanes) else { break };
        if let Some(last) = arenas.last_mut() {
            last.next = start - last.start;
        }
        arenas.push(arena);
        start += size;
    }
    if arenas.is_empty() {
        return Err(TooSmall { bytes, least: shape.smallest });
    }
    Ok(arenas)
}

/// Returns the least size in bytes of a region with `blocks` logical blocks.
#[must_use]
pub fn region_bytes(blocks: u64, block: BlockSize) -> u64 {
    least_bytes(blocks, block, SHAPE)
}

fn least_bytes(blocks: u64, block: BlockSize, shape: Shape) -> u64 {
    let each = Geometry::new(0, shape.largest, block, shape.lanes);
    let each = each.map_or(1, |arena| u64::from(arena.external));
    let flog_bytes = (u64::from(shape.lanes) * LANE).next_multiple_of(PAGE);
    let one = |blocks: u64| {
        let internal = blocks + u64::from(shape.lanes);
        let room = (internal * (u64::from(block.bytes()) + ENTRY) + PAGE).next_multiple_of(PAGE);
        (room + flog_bytes + 2 * PAGE).clamp(shape.smallest, shape.largest)
    };
    let rest = if blocks > 0 && blocks.is_multiple_of(each) { 0 } else { one(blocks % each) };
    (blocks / each).saturating_mul(shape.largest).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn total(arenas: &[Geometry]) -> u64 {
        arenas.iter().map(|arena| u64::from(arena.external)).sum()
    }

    proptest! {
        #[test]
        fn a_region_of_the_least_size_holds_the_blocks(
            blocks in prop_oneof![0..1_u64 << 16, 0..1_u64 << 33],
            block in prop::sample::select(vec![BlockSize::B512, BlockSize::B4096]),
        ) {
            let bytes = region_bytes(blocks, block);
            let arenas = divide(bytes, block, SHAPE).unwrap();
            let total = total(&arenas);
            prop_assert!(total >= blocks, "{total} of {blocks}");
            let waste = (bytes - total * u64::from(block.bytes())) as f64;
            prop_assert!(
                bytes == SHAPE.smallest
                    || bytes % SHAPE.largest == SHAPE.smallest
                    || total <= blocks + 16 && waste < (1 << 21) as f64 + bytes as f64 / 100.0
            );
        }

        #[test]
        fn arenas_do_not_overlap_and_pass_their_own_check(
            bytes in prop_oneof![16_u64 << 20..1 << 25, 16_u64 << 20..1 << 42],
            block in prop::sample::select(vec![BlockSize::B512, BlockSize::B4096]),
        ) {
            let arenas = divide(bytes, block, SHAPE).unwrap();
            let mut start = 0;
            for arena in &arenas {
                prop_assert_eq!(arena.start, start);
                let room = if arena.next == 0 { bytes - start } else { arena.next };
                prop_assert_eq!(arena.check(room), Ok(()));
                prop_assert!(arena.check(arena.backup + PAGE - 1).is_err());
                start += arena.next;
            }
        }
    }

    #[test]
    fn too_small_region_is_refused_with_least_size() {
        let error = divide((16 << 20) - 1, BlockSize::B512, SHAPE).unwrap_err();
        assert!(error.to_string().contains("at least 16777216"), "{error}");
        assert!(divide(0, BlockSize::B4096, SHAPE).is_err());
    }
}
