//! Exponential smoothing, in the two directions in which the equations are written.

/// An exponentially smoothed value.
///
/// Eq. 1 and 2 (seed row E1) put their factor gamma on the *old* value, Eq. 3 puts its g on the
/// *new* one: [`Smoothed::keeping`] and [`Smoothed::taking`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothed {
    value: f64,
    /// The part of a new sample in the value, 0.0 to 1.0.
    part: f64,
    /// Nothing was seen yet: the first sample is taken as it is.
    empty: bool,
}

impl Smoothed {
    /// `value' = (1 - gamma) * sample + gamma * value` (Eq. 1, 2): `gamma`, 0.0 to below 1.0, is
    /// the part of the old value that is kept. Anything else is brought to the nearest of these.
    #[must_use]
    pub fn keeping(gamma: f64) -> Self {
        Self::taking(1.0 - within(gamma, 0.0, 1.0))
    }

    /// `value' = (1 - g) * value + g * sample` (Eq. 3): `g`, above 0.0 to 1.0, is the part of the
    /// new value that is taken. Anything else is brought to the nearest of these.
    #[must_use]
    pub fn taking(g: f64) -> Self {
        Self { value: 0.0, part: within(g, f64::EPSILON, 1.0), empty: true }
    }

    /// Starts from `value` instead of the first sample; a number that is not finite is ignored.
    #[must_use]
    pub fn starting(mut self, value: f64) -> Self {
        if value.is_finite() {
            (self.value, self.empty) = (value, false);
        }
        self
    }

    /// Takes a sample and gives the new value; a sample that is not finite is ignored.
    #[inline]
    pub fn add(&mut self, sample: f64) -> f64 {
        if sample.is_finite() {
            let part = if self.empty { 1.0 } else { self.part };
            // `value + part * (sample - value)` might overflow.
            self.value = (1.0 - part) * self.value + part * sample;
            self.empty = false;
        }
        self.value
    }

    /// The smoothed value; `None` before anything was seen.
    #[must_use]
    #[inline]
    pub const fn get(&self) -> Option<f64> {
        if self.empty { None } else { Some(self.value) }
    }

    /// The smoothed value; 0 before anything was seen.
    #[must_use]
    #[inline]
    pub const fn value(&self) -> f64 {
        self.value
    }
}

/// A setting within its range; `least` for what is not a number.
#[inline]
pub(super) fn within(setting: f64, least: f64, most: f64) -> f64 {
    // Not `f64::clamp`, which keeps what is not a number.
    if setting > least { setting.min(most) } else { least }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn e1_gamma_is_on_the_old_value_and_g_on_the_new() {
        let (mut eq1, mut eq3) = (Smoothed::keeping(0.9), Smoothed::taking(0.9));
        for smoothed in [&mut eq1, &mut eq3] {
            assert_eq!(smoothed.get(), None);
            assert_eq!(smoothed.add(100.0), 100.0, "the first sample is taken as it is");
        }
        assert!((eq1.add(200.0) - 110.0).abs() < 1e-9);
        assert!((eq3.add(200.0) - 190.0).abs() < 1e-9);
    }

    #[test]
    fn e1_a_smoothed_value_that_starts_somewhere_goes_on_from_there() {
        let mut alpha = Smoothed::taking(1.0 / 16.0).starting(1.0);
        assert_eq!(alpha.add(0.0), 15.0 / 16.0);
        assert_eq!(alpha.add(f64::NAN), 15.0 / 16.0);
    }

    proptest! {
        #[test]
        fn e1_smoothing_stays_between_what_was_seen(
            part in any::<f64>(), samples in prop::collection::vec(0.0..1e12, 1..50),
        ) {
            let least = samples.iter().copied().fold(f64::MAX, f64::min);
            let most = samples.iter().copied().fold(0.0, f64::max);
            for mut smoothed in [Smoothed::keeping(part), Smoothed::taking(part)] {
                for sample in &samples {
                    let value = smoothed.add(*sample);
                    prop_assert!(value >= least * (1.0 - 1e-12) && value <= most * (1.0 + 1e-12));
                }
            }
        }
    }
}
