//! Random numbers of loads, disks and figures. Numbers in docs/research/reproduction.md follow from the seed and from
//! the order of draws.

use fastrand::Rng;

/// Distributions that [`Rng`] lacks.
pub trait Draw {
    /// Draws a number below `bound`; 0 where `bound` is 0.
    fn below(&mut self, bound: u64) -> u64;

    /// Draws an exponentially distributed number of that mean.
    fn exponential(&mut self, mean: f64) -> f64;
}

impl Draw for Rng {
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        self.u64(..bound.max(1))
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        // 1 is never drawn, so the logarithm is of more than 0.
        -mean * (1.0 - self.f64()).ln()
    }
}
