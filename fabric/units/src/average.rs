//! Exponential averages: means in which the latest samples count most.
//!
//! [`Average`] has one owner and a fraction; [`follow`] is the same step for whole numbers, which
//! threads share in atomics.

use core::time::Duration;

/// An exponential average.
///
/// The equations of the design's sources write it in two ways. Eq. 1 and 2 of QTCP put their factor
/// gamma on the *old* value, Eq. 3 puts its g on the *new* one: [`Average::keeping`] and
/// [`Average::taking`]. For samples of intervals of different lengths, [`Average::add_by`] takes
/// the weight of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    value: f64,
    /// Weight of a sample, 0.0 to 1.0.
    weight: f64,
    /// Whether there was no sample yet: the first one is taken as it is.
    empty: bool,
}

impl Default for Average {
    /// Makes an average of samples that come with weights of their own ([`Average::add_by`]); for
    /// [`Average::add`], the last sample.
    fn default() -> Self {
        Self { value: 0.0, weight: 1.0, empty: true }
    }
}

impl Average {
    /// Makes an average with `value' = (1 - gamma) * sample + gamma * value`: `gamma`, 0.0 to below
    /// 1.0, is the weight of the old value. Anything else is brought to the nearest of these.
    #[must_use]
    pub fn keeping(gamma: f64) -> Self {
        Self::taking(1.0 - within(gamma, 0.0, 1.0))
    }

    /// Makes an average with `value' = (1 - g) * value + g * sample`: `g`, above 0.0 to 1.0, is the
    /// weight of the sample. Anything else is brought to the nearest of these.
    #[must_use]
    pub fn taking(g: f64) -> Self {
        Self { weight: within(g, f64::EPSILON, 1.0), ..Self::default() }
    }

    /// Starts from `value` instead of the first sample; a number that is not finite is ignored.
    #[must_use]
    pub fn starting(mut self, value: f64) -> Self {
        if value.is_finite() {
            (self.value, self.empty) = (value, false);
        }
        self
    }

    /// Adds a sample and returns the new value; a sample that is not finite is ignored.
    #[inline]
    pub fn add(&mut self, sample: f64) -> f64 {
        self.add_by(sample, self.weight)
    }

    /// Adds a sample with a weight of its own, 0.0 to 1.0, and returns the new value. A sample that
    /// is not finite, or whose weight is not a number, is ignored.
    #[inline]
    pub fn add_by(&mut self, sample: f64, weight: f64) -> f64 {
        if sample.is_finite() {
            let weight = if self.empty { 1.0 } else { within(weight, 0.0, 1.0) };
            // `value + weight * (sample - value)` might overflow.
            self.value = (1.0 - weight) * self.value + weight * sample;
            self.empty = false;
        }
        self.value
    }

    /// Returns the average; `None` before the first sample.
    #[must_use]
    #[inline]
    pub const fn get(&self) -> Option<f64> {
        if self.empty { None } else { Some(self.value) }
    }

    /// Returns the average; 0 before the first sample.
    #[must_use]
    #[inline]
    pub const fn value(&self) -> f64 {
        self.value
    }
}

/// Computes the weight of a sample that stands for `interval` in an average that forgets with the
/// time constant `memory`: the first two terms of `1 - exp(-interval / memory)`, near enough while
/// the interval is the shorter one. 0 where both are zero.
#[must_use]
#[inline]
pub fn weight_of(interval: Duration, memory: Duration) -> f64 {
    let interval = interval.as_secs_f64();
    if interval > 0.0 { interval / (interval + memory.as_secs_f64()) } else { 0.0 }
}

/// Moves a mean one `share`th of the way towards a sample: an exponential average of whole numbers.
/// It stays where it is once it is nearer than `share`. A share of 0 counts as 1: the sample
/// itself.
#[must_use]
#[inline]
pub const fn follow(mean: u64, sample: u64, share: u64) -> u64 {
    let share = if share == 0 { 1 } else { share };
    // Neither over- nor underflows: the change is part of the greater of the two.
    if sample > mean { mean + (sample - mean) / share } else { mean - (mean - sample) / share }
}

/// Clamps a setting to its range. Returns `least` if the setting is not a number or the range is
/// empty.
#[must_use]
#[inline]
pub const fn within(setting: f64, least: f64, most: f64) -> f64 {
    // Not `f64::clamp`: it panics where the range is empty, and keeps NaN.
    if setting > least && most > least {
        if setting < most { setting } else { most }
    } else {
        least
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gamma_weights_old_value_and_g_new() {
        let (mut keeping, mut taking) = (Average::keeping(0.9), Average::taking(0.9));
        for average in [&mut keeping, &mut taking] {
            assert_eq!(average.get(), None);
            assert_eq!(average.add(100.0), 100.0, "the first sample is taken as it is");
            assert_eq!(average.get(), Some(100.0));
        }
        assert!((keeping.add(200.0) - 110.0).abs() < 1e-9);
        assert!((taking.add(200.0) - 190.0).abs() < 1e-9);
    }

    #[test]
    fn average_continues_from_start_value() {
        let mut average = Average::taking(1.0 / 16.0).starting(1.0);
        assert_eq!(average.add(0.0), 15.0 / 16.0);
        assert_eq!(average.add(f64::NAN), 15.0 / 16.0);
        assert_eq!(Average::default().starting(f64::INFINITY).get(), None);
    }

    #[test]
    fn a_sample_counts_by_its_own_weight() {
        let mut average = Average::default().starting(100.0);
        assert_eq!(average.add_by(200.0, 0.25), 125.0);
        assert_eq!(average.add_by(0.0, f64::NAN), 125.0, "a weight that is no number is none");
        assert_eq!(average.add_by(50.0, 7.0), 50.0, "no sample counts more than wholly");
        assert_eq!(average.add(10.0), 10.0, "without a weight of its own the last sample is taken");
    }

    #[test]
    fn a_sample_counts_by_the_time_it_stands_for() {
        let ms = Duration::from_millis;
        assert_eq!(weight_of(ms(10), ms(30)), 0.25);
        assert_eq!(weight_of(ms(10), Duration::ZERO), 1.0);
        assert_eq!(weight_of(Duration::ZERO, ms(30)), 0.0);
        assert_eq!(weight_of(Duration::ZERO, Duration::ZERO), 0.0);
    }

    #[test]
    fn setting_is_clamped_to_range() {
        assert_eq!(within(0.5, 0.0, 1.0), 0.5);
        assert_eq!(within(-1.0, 0.0, 1.0), 0.0);
        assert_eq!(within(7.0, 0.0, 1.0), 1.0);
        assert_eq!(within(f64::INFINITY, 0.0, 1.0), 1.0);
        assert_eq!(within(f64::NAN, 0.0, 1.0), 0.0);
        assert_eq!(within(3.0, 5.0, 1.0), 5.0);
        assert_eq!(within(7.0, 5.0, 1.0), 5.0, "an empty range is its least");
    }

    proptest! {
        #[test]
        fn average_stays_between_samples(
            weight in any::<f64>(), samples in prop::collection::vec(0.0..1e12, 1..50),
        ) {
            let least = samples.iter().copied().fold(f64::MAX, f64::min);
            let most = samples.iter().copied().fold(0.0, f64::max);
            for mut average in [Average::keeping(weight), Average::taking(weight)] {
                for sample in &samples {
                    let value = average.add(*sample);
                    prop_assert!(value >= least * (1.0 - 1e-12) && value <= most * (1.0 + 1e-12));
                }
            }
        }

        #[test]
        fn a_whole_mean_comes_as_near_as_a_step(mean: u64, sample: u64, share in 1_u64..1 << 20) {
            let next = follow(mean, sample, share);
            prop_assert!(next.abs_diff(sample) <= mean.abs_diff(sample));
            prop_assert_eq!(next.abs_diff(mean), mean.abs_diff(sample) / share);
            prop_assert_eq!(follow(mean, sample, 0), sample);
        }
    }
}
