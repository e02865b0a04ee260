//! Times of commands in the target's buckets, which the daemon and the simulation count alike.

use std::collections::BTreeMap;

use sluice_config::answer::Latency;

/// Numbers of commands by the ends of their buckets in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<u64, u64>);

impl Counts {
    /// Reads the buckets of an answer.
    pub(super) fn of(answer: &Latency) -> Self {
        let (pairs, _) = answer.buckets.as_deref().unwrap_or_default().as_chunks::<2>();
        pairs.iter().map(|[end, count]| (*end, *count)).collect()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (end, count) in &other.0 {
            let sum = self.0.entry(*end).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// Computes the counts that were added since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let new = |(end, count): (&u64, &u64)| {
            (*end, count.saturating_sub(before.0.get(end).copied().unwrap_or(0)))
        };
        self.0.iter().map(new).collect()
    }

    /// Computes the time in ns that a part of the commands does not exceed; 0 where there are none.
    /// Inside a bucket, whose width is an eighth of its beginning, times are taken to be spread evenly.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let total: f64 = self.0.values().map(|count| *count as f64).sum();
        let rank = total * part;
        let mut below = 0.0;
        for (end, count) in self.0.iter().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= rank {
                let begin = begin(*end) as f64;
                return begin + (*end as f64 - begin) * ((rank - below) / count).clamp(0.0, 1.0);
            }
            below += count;
        }
        0.0
    }

    /// Computes the least and the longest time, to a bucket's width.
    pub(super) fn ends(&self) -> (f64, f64) {
        let mut filled = self.0.iter().filter(|(_, count)| **count > 0).map(|(end, _)| *end);
        let first = filled.next();
        let last = filled.next_back().or(first);
        (first.map_or(0, begin) as f64, last.unwrap_or(0) as f64)
    }
}

impl FromIterator<(u64, u64)> for Counts {
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(pairs: T) -> Self {
        Self(pairs.into_iter().filter(|(_, count)| *count > 0).collect())
    }
}

/// Returns the beginning of the bucket with this end: eight buckets are between two powers of two.
fn begin(end: u64) -> u64 {
    let last = end.saturating_sub(1);
    if last < 8 { last } else { end.saturating_sub(1 << (last.ilog2() - 3)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_spread_over_their_bucket() {
        let counts: Counts = [(1024, 100), (1152, 100)].into_iter().collect();
        assert_eq!((begin(1024), begin(1152), begin(8), begin(9)), (960, 1024, 7, 8));
        assert!((counts.quantile(0.5) - 1024.0).abs() < 1e-9);
        assert!((counts.quantile(0.75) - 1088.0).abs() < 1e-9);
        assert_eq!(counts.ends(), (960.0, 1152.0));
        assert_eq!(Counts::default().quantile(0.5), 0.0);
    }

    proptest! {
        #[test]
        fn what_was_before_is_taken_away(
            before in proptest::collection::btree_map(1_u64..100, 1_u64..50, 0..10),
            more in proptest::collection::btree_map(1_u64..100, 1_u64..50, 0..10),
        ) {
            let (before, more) = (Counts(before), Counts(more));
            let mut now = before.clone();
            now.merge(&more);
            prop_assert_eq!(now.since(&before), more);
        }
    }
}
