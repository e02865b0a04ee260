//! Histograms of commands by their times; the difference of two tells what happened in between.

use std::collections::BTreeMap;

use serde_json::Value;

/// The numbers of commands by their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// The number of commands in each bucket that has some, by the bucket's end in nanoseconds.
    counts: BTreeMap<u64, u64>,
}

impl Histogram {
    /// Reads `[end, count, end, count, …]`; `None` where the value is something else.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let numbers = value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        let counts = pairs.iter().map(|[end, count]| (*end, *count)).collect();
        rest.is_empty().then_some(Self { counts })
    }

    /// Adds the commands of another histogram.
    pub(super) fn merge(&mut self, other: &Self) {
        for (end, count) in &other.counts {
            let sum = self.counts.entry(*end).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// Computes the counts that were added since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let new = |(end, count): (&u64, &u64)| {
            let old = before.counts.get(end).copied().unwrap_or(0);
            (*end, count.saturating_sub(old))
        };
        Self { counts: self.counts.iter().map(new).filter(|(_, count)| *count > 0).collect() }
    }

    /// Computes the time in nanoseconds that `permille` of the commands did not exceed, to a
    /// bucket's width; `None` where there are no commands.
    pub(super) fn quantile(&self, permille: u16) -> Option<u64> {
        let total: u128 = self.counts.values().map(|count| u128::from(*count)).sum();
        let rank = (total * u128::from(permille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            seen += u128::from(**count);
            seen >= rank
        });
        reached.map(|(end, _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn percentiles_are_of_what_came_since() {
        let before = Histogram::of(&json!([1000, 900, 9000, 100])).unwrap();
        let now = Histogram::of(&json!([1000, 910, 5000, 90, 9000, 100])).unwrap();
        assert_eq!(now.quantile(990), Some(9000), "since the start");
        let new = now.since(&before);
        assert_eq!((new.quantile(990), new.quantile(100)), (Some(5000), Some(1000)));
        assert_eq!(now.since(&now).quantile(990), None, "nothing came");
        let mut both = new.clone();
        both.merge(&before);
        assert_eq!(both, now);
    }

    #[test]
    fn what_is_no_histogram_is_none() {
        for value in [json!(null), json!({}), json!([1]), json!([1, -1]), json!(["1", 2])] {
            assert_eq!(Histogram::of(&value), None, "{value}");
        }
        assert_eq!(Histogram::of(&json!([])).unwrap().quantile(990), None);
    }

    proptest! {
        #[test]
        fn a_percentile_is_a_bucket_that_has_as_many_below_it(
            counts in proptest::collection::btree_map(1u64..1000, 1u64..1000, 1..20),
            permille in 0u16..=1000,
        ) {
            let histogram = Histogram { counts: counts.clone() };
            let end = histogram.quantile(permille).unwrap();
            let total: u64 = counts.values().sum();
            let upto: u64 = counts.range(..=end).map(|(_, count)| count).sum();
            let below: u64 = counts.range(..end).map(|(_, count)| count).sum();
            prop_assert!(upto * 1000 >= total * u64::from(permille));
            prop_assert!(below == 0 || below * 1000 < total * u64::from(permille));
        }
    }
}
