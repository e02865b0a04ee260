//! Prices of commands, learnt from the time that a device takes for them.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

use super::slot::SLOT;

/// Largest command of ordinary size, in bytes.
pub(super) const ORDINARY: u32 = 128 * 1024;
/// Greatest price of a write, in prices of a read of the same size.
const MOST: u32 = 16;
/// Number of sizes that are compared: up to 4 KiB, 8 KiB and so on up to 1 MiB, and larger.
const SIZES: usize = 10;
/// Fewest reads, and fewest writes, of a size that are compared.
const FEWEST: u64 = 4;
/// Pairs of a read and a write that weigh as much as all earlier observations.
const INERTIA: u64 = 64;

/// A sum of times and their count, in one word: a note that is lost is lost in both.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    /// The count is in bits 19:0, the sum above it in units of 16 ns.
    const COUNT_DIGITS: u32 = 20;
    const COUNT: u64 = (1 << Self::COUNT_DIGITS) - 1;
    const UNIT_DIGITS: u32 = 4;
    /// The longest time that is kept, in units: times of more than 4 s count as 4 s.
    const LONGEST: u64 = (1 << 28) - 1;
    /// The greatest count: after this many no more times are added, and their sum fits.
    const MOST: u64 = 1 << 16;

    #[inline]
    pub(super) fn note(&self, time: u64) {
        let word = self.0.load(Relaxed);
        if word & Self::COUNT < Self::MOST {
            let time = (time >> Self::UNIT_DIGITS).min(Self::LONGEST);
            self.0.store(word + (time << Self::COUNT_DIGITS | 1), Relaxed);
        }
    }

    /// Returns the mean in ns, and the number of times that it is the mean of.
    pub(super) fn mean(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        let (sum, count) = (word >> Self::COUNT_DIGITS << Self::UNIT_DIGITS, word & Self::COUNT);
        (sum.checked_div(count).unwrap_or(0), count)
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The times of reads and of writes of one size.
#[derive(Debug, Default)]
struct Size {
    read: Tally,
    write: Tally,
}

/// The price of writes, and the observations behind it.
#[derive(Debug)]
pub(super) struct Prices {
    /// Price of a write over a read of the same size, in 1/[`SLOT`].
    write: AtomicU32,
    sizes: [Size; SIZES],
}

impl Default for Prices {
    fn default() -> Self {
        Self { write: AtomicU32::new(SLOT), sizes: Default::default() }
    }
}

impl Prices {
    #[inline]
    pub(super) fn price(&self, write: bool, bytes: u32) -> u32 {
        // At most 2^23 for a read, and 16 times that for a write.
        let read = (bytes / (ORDINARY / SLOT)).max(SLOT);
        if !write {
            return read;
        }
        let price = u64::from(read) * u64::from(self.write.load(Relaxed)) / u64::from(SLOT);
        u32::try_from(price).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(super) fn note(&self, write: bool, bytes: u32, service: u64) {
        let blocks = bytes.saturating_sub(1) >> 12;
        let size = usize::try_from(u32::BITS - blocks.leading_zeros()).unwrap_or(SIZES);
        if let Some(size) = self.sizes.get(size.min(SIZES - 1)) {
            let tally = if write { &size.write } else { &size.read };
            tally.note(service);
        }
    }

    /// Learns the price of writes from the times noted since the last call, and forgets these.
    /// Reads and writes of the same time are compared, because other load slows both.
    pub(super) fn learn(&self) {
        let (mut sum, mut pairs) = (0, 0);
        for size in &self.sizes {
            let ((read, reads), (write, writes)) = (size.read.mean(), size.write.mean());
            if reads >= FEWEST && writes >= FEWEST {
                let both = reads.min(writes);
                sum += u128::from(both) * u128::from(ratio(write, read));
                pairs += both;
            }
            size.read.clear();
            size.write.clear();
        }
        if let Some(seen) = sum.checked_div(u128::from(pairs)) {
            let old = self.write.load(Relaxed);
            let weighted = u128::from(old) * u128::from(INERTIA) + seen * u128::from(pairs);
            let new = weighted / u128::from(INERTIA + pairs);
            self.write.store(u32::try_from(new).unwrap_or(MOST * SLOT), Relaxed);
        }
    }
}

/// Computes the price of a command of ordinary size from the price of one of `bytes` bytes, in 1/[`SLOT`].
#[inline]
pub(super) fn ordinary(price: u32, bytes: u32) -> u32 {
    if bytes <= ORDINARY {
        return price;
    }
    let ordinary = u64::from(price) * u64::from(ORDINARY) / u64::from(bytes);
    u32::try_from(ordinary).unwrap_or(price)
}

/// Computes how many times as long writes took as reads, 1 to 16 times, in 1/[`SLOT`].
fn ratio(write: u64, read: u64) -> u32 {
    let ratio = (write.saturating_mul(u64::from(SLOT))).checked_div(read).unwrap_or(0);
    u32::try_from(ratio).unwrap_or(u32::MAX).clamp(SLOT, MOST * SLOT)
}

/// Computes how many commands of ordinary size this many bytes are, rounded up.
#[inline]
pub(super) fn sizes(bytes: u32) -> u64 {
    u64::from(bytes.div_ceil(ORDINARY).max(1))
}
