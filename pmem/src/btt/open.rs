//! Making a table, and opening one: info blocks, recovery, and the search for blocks that are in use
//! twice.

use thiserror::Error;

use super::arena::{Arena, Lane};
use super::flog::{BadLane, Next, Record};
use super::geometry::{BlockSize, Geometry, LANE, PAGE, SHAPE, Shape, TooSmall, divide};
use super::info::{self, Found, Info};
use super::map::{Entry, Internal, Logical};
use super::table::Btt;
use crate::medium::{Medium, WORD};

/// The possible effects of a cut on a medium since the table was open last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// The medium keeps the promises of [`medium`](crate::medium).
    InOrder,
    /// After a power cut the medium may have any of the words that were stored since it was
    /// synchronized as a whole, flushed or not: a file in the page cache. Blocks that are in use
    /// twice are then parted: each logical block that was not written since is as it was, and others
    /// may have the bytes of any write to any block.
    InAnyOrder,
}

/// Findings and repairs when a table was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Info blocks that were damaged and were restored from their copies.
    pub restored: u32,
    /// Writes that had been cut off, and were completed or undone.
    pub settled: u32,
    /// Blocks that were in use twice and were parted, of which a cut in any order is the cause.
    pub parted: u32,
}

/// A table that cannot be opened. Nothing has been changed but what [`OpenReport`] counts.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OpenError {
    /// The medium holds no table, perhaps something else.
    #[error("it holds no block translation table")]
    NoTable,
    /// The making of the layout was cut off. The medium holds nothing else.
    #[error("the layout of its block translation table was never completed")]
    Unfinished,
    /// The medium holds a table that cannot be used.
    #[error(
        "its block translation table cannot be used (arena {arena}, at byte {at}): {why}; restore \
         the region from a copy, or erase it to begin anew"
    )]
    Damaged {
        /// The number of the arena.
        arena: u32,
        /// The first byte of the arena.
        at: u64,
        /// The fault.
        why: String,
    },
}

/// Makes the layout of a table, which is valid once its last word survives.
pub(super) fn format(
    medium: &impl Medium,
    block: BlockSize,
    uuid: [u8; 16],
    shape: Shape,
) -> Result<(), TooSmall> {
    let arenas = divide(medium.bytes(), block, shape)?;
    info::mark_unfinished(medium);
    for geometry in &arenas {
        clear(medium, geometry.start + geometry.map, geometry.flog - geometry.map);
        clear(medium, geometry.start + geometry.flog, u64::from(geometry.lanes) * LANE);
        for lane in 0..geometry.lanes {
            let free = Internal(geometry.external + lane);
            let logical = Logical(lane % geometry.external);
            let record = Record { logical, old: free, new: free };
            geometry.prepare(medium, lane, Next::FIRST, record);
            geometry.commit(medium, lane, Next::FIRST, record);
        }
    }
    medium.fence();
    // The first arena's first info block is what makes the layout valid.
    for geometry in arenas.iter().rev() {
        let info = Info { uuid, parent: [0; 16], geometry: *geometry };
        info::write(medium, geometry.start + geometry.backup, &info);
        info::write(medium, geometry.start, &info);
    }
    Ok(())
}

/// Sets bytes to zero where they are not.
fn clear(medium: &impl Medium, at: u64, bytes: u64) {
    for at in (at..at + bytes).step_by(8) {
        if medium.load(at) != 0 {
            medium.store(at, 0);
            medium.flush(at, WORD);
        }
    }
}

impl<M: Medium> Btt<M> {
    /// Creates the layout of a table whose blocks are all zeroes. The medium's content is lost. A
    /// cut before the end leaves a region that [`Btt::open`] calls unfinished. `uuid` identifies
    /// the table and should be unique.
    ///
    /// # Errors
    /// The medium has less than 16 MiB.
    pub fn format(medium: &M, block: BlockSize, uuid: [u8; 16]) -> Result<(), TooSmall> {
        format(medium, block, uuid, SHAPE)
    }

    /// Opens the table on a medium, after a cut too.
    ///
    /// # Errors
    /// There is no table, it was never completed, or it cannot be used.
    pub fn open(medium: M, cuts: Cuts) -> Result<(Self, OpenReport), OpenError> {
        Self::open_shaped(medium, cuts, SHAPE)
    }

    pub(super) fn open_shaped(
        medium: M,
        cuts: Cuts,
        shape: Shape,
    ) -> Result<(Self, OpenReport), OpenError> {
        let mut opened = OpenReport::default();
        let geometries = geometries(&medium, shape, &mut opened)?;
        let mut arenas = Vec::new();
        for (number, geometry) in (0_u32..).zip(&geometries) {
            let fail = |why: String| OpenError::Damaged { arena: number, at: geometry.start, why };
            let lanes = lanes(&medium, geometry, cuts, &mut opened).map_err(fail)?;
            let lanes = check(&medium, geometry, lanes, cuts, &mut opened).map_err(fail)?;
            arenas.push(Arena::new(number, *geometry, lanes));
        }
        let Some(first) = geometries.first() else { return Err(OpenError::NoTable) };
        Ok((Self::new(medium, first.block, arenas), opened))
    }
}

/// Reads the info blocks of all arenas, and restores damaged ones.
fn geometries(
    medium: &impl Medium,
    shape: Shape,
    opened: &mut OpenReport,
) -> Result<Vec<Geometry>, OpenError> {
    if info::is_unfinished(medium) {
        return Err(OpenError::Unfinished);
    }
    let mut all: Vec<Geometry> = Vec::new();
    let mut start = 0;
    loop {
        let number = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let fail = |why: &str| OpenError::Damaged { arena: number, at: start, why: why.into() };
        let room = medium.bytes().saturating_sub(start);
        let valid = |found: Found| match found {
            Found::Info(info) => info.geometry.check(room).map(|()| info),
            Found::Bad(why) => Err(why),
            Found::Other => Err("it has no info block"),
        };
        let first = info::read(medium, start, start);
        let (info, lost) = match valid(first) {
            Ok(info) => {
                let copy = start + info.geometry.backup;
                let same = info::read(medium, copy, start) == first;
                (info, (!same).then_some(copy))
            }
            Err(why) => {
                // The copy is the last page of an arena, which is as large as it could be made.
                let end = room.min(shape.largest) / PAGE * PAGE;
                let copy = end.checked_sub(PAGE).ok_or(OpenError::NoTable)?;
                match valid(info::read(medium, start + copy, start)) {
                    Ok(info) if info.geometry.backup == copy => (info, Some(start)),
                    _ if first == Found::Other && start == 0 => return Err(OpenError::NoTable),
                    _ => return Err(fail(why)),
                }
            }
        };
        if all.first().is_some_and(|first| first.block != info.geometry.block) {
            return Err(fail("its block size differs from the first arena's"));
        }
        if let Some(lost) = lost {
            info::write(medium, lost, &info);
            opened.restored += 1;
        }
        all.push(info.geometry);
        if info.geometry.next == 0 {
            return Ok(all);
        }
        start =
            start.checked_add(info.geometry.next).ok_or_else(|| fail("its size is impossible"))?;
    }
}

/// Reads the lanes of an arena, and completes interrupted writes. If cuts come in any order, such
/// writes are undone instead, by a new free block for their lanes: `None`.
fn lanes(
    medium: &impl Medium,
    geometry: &Geometry,
    cuts: Cuts,
    opened: &mut OpenReport,
) -> Result<Vec<Option<Lane>>, String> {
    let mut lanes = Vec::new();
    for number in 0..geometry.lanes {
        let (record, next) = match geometry.last(medium, number) {
            Ok(last) => last,
            Err(BadLane::Sequence) if cuts == Cuts::InAnyOrder => {
                lanes.push(None);
                continue;
            }
            Err(why) => return Err(format!("lane {number} of its flog is damaged: {why}")),
        };
        let entry = geometry.entry(medium, record.logical);
        let cut_off = record.old != record.new && entry.internal() == record.old;
        opened.settled = opened.settled.saturating_add(u32::from(cut_off));
        let lane = Lane { free: record.old, next };
        lanes.push(match cuts {
            Cuts::InOrder if cut_off => {
                geometry.set_entry(medium, Entry::stored(record.logical, record.new));
                geometry.flush_entries(medium, record.logical, 1);
                Some(lane)
            }
            // The two words of the record may be of two writes, and its data may be lost.
            Cuts::InAnyOrder if cut_off => None,
            _ => Some(lane),
        });
    }
    medium.fence();
    Ok(lanes)
}

/// A bit for each internal block.
struct InUse(Vec<u64>);

impl InUse {
    /// Notes that a block is in use; says whether it was already.
    fn note(&mut self, block: Internal) -> bool {
        let Some(word) = self.0.get_mut((block.0 / 64) as usize) else { return true };
        let bit = 1 << (block.0 % 64);
        let known = *word & bit != 0;
        *word |= bit;
        known
    }

    /// Finds a block that is not in use, and notes it.
    fn take(&mut self) -> Option<Internal> {
        let index = self.0.iter().position(|word| *word != u64::MAX)?;
        let bit = self.0.get(index)?.trailing_ones();
        let block = Internal(u32::try_from(index).ok()?.checked_mul(64)?.checked_add(bit)?);
        (!self.note(block)).then_some(block)
    }
}

/// Looks whether an internal block is in use twice, and parts such blocks where a cut may have caused
/// that.
fn check(
    medium: &impl Medium,
    geometry: &Geometry,
    mut lanes: Vec<Option<Lane>>,
    cuts: Cuts,
    opened: &mut OpenReport,
) -> Result<Vec<Lane>, String> {
    let mut in_use = InUse(vec![0; (geometry.internal as usize).div_ceil(64)]);
    // Blocks that the arena does not have are never free.
    for beyond in geometry.internal..geometry.internal.next_multiple_of(64) {
        in_use.note(Internal(beyond));
    }
    let mut twice = Vec::new();
    for logical in (0..geometry.external).map(Logical) {
        let entry = geometry.entry(medium, logical);
        if entry.internal().0 >= geometry.internal {
            let Logical(block) = logical;
            return Err(format!("its map leads from block {block} to none that the arena has"));
        }
        if in_use.note(entry.internal()) {
            twice.push(entry);
        }
    }
    let mut count = twice.len();
    for lane in &mut lanes {
        if lane.is_some_and(|lane| in_use.note(lane.free)) {
            *lane = None;
            count += 1;
        }
    }
    if count > 0 && cuts == Cuts::InOrder {
        return Err(format!("{count} of its blocks are in use twice, which no power cut explains"));
    }
    opened.parted = opened.parted.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    let none = || "it has fewer blocks than it needs".to_owned();
    for entry in twice {
        let own = in_use.take().ok_or_else(none)?;
        part(medium, geometry, entry, own);
    }
    let mut whole = Vec::new();
    for (number, lane) in (0_u32..).zip(lanes) {
        whole.push(match lane {
            Some(lane) => lane,
            None => {
                let free = in_use.take().ok_or_else(none)?;
                Lane { free, next: geometry.renew(medium, number, free) }
            }
        });
    }
    Ok(whole)
}

/// Assigns a logical block an internal block of its own, with a copy of the shared block's bytes.
fn part(medium: &impl Medium, geometry: &Geometry, entry: Entry, own: Internal) {
    let (from, to) = (geometry.bytes_at(entry.internal()), geometry.bytes_at(own));
    let bytes = u64::from(geometry.internal_size);
    for offset in (0..bytes).step_by(8) {
        medium.store(to + offset, medium.load(from + offset));
    }
    medium.flush(to, bytes);
    medium.fence();
    let moved = entry.moved(own);
    geometry.set_entry(medium, moved);
    geometry.flush_entries(medium, moved.logical(), 1);
    medium.fence();
}
