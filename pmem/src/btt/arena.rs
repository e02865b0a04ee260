//! An arena while it is used: its lanes, and the locks of its map.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::flog::{Next, Record};
use super::geometry::Geometry;
use super::map::{Content, Entry, Internal, Logical, Unreadable};
use super::readers::{BlockName, Readers};
use super::threads;
use crate::medium::Medium;

/// Blocks whose entries share a cache line of the map, and a lock.
const GROUP: u32 = 16;
/// The number of locks of an arena's map: groups at this distance share one.
const LOCKS: usize = 256;

/// Something in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Padded<T>(Mutex<T>);

/// State of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// The internal block that no logical block has.
    pub(super) free: Internal,
    /// The place of its next record.
    pub(super) next: Next,
}

/// An arena while it is used.
#[derive(Debug)]
pub(super) struct Arena {
    number: u32,
    pub(super) geometry: Geometry,
    lanes: Box<[Padded<Lane>]>,
    /// Locks of groups of entries: a thread that changes an entry holds its group's lock. A lane is
    /// taken before a group, and no thread takes two lanes or two groups.
    groups: Box<[Padded<()>]>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arena {
    pub(super) fn new(number: u32, geometry: Geometry, lanes: Vec<Lane>) -> Self {
        let lanes = lanes.into_iter().map(|lane| Padded(Mutex::new(lane))).collect();
        let groups = (0..LOCKS).map(|_| Padded::default()).collect();
        Self { number, geometry, lanes, groups }
    }

    /// Locks a free lane; the search begins at `preferred`.
    fn lane(&self, preferred: usize) -> Option<(u32, MutexGuard<'_, Lane>)> {
        let count = self.lanes.len();
        let numbered = |index: usize, lane| Some((u32::try_from(index).ok()?, lane));
        for step in 0..count {
            let index = preferred.wrapping_add(step) % count;
            match self.lanes.get(index)?.0.try_lock() {
                Ok(lane) => return numbered(index, lane),
                Err(TryLockError::Poisoned(lane)) => return numbered(index, lane.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let index = preferred.checked_rem(count)?;
        numbered(index, lock(&self.lanes.get(index)?.0))
    }

    fn group(&self, logical: Logical) -> Option<MutexGuard<'_, ()>> {
        let group = (logical.0 / GROUP) as usize % LOCKS;
        self.groups.get(group).map(|group| lock(&group.0))
    }

    /// Copies a block out.
    #[inline]
    pub(super) fn read(
        &self,
        medium: &impl Medium,
        readers: &Readers,
        logical: Logical,
        into: &mut [u8],
    ) -> Result<(), Unreadable> {
        let mut entry = self.geometry.entry(medium, logical);
        let mut reading = None;
        loop {
            match entry.content() {
                Content::Stored => {}
                Content::Zeroes => {
                    into.fill(0);
                    return Ok(());
                }
                Content::Unreadable => return Err(Unreadable),
            }
            let block = BlockName::new(self.number, entry.internal());
            let reading = reading.get_or_insert_with(|| readers.enter(block));
            reading.change_to(block);
            let now = self.geometry.entry(medium, logical);
            if now == entry {
                medium.read(self.geometry.bytes_at(entry.internal()), into);
                return Ok(());
            }
            entry = now;
        }
    }

    /// Writes a block; see the order of steps in [`btt`](crate::btt).
    #[inline]
    pub(super) fn write(
        &self,
        medium: &impl Medium,
        readers: &Readers,
        logical: Logical,
        from: &[u8],
    ) {
        self.write_on(threads::number(), medium, readers, logical, from);
    }

    /// Writes a block on a lane of choice, if that is free.
    pub(super) fn write_on(
        &self,
        preferred: usize,
        medium: &impl Medium,
        readers: &Readers,
        logical: Logical,
        from: &[u8],
    ) {
        let geometry = &self.geometry;
        let Some((number, mut lane)) = self.lane(preferred) else {
            debug_assert!(false, "an arena has at least one lane");
            return;
        };
        let new = lane.free;
        readers.wait_until_unread(BlockName::new(self.number, new));
        let at = geometry.bytes_at(new);
        medium.write(at, from);
        medium.flush(at, from.len() as u64);
        let _group = self.group(logical);
        let old = geometry.entry(medium, logical).internal();
        let record = Record { logical, old, new };
        geometry.prepare(medium, number, lane.next, record);
        medium.fence();
        geometry.commit(medium, number, lane.next, record);
        medium.fence();
        geometry.set_entry(medium, Entry::stored(logical, new));
        geometry.flush_entries(medium, logical, 1);
        medium.fence();
        *lane = Lane { free: old, next: lane.next.after() };
    }

    /// Makes `count` blocks read as zeroes.
    pub(super) fn zero(&self, medium: &impl Medium, first: Logical, count: u32) {
        let mut left = first.0..first.0.saturating_add(count).min(self.geometry.external);
        while !left.is_empty() {
            let end = (left.start / GROUP).saturating_add(1).saturating_mul(GROUP).min(left.end);
            let _group = self.group(Logical(left.start));
            for logical in (left.start..end).map(Logical) {
                let entry = self.geometry.entry(medium, logical);
                if entry.content() != Content::Zeroes {
                    self.geometry.set_entry(medium, entry.zeroed());
                }
            }
            // Also entries that were zeroes already: the thread that zeroed them may not have
            // fenced yet.
            self.geometry.flush_entries(medium, Logical(left.start), end - left.start);
            left.start = end;
        }
        medium.fence();
    }
}
