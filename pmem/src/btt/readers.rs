//! The internal blocks that are being read.
//!
//! Before a thread copies an internal block it registers the block here, and checks once more
//! whether the map still has it. Before a thread writes to a free block it waits until no reader
//! has the block registered. A block becomes free by a change of the map. The writer finds every
//! reader that registered the block before the change, and a reader that registers it later sees
//! the change. So a reader never sees a block that is written again. (The specification's name is
//! "read tracking table".)

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::map::Internal;
use super::threads;

/// The number of blocks that can be read at the same time; one more waits.
const PLACES: usize = 256;

/// A word in a cache line of its own: 0 where nothing is read, else the block's name.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(AtomicU64);

/// The blocks that are being read.
#[derive(Debug)]
pub(super) struct Readers {
    places: Box<[Place]>,
    /// The number of places, from the first one, that were ever taken.
    used: AtomicUsize,
}

/// An internal block of one of the arenas: a number other than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockName(u64);

impl BlockName {
    pub(super) fn new(arena: u32, internal: Internal) -> Self {
        Self(((u64::from(arena) << 32) | u64::from(internal.0)) + 1)
    }
}

impl Default for Readers {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| Place::default()).collect();
        Self { places, used: AtomicUsize::new(0) }
    }
}

/// A block that is being read, until this is dropped.
#[derive(Debug)]
pub(super) struct Reading<'a>(&'a AtomicU64);

impl Readers {
    /// Writes down that a block is about to be read.
    pub(super) fn enter(&self, block: BlockName) -> Reading<'_> {
        let first = threads::number();
        for round in 0_usize.. {
            let index = first.wrapping_add(round) % PLACES;
            let Some(place) = self.places.get(index) else { continue };
            if place.0.load(Relaxed) == 0 {
                // Writers look at this many places: it grows before the place is taken.
                self.used.fetch_max(index + 1, SeqCst);
                if place.0.compare_exchange(0, block.0, SeqCst, Relaxed).is_ok() {
                    return Reading(&place.0);
                }
            }
            if round >= PLACES {
                std::thread::yield_now();
            }
        }
        unreachable!("the search for a place ends only when it finds one")
    }

    /// Waits until nobody reads a block, which is in the map no more.
    pub(super) fn wait_until_unread(&self, block: BlockName) {
        for place in self.places.iter().take(self.used.load(SeqCst)) {
            let mut turns = 0_u32;
            while place.0.load(SeqCst) == block.0 {
                turns = turns.saturating_add(1);
                // A copy takes less than a microsecond, unless its thread was interrupted.
                if turns < 1000 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
    }
}

impl Reading<'_> {
    /// Writes down another block in place of the first one.
    pub(super) fn change_to(&self, block: BlockName) {
        self.0.store(block.0, SeqCst);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}
