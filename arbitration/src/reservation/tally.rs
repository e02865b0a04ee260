//! The used part of a budget in the present period, in one word.

use crate::sync::{AtomicU64, Ordering};

/// Bits of the amount; the bits above hold the low bits of the period's number.
const AMOUNT_BITS: u32 = 44;
/// The largest amount: 4.8 hours in ns, 16 TiB in bytes.
pub(super) const MOST: u64 = (1 << AMOUNT_BITS) - 1;
/// Mask of the period's number as it is kept, in place.
const NUMBER_MASK: u64 = u64::MAX >> AMOUNT_BITS;

/// An amount used in a period. A word that still names an earlier period counts as nothing used,
/// so that nobody has to clear it. All threads may use it at once; each call takes effect at once
/// and in whole.
///
/// Relaxed order suffices: the word orders its own changes, and nothing else hangs on them. The
/// number of a period comes back after 2^20 periods; a word that was not touched for that long (17
/// minutes with the shortest period) reads as used in the present one, until it ends.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Adds an amount in period `number`. In a period that has passed, it counts in the present
    /// one.
    #[inline]
    pub(crate) fn add(&self, number: u64, amount: u64) {
        self.change(|word| {
            let (present, used) = at(word, number);
            Some(pack(present, used.saturating_add(amount)))
        });
    }

    /// Raises the amount of period `number` to this one, if it is less.
    #[inline]
    pub(super) fn raise(&self, number: u64, amount: u64) {
        self.change(|word| {
            let (present, used) = at(word, number);
            (amount > used).then(|| pack(present, amount))
        });
    }

    /// Takes back an amount that was added in period `number`. Once that has passed there is
    /// nothing to take it from.
    #[inline]
    pub(crate) fn take_back(&self, number: u64, amount: u64) {
        self.change(|word| {
            let same = word >> AMOUNT_BITS == number & NUMBER_MASK;
            same.then(|| pack(number, (word & MOST).saturating_sub(amount)))
        });
    }

    /// Returns the amount used in period `number` so far; for a past period, the amount used in the
    /// present one.
    #[inline]
    pub(crate) fn used(&self, number: u64) -> u64 {
        at(self.0.load(Ordering::Relaxed), number).1
    }

    /// Returns the amount used in period `number` alone: 0 if the word holds another period's
    /// amount.
    pub(super) fn used_in(&self, number: u64) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if word >> AMOUNT_BITS == number & NUMBER_MASK { word & MOST } else { 0 }
    }

    #[inline]
    fn change(&self, to: impl Fn(u64) -> Option<u64>) {
        let mut word = self.0.load(Ordering::Relaxed);
        while let Some(new) = to(word) {
            match self.0.compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

/// Returns the later of the word's period and `number`, and the amount used in it.
const fn at(word: u64, number: u64) -> (u64, u64) {
    let behind = number.wrapping_sub(word >> AMOUNT_BITS) & NUMBER_MASK;
    if behind == 0 {
        (number, word & MOST)
    } else if behind <= NUMBER_MASK / 2 {
        (number, 0)
    } else {
        (word >> AMOUNT_BITS, word & MOST)
    }
}

const fn pack(number: u64, used: u64) -> u64 {
    let used = if used > MOST { MOST } else { used };
    number << AMOUNT_BITS | used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_period_starts_at_nothing() {
        let tally = Tally::default();
        tally.add(5, 70);
        tally.add(5, 7);
        assert_eq!(tally.used(5), 77);
        assert_eq!(tally.used(6), 0);
        tally.add(6, 1);
        assert_eq!((tally.used(6), tally.used_in(5)), (1, 0));
    }

    #[test]
    fn late_completion_counts_in_current_period() {
        let tally = Tally::default();
        tally.add(NUMBER_MASK + 1, 10);
        tally.add(NUMBER_MASK, 5);
        assert_eq!(tally.used(NUMBER_MASK + 1), 15, "the number's bits went around");
        tally.take_back(NUMBER_MASK, 5);
        assert_eq!(tally.used(NUMBER_MASK + 1), 15);
        tally.take_back(NUMBER_MASK + 1, 20);
        assert_eq!(tally.used(NUMBER_MASK + 1), 0, "no less than nothing");
    }

    #[test]
    fn amounts_saturate() {
        let tally = Tally::default();
        tally.add(3, u64::MAX);
        tally.add(3, u64::MAX);
        assert_eq!(tally.used_in(3), MOST);
    }

    #[test]
    fn threads_lose_nothing() {
        let tally = Tally::default();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..10_000 {
                        tally.add(1, 3);
                        tally.take_back(1, 2);
                    }
                });
            }
        });
        assert_eq!(tally.used(1), 20_000);
    }
}
