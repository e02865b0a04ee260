//! The order of blocks in an access pattern.

use super::job::{Job, Rw};

/// Random numbers (xorshift64*): fast, and the same sequence for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Any value but 0; neighbouring seeds are spread apart.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Draws a number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is below `bound` for any 64-bit factor.
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Draws a number from 0 to 1, without 1.
    #[inline]
    pub(crate) fn fraction(&mut self) -> f64 {
        // 53 bits: what an f64 holds exactly.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The access pattern of one connection, in units of the job's block size.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    random: bool,
    read_share: u64,
    units: u64,
    cursor: u64,
    numbers: Random,
}

impl Source {
    /// Makes a pattern over `units` blocks.
    pub(crate) fn new(job: &Job, units: u64, seed: u64) -> Self {
        Self {
            random: job.rw.is_random(),
            read_share: u64::from(match job.rw {
                Rw::Read | Rw::Randread => 100,
                Rw::Write | Rw::Randwrite => 0,
                Rw::Mixed | Rw::RandMixed => job.read_share,
            }),
            units,
            cursor: 0,
            numbers: Random::new(seed),
        }
    }

    /// Chooses the next command: whether it writes, and its unit.
    #[inline]
    pub(crate) fn next(&mut self) -> (bool, u64) {
        let write = match self.read_share {
            100 => false,
            0 => true,
            share => self.numbers.below(100) >= share,
        };
        if self.random {
            return (write, self.numbers.below(self.units));
        }
        let unit = self.cursor;
        self.cursor = if unit + 1 >= self.units { 0 } else { unit + 1 };
        (write, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(rw: Rw, read_share: u8) -> Job {
        Job { rw, read_share, ..Job::example() }
    }

    #[test]
    fn a_random_pattern_covers_its_range_evenly_in_the_asked_mix() {
        let mut source = Source::new(&job(Rw::RandMixed, 70), 10, 3);
        let (mut reads, mut hits) = (0, [0u32; 10]);
        for _ in 0..10_000 {
            let (write, unit) = source.next();
            reads += u32::from(!write);
            hits[usize::try_from(unit).unwrap()] += 1;
        }
        assert!((6800..7200).contains(&reads), "{reads}");
        assert!(hits.iter().all(|hits| (850..1150).contains(hits)), "{hits:?}");
    }

    #[test]
    fn a_sequential_pattern_wraps_around() {
        let mut source = Source::new(&job(Rw::Write, 0), 3, 0);
        let units: Vec<_> = (0..5).map(|_| source.next()).collect();
        assert_eq!(units, [(true, 0), (true, 1), (true, 2), (true, 0), (true, 1)]);
    }
}
