//! Axes: from numbers to places, and the numbers that stand beside them.

/// How an axis goes from number to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances are equal differences, from 0 on.
    Linear,
    /// Equal distances are equal ratios.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub title: String,
    /// Scale.
    pub scale: Scale,
}

impl Axis {
    /// Makes an axis that begins at 0.
    #[must_use]
    pub fn linear(title: impl Into<String>) -> Self {
        Self { title: title.into(), scale: Scale::Linear }
    }

    /// Makes an axis of ratios.
    #[must_use]
    pub fn logarithmic(title: impl Into<String>) -> Self {
        Self { title: title.into(), scale: Scale::Logarithmic }
    }
}

/// The range of an axis, and the ticks beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Extent {
    scale: Scale,
    low: f64,
    high: f64,
    /// Numbers that are written, in order.
    pub(super) ticks: Vec<f64>,
}

impl Extent {
    /// Finds the extent of numbers, with room for about `count` ticks. Ignores numbers that are not finite, and on a
    /// logarithmic axis also numbers that are not above 0.
    pub(super) fn new(scale: Scale, numbers: impl Iterator<Item = f64>, count: usize) -> Self {
        let counted =
            |number: &f64| number.is_finite() && (scale == Scale::Linear || *number > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers.filter(counted) {
            (low, high) = (low.min(number), high.max(number));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        match scale {
            Scale::Linear => Self::linear(low.min(0.0), high.max(0.0), count),
            Scale::Logarithmic => Self::logarithmic(low, high, count),
        }
    }

    fn linear(low: f64, high: f64, count: usize) -> Self {
        let span = if high > low { high - low } else { 1.0 };
        let step = nice(span / count.max(1) as f64);
        let (first, last) = ((low / step).floor(), ((low + span) / step - 1e-9).ceil());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few steps, by the choice of the step"
        )]
        let steps = (last - first) as u32;
        let ticks: Vec<f64> = (0..=steps).map(|tick| (first + f64::from(tick)) * step).collect();
        Self { scale: Scale::Linear, low: first * step, high: last * step, ticks }
    }

    fn logarithmic(low: f64, high: f64, count: usize) -> Self {
        let (first, last) =
            (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "numbers of 64 bits have about 600 decades"
        )]
        let decades = (last - first) as u32;
        let step = usize::try_from(decades).unwrap_or(1).div_ceil(count.max(1)).max(1);
        // One or two decades have numbers between their ends.
        let between: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks = (0..=decades).step_by(step).flat_map(|decade| {
            between.iter().map(move |times| times * 10_f64.powf(first + f64::from(decade)))
        });
        let most = 10_f64.powf(last) * (1.0 + 1e-9);
        let ticks = ticks.filter(|tick| *tick <= most).collect();
        Self { scale: Scale::Logarithmic, low: 10_f64.powf(first), high: 10_f64.powf(last), ticks }
    }

    /// Computes the place of a number, 0.0 at the low end and 1.0 at the high one.
    pub(super) fn place(&self, number: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (number - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                (number.max(self.low) / self.low).log10() / (self.high / self.low).log10()
            }
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Returns the least of 1, 2 and 5 times a power of ten that is at least a number.
fn nice(number: f64) -> f64 {
    let power = 10_f64.powf(number.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * power)
        .find(|nice| *nice >= number * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// Writes a number as short as its neighbours allow.
pub(super) fn shown(number: f64) -> String {
    let size = number.abs();
    let (value, unit) = match size {
        1e9.. => (number / 1e9, " G"),
        1e6.. => (number / 1e6, " M"),
        1e4.. => (number / 1e3, " k"),
        _ => (number, ""),
    };
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_has_a_place_between_the_ends(
            numbers in prop::collection::vec(prop_oneof![1e-9..1e12, Just(0.0), Just(f64::NAN)], 0..20),
            logarithmic: bool,
        ) {
            let scale = if logarithmic { Scale::Logarithmic } else { Scale::Linear };
            let extent = Extent::new(scale, numbers.iter().copied(), 6);
            prop_assert!((2..=14).contains(&extent.ticks.len()), "{:?}", extent);
            prop_assert!(extent.ticks.is_sorted());
            for number in numbers.iter().filter(|number| number.is_finite()) {
                prop_assert!((0.0..=1.0).contains(&extent.place(*number)));
            }
        }
    }

    #[test]
    fn ticks_are_numbers_that_a_person_would_choose() {
        let ticks = |most| Extent::new(Scale::Linear, [most].into_iter(), 5).ticks;
        assert_eq!(ticks(97.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(2.3), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        let decades = Extent::new(Scale::Logarithmic, [30.0, 20_000.0].into_iter(), 5);
        let each: Vec<String> = decades.ticks.iter().map(|tick| shown(*tick)).collect();
        assert_eq!(each, ["10", "100", "1000", "10 k", "100 k"]);
        assert!((decades.place(1000.0) - 0.5).abs() < 1e-9);
        assert_eq!(shown(0.25), "0.25");
        assert_eq!(shown(2_500_000.0), "2.5 M");
    }
}
