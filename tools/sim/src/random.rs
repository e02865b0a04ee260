//! Random numbers, the same for the same seed: of loads that `sluice` makes, and of figures and the disk in them,
//! whose numbers in docs/reproduction.md follow from this generator.

/// A generator of random numbers (xorshift64*): fast, and good enough for arrivals and positions.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes the sequence of `seed`; neighbouring seeds are spread apart.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mixed = (seed ^ 0x5ee1_d10c_4a7e_5eed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed ^ mixed >> 31 | 1)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Draws a number below `bound`; 0 where `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is below `bound` for any 64-bit factor.
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Draws a number from 0 to 1, without 1.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        // An f64 holds 53 bits exactly.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a number between 0 and 1, never either.
    pub fn unit(&mut self) -> f64 {
        let high = u32::try_from(self.next() >> 32).unwrap_or(0);
        (f64::from(high) + 0.5) / 4_294_967_296.0
    }

    /// Draws an exponentially distributed number of that mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}
