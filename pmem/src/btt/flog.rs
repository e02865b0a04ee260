//! The flog: for each lane, which block is free, and which write its lane did last.
//!
//! A lane has two records of two words each, which it writes in turn, so that one of them is always
//! whole. The sequence number, in the second word with the new block, tells which one counts. It goes
//! 1, 2, 3, 1; zero stands for a record that was never written.

use thiserror::Error;

use super::geometry::{Geometry, LANE};
use super::map::{Internal, Logical};
use crate::medium::{Medium, WORD};

/// The bytes of one of the two records.
const SLOT: u64 = 16;

/// A sequence number: 1, 2 or 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence(u32);

impl Sequence {
    pub(super) const FIRST: Self = Self(1);

    pub(super) fn next(self) -> Self {
        Self(self.0 % 3 + 1)
    }
}

/// The write recorded by a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The logical block that was written.
    pub(super) logical: Logical,
    /// The internal block that it had before, which is free once the map has the new one.
    pub(super) old: Internal,
    /// The internal block that it gets.
    pub(super) new: Internal,
}

/// A lane whose records cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum BadLane {
    /// No order of whole writes leaves these sequence numbers.
    #[error("the sequence numbers of its records are impossible")]
    Sequence,
    #[error("its two records are not side by side, as an early Linux wrote them")]
    Apart,
    #[error("its record names a block that the arena does not have")]
    Beyond,
}

/// The place and the number of a lane's next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    slot: u64,
    sequence: Sequence,
}

impl Next {
    pub(super) const FIRST: Self = Self { slot: 0, sequence: Sequence::FIRST };

    pub(super) fn after(self) -> Self {
        Self { slot: 1 - self.slot, sequence: self.sequence.next() }
    }
}

impl Geometry {
    fn slot_at(&self, lane: u32, slot: u64) -> u64 {
        self.start + self.flog + u64::from(lane) * LANE + slot * SLOT
    }

    /// Writes the first word of a lane's next record, which does not count yet, and flushes it.
    pub(super) fn prepare(&self, medium: &impl Medium, lane: u32, next: Next, record: Record) {
        let at = self.slot_at(lane, next.slot);
        medium.store(at, u64::from(record.logical.0) | u64::from(record.old.0) << 32);
        medium.flush(at, WORD);
    }

    /// Writes the second word of a lane's next record, which makes it valid, and flushes it. The
    /// first word, and the data of the record, survive already.
    pub(super) fn commit(&self, medium: &impl Medium, lane: u32, next: Next, record: Record) {
        let at = self.slot_at(lane, next.slot) + WORD;
        medium.store(at, u64::from(record.new.0) | u64::from(next.sequence.0) << 32);
        medium.flush(at, WORD);
    }

    /// Forgets a lane's records, and assigns it a free block. A cut in between leaves impossible
    /// sequence numbers, or an earlier record.
    pub(super) fn renew(&self, medium: &impl Medium, lane: u32, free: Internal) -> Next {
        for slot in [0, 1] {
            let at = self.slot_at(lane, slot) + WORD;
            medium.store(at, 0);
            medium.flush(at, WORD);
        }
        let record = Record { logical: Logical(0), old: free, new: free };
        self.prepare(medium, lane, Next::FIRST, record);
        medium.fence();
        self.commit(medium, lane, Next::FIRST, record);
        medium.fence();
        Next::FIRST.after()
    }

    /// Returns the last record of a lane, and the place of the next one.
    pub(super) fn last(&self, medium: &impl Medium, lane: u32) -> Result<(Record, Next), BadLane> {
        let half = |word: u64, shift: u32| {
            u32::try_from(word >> shift & u64::from(u32::MAX)).unwrap_or_default()
        };
        let [first, second] = [0, 1].map(|slot| {
            let at = self.slot_at(lane, slot);
            let (one, two) = (medium.load(at), medium.load(at + WORD));
            let (logical, old) = (Logical(half(one, 0)), Internal(half(one, 32)));
            (Record { logical, old, new: Internal(half(two, 0)) }, half(two, 32))
        });
        let beyond = [2 * SLOT, 3 * SLOT].map(|offset| self.slot_at(lane, 0) + offset);
        if beyond.iter().any(|at| medium.load(*at) != 0) {
            return Err(BadLane::Apart);
        }
        let (slot, (record, sequence)) = match (first.1, second.1) {
            (1..=3, 0) | (1, 3) | (2, 1) | (3, 2) => (0, first),
            (0, 1..=3) | (3, 1) | (1, 2) | (2, 3) => (1, second),
            _ => return Err(BadLane::Sequence),
        };
        let fits = record.logical.0 < self.external
            && record.old.0 < self.internal
            && record.new.0 < self.internal;
        if !fits {
            return Err(BadLane::Beyond);
        }
        Ok((record, Next { slot, sequence: Sequence(sequence) }.after()))
    }
}
