//! Sources that do not wait for the completion of their accesses.

use fastrand::Rng;
use units::Nanos;

use super::shape::Drawn;
use super::{Access, Arrival, Shape, Source};
use crate::random::Draw as _;

/// When accesses come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// At equal distances.
    Constant {
        /// Accesses per second.
        rate: f64,
    },
    /// At exponentially distributed distances.
    Poisson {
        /// Accesses per second, in the mean.
        rate: f64,
    },
    /// So many at once, at exponentially distributed distances.
    Burst {
        /// Accesses per second, in the mean.
        rate: f64,
        /// Accesses of a burst, at least 1.
        count: u32,
    },
    /// At exponentially distributed distances for a while, then not at all for a while. Both times
    /// are exponentially distributed.
    OnOff {
        /// Accesses per second, in the mean of both times.
        rate: f64,
        /// Mean time with accesses in ns.
        on: f64,
        /// Mean time without in ns.
        off: f64,
    },
}

/// A source whose accesses come at times of their own.
#[derive(Clone, Debug)]
pub struct Open {
    process: Process,
    drawn: Drawn,
    random: Rng,
    /// The time of the last access, in ns; not rounded, so that the mean rate is kept.
    at: f64,
    /// The accesses of the burst that are still to come.
    left: u32,
    /// The time that is left with accesses, in ns.
    on: f64,
}

impl Open {
    /// Makes a source that begins at `begin`.
    #[must_use]
    pub fn new(process: Process, shape: Shape, begin: Nanos, seed: u64) -> Self {
        let random = Rng::with_seed(seed);
        Self { process, drawn: Drawn::new(shape), random, at: begin.0 as f64, left: 0, on: 0.0 }
    }

    /// Draws the time from the last access to the next, in ns.
    fn gap(&mut self) -> f64 {
        const SECOND: f64 = 1e9;
        match self.process {
            Process::Constant { rate } => SECOND / rate,
            Process::Poisson { rate } => self.random.exponential(SECOND / rate),
            Process::Burst { rate, count } => {
                if self.left > 0 {
                    self.left -= 1;
                    return 0.0;
                }
                self.left = count.saturating_sub(1);
                self.random.exponential(SECOND / rate * f64::from(count.max(1)))
            }
            Process::OnOff { rate, on, off } => {
                let mut gap = self.random.exponential(SECOND / rate * on / (on + off));
                let mut silent = 0.0;
                // The distances go on where they were when there is load again.
                while gap > self.on {
                    gap -= self.on;
                    silent += self.on + self.random.exponential(off);
                    self.on = self.random.exponential(on);
                }
                self.on -= gap;
                silent + gap
            }
        }
    }

    fn access(&mut self) -> Access {
        self.drawn.draw(&mut self.random)
    }
}

impl Source for Open {
    fn next(&mut self, _: Nanos) -> Arrival {
        self.at += self.gap();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates: centuries are the same as never"
        )]
        let at = Nanos(self.at as u64);
        if at.0 == u64::MAX {
            return Arrival::Never;
        }
        Arrival::At(at, self.access())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Places, Size};
    use super::*;

    const SHAPE: Shape =
        Shape { reads: 0.5, size: Size::Fixed(4096), places: Places::Random, within: 1 << 30 };

    /// Returns the times of the first accesses, in seconds.
    fn times(process: Process, seed: u64, count: usize) -> Vec<f64> {
        let mut source = Open::new(process, SHAPE, Nanos::ZERO, seed);
        let time = |_| match source.next(Nanos::ZERO) {
            Arrival::At(at, _) => at.0 as f64 / 1e9,
            other => panic!("{other:?}"),
        };
        (0..count).map(time).collect()
    }

    fn processes(rate: f64) -> [Process; 4] {
        [
            Process::Constant { rate },
            Process::Poisson { rate },
            Process::Burst { rate, count: 8 },
            Process::OnOff { rate, on: 100e9 / rate, off: 300e9 / rate },
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn the_mean_rate_is_what_was_asked_for(rate in 10.0..1e6, seed: u64) {
            for process in processes(rate) {
                // 40,000 Poisson arrivals are off by half a per cent, 1000 times on and off by some 4 %.
                let on_off = matches!(process, Process::OnOff { .. });
                let (count, most) = if on_off { (400_000, 0.3) } else { (40_000, 0.05) };
                let times = times(process, seed, count);
                prop_assert!(times.is_sorted());
                let had = count as f64 / times.last().unwrap();
                prop_assert!((had / rate - 1.0).abs() < most, "{process:?}: {had}");
            }
        }
    }

    #[test]
    fn distances_are_those_of_the_process() {
        let spread = |process| {
            let times = times(process, 3, 50_000);
            let gaps: Vec<f64> = times.windows(2).map(|two| two[1] - two[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            // The squared coefficient of variation: 0 for a clock, 1 for Poisson.
            square / gaps.len() as f64 / mean.powi(2)
        };
        let [constant, poisson, burst, on_off] = processes(1e4).map(spread);
        assert!(constant < 1e-6 && (poisson - 1.0).abs() < 0.05, "{constant} {poisson}");
        // Of eight distances seven are 0: 2 * 8 - 1.
        assert!((burst - 15.0).abs() < 1.0, "{burst}");
        assert!(on_off > 3.0, "{on_off}");
    }

    #[test]
    fn a_source_is_silent_for_its_part_of_the_time() {
        let rate = 1e4;
        let times = times(Process::OnOff { rate, on: 20e6, off: 60e6 }, 9, 100_000);
        let pauses = times.windows(2).map(|two| two[1] - two[0]).filter(|gap| *gap > 2e-3);
        let silent = pauses.sum::<f64>() / times.last().unwrap();
        assert!((silent - 0.75).abs() < 0.08, "{silent}");
    }
}
