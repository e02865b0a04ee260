//! A mean that follows its measurements: seven parts of the old mean, one part of the newest
//! number.

/// Predicts the next of a series of numbers from those before it (docs/research/sources.md, I2: containers
/// are predicted; formula in section III.B), by the estimator that Linux's anticipatory scheduler
/// used for think time. Both sums are in 1/256.
///
/// The formula as printed, `(7 * total + 128) / samples`, converges to seven times the size.
/// [`mean`](Self::mean) computes `(total + 128) / samples`, as the Linux code does that the formula
/// was borrowed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predictor {
    samples: u64,
    total: u64,
}

impl Predictor {
    /// Adds a number that was measured. Numbers from 2^48 on count as 2^48.
    pub fn add(&mut self, measured: u64) {
        let measured = measured.min(1 << 48);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * measured) / 8;
    }

    /// Predicts the next size; `None` before the first measurement.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        (self.total + 128).checked_div(self.samples)
    }
}
