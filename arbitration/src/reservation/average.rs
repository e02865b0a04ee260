//! Means to which many threads add without waiting for each other.

use crate::sync::{AtomicU64, Ordering};

use units::follow;

/// Fewest samples of a mean that is used.
const ENOUGH: u64 = 64;
/// Fewest samples of a mean that is sure.
const PLENTY: u64 = 1024;
/// Divisor of a sample's weight in the long run.
const LONG_RUN: u64 = 256;

/// A mean in which the latest samples count most: its count in the upper 16 bits, up to `PLENTY`,
/// and the mean in 1/16 in the lower 48.
#[derive(Debug, Default)]
pub(super) struct Average(AtomicU64);

const MEAN_BITS: u32 = 48;
const MEAN_MASK: u64 = (1 << MEAN_BITS) - 1;

impl Average {
    /// Counts a sample; a `doubtful` one only until there are enough.
    #[inline]
    pub(super) fn add(&self, sample: u64, doubtful: bool) {
        let word = self.0.load(Ordering::Relaxed);
        let (count, mean) = (word >> MEAN_BITS, word & MEAN_MASK);
        if doubtful && count >= ENOUGH {
            return;
        }
        let sample = sample.min(MEAN_MASK >> 4) << 4;
        let new = follow(mean, sample, (count + 1).min(LONG_RUN));
        let count = (count + 1).min(PLENTY);
        self.0.store(count << MEAN_BITS | new.min(MEAN_MASK), Ordering::Relaxed);
    }

    /// Returns the number of samples in the average, as far as they have not faded.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> MEAN_BITS
    }

    /// Returns the mean; `None` until there are [`ENOUGH`] samples.
    pub(super) fn get(&self) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        (word >> MEAN_BITS >= ENOUGH).then_some((word & MEAN_MASK) >> 4)
    }

    /// Halves the weight of the samples so far.
    pub(super) fn fade(&self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word >> (MEAN_BITS + 1) << MEAN_BITS | word & MEAN_MASK, Ordering::Relaxed);
    }
}

/// The shares of writes and of large commands among the latest ones, in 2^-16, in the upper and the
/// lower half.
#[derive(Debug, Default)]
pub(super) struct Mix(AtomicU64);

impl Mix {
    /// Counts a command. Returns whether those around it are of several sizes or kinds.
    #[inline]
    pub(super) fn count(&self, write: bool, large: bool) -> bool {
        let count = |share: u64, is: bool| follow(share, u64::from(is) << 16, 64);
        let mixed = |share: u64| (1 << 13..7 << 13).contains(&share);
        let word = self.0.load(Ordering::Relaxed);
        let (writes, larges) = (count(word >> 32, write), count(word & 0xffff_ffff, large));
        self.0.store(writes << 32 | larges, Ordering::Relaxed);
        mixed(writes) || mixed(larges)
    }
}
