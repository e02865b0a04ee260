//! The order of blocks in an access pattern.

use fastrand::Rng;

use super::job::{Job, Rw};

/// The access pattern of one connection, in units of the job's block size.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    random: bool,
    read_share: u64,
    units: u64,
    cursor: u64,
    numbers: Rng,
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
            numbers: Rng::with_seed(seed),
        }
    }

    /// Chooses the next command: whether it writes, and its unit.
    #[inline]
    pub(crate) fn next(&mut self) -> (bool, u64) {
        let write = match self.read_share {
            100 => false,
            0 => true,
            share => self.numbers.u64(..100) >= share,
        };
        if self.random {
            return (write, self.numbers.u64(..self.units.max(1)));
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
