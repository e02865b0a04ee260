//! The mean that follows what it measures: seven parts of what was, one part of what is.

/// Predicts the next of a row of numbers from those before it (docs/sources.md, I2: containers are
/// predicted; formula in section III.B): the estimator that Linux's anticipatory scheduler used for
/// think time. All in units of 1/256.
///
/// The formula as printed converges to seven times the size, `(7 * total + 128) / samples`. This
/// is the Linux code that it was borrowed from: `(total + 128) / samples`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predictor {
    samples: u64,
    total: u64,
}

impl Predictor {
    /// Takes a number that was measured. Numbers from 2^48 on count as 2^48.
    pub fn add(&mut self, measured: u64) {
        let measured = measured.min(1 << 48);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * measured) / 8;
    }

    /// Predicts what comes next; `None` before the first measurement.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        (self.total + 128).checked_div(self.samples)
    }
}
