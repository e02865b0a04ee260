//! The operations of workloads: of each host, in each class, at each namespace.
//!
//! Peers choose names and classes, so that the number of workloads known by their names is bounded, like the number
//! of hosts ([`super::ended`]). If there is no room for a new workload, the one idle for longest is forgotten with
//! its operations, as are workloads idle for an hour. Workloads without room count together as others of their
//! class. Their counters only increase by new operations, so that rates are right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arbitration::{Class, PerClass};
use fabric::Nanos;
use sluice_core::stats::{IoSnapshot, PerReactor};

use super::ended::{KEEP, OTHERS};
use crate::sys::sync::lock;

/// The most workloads that are known by their names, including workloads of hosts that have gone.
pub(crate) const WORKLOADS_MAX: usize = 1024;

/// The name of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// The host's NQN.
    pub host: String,
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The namespace; 0 for all others.
    pub nsid: u32,
    /// The class.
    pub class: Class,
}

impl WorkloadKey {
    /// Returns the name of all other workloads of a class.
    fn others(class: Class) -> Self {
        Self { host: OTHERS.to_owned(), subsystem: OTHERS.to_owned(), nsid: 0, class }
    }
}

/// All workloads. The lock is taken where a queue has its first command of a workload, and for
/// reading.
#[derive(Debug)]
pub(crate) struct Workloads {
    reactors: usize,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    named: BTreeMap<WorkloadKey, Named>,
    /// The operations of workloads that are not known by their names.
    others: PerClass<Arc<PerReactor>>,
}

/// A workload that is known by its name. Queues that count in it hold its statistics too.
#[derive(Debug)]
struct Named {
    stats: Arc<PerReactor>,
    /// The time at which a queue was last seen to hold it.
    seen: Nanos,
}

impl Named {
    /// Returns whether a queue may still count in it. New holders come under the lock only.
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.stats) > 1
    }
}

impl Known {
    /// Makes room for one more workload, if any rests.
    fn make_room(&mut self) {
        let rest = self.named.iter().filter(|(_, named)| !named.is_held());
        let oldest = rest.min_by_key(|(_, named)| named.seen).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            self.named.remove(&oldest);
        }
    }
}

impl Workloads {
    /// Makes the table for `reactors` reactors, which count.
    #[must_use]
    pub(crate) fn new(reactors: usize) -> Self {
        let others = PerClass::from_fn(|_| Arc::new(PerReactor::new(reactors)));
        Self { reactors, known: Mutex::new(Known { named: BTreeMap::new(), others }) }
    }

    /// Returns the statistics that a workload counts in, for as long as they are held.
    pub(crate) fn stats_of(&self, now: Nanos, key: WorkloadKey) -> Arc<PerReactor> {
        let mut known = lock(&self.known);
        let class = key.class;
        if !known.named.contains_key(&key) && known.named.len() >= WORKLOADS_MAX {
            known.make_room();
            if known.named.len() >= WORKLOADS_MAX {
                return Arc::clone(&known.others[class]);
            }
        }
        let new = || Named { stats: Arc::new(PerReactor::new(self.reactors)), seen: now };
        let named = known.named.entry(key).or_insert_with(new);
        named.seen = now;
        Arc::clone(&named.stats)
    }

    /// Forgets workloads that have rested for [`KEEP`]. Called every few seconds: a workload has
    /// rested since the last call that found it in use.
    pub(crate) fn forget(&self, now: Nanos) {
        lock(&self.known).named.retain(|_, named| {
            if named.is_held() {
                named.seen = now;
            }
            now.since(named.seen) < KEEP
        });
    }

    /// Returns a copy of the operations of each workload that has done any, the others' last.
    #[must_use]
    pub(crate) fn snapshot(&self) -> Vec<(WorkloadKey, IoSnapshot)> {
        // Histograms are copied without the lock, which reactors may want.
        let (named, others) = {
            let known = lock(&self.known);
            let named = known.named.iter();
            let named: Vec<_> =
                named.map(|(key, named)| (key.clone(), Arc::clone(&named.stats))).collect();
            let others = known.others.iter();
            let others: Vec<_> = others.map(|(class, stats)| (class, Arc::clone(stats))).collect();
            (named, others)
        };
        let others = others.into_iter().map(|(class, stats)| (WorkloadKey::others(class), stats));
        let all = named.into_iter().chain(others).map(|(key, stats)| (key, sum(&stats)));
        all.filter(|(_, io)| io.operations() > 0).collect()
    }
}

/// Sums up what all reactors have counted.
fn sum(stats: &PerReactor) -> IoSnapshot {
    let mut sum = IoSnapshot::default();
    for part in stats.iter() {
        sum.merge(&part.snapshot());
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;

    fn key(host: usize, nsid: u32, class: Class) -> WorkloadKey {
        let host = format!("nqn.2026-01.io.x:h{host}");
        WorkloadKey { host, subsystem: "nqn.2026-01.io.x:a".into(), nsid, class }
    }

    fn read(stats: &PerReactor, reads: u64) {
        stats.get(0).unwrap().read.record(reads, reads * 4096, 1000);
    }

    /// Returns the number of reads of each workload that has any.
    fn counts(workloads: &Workloads) -> BTreeMap<WorkloadKey, u64> {
        workloads.snapshot().into_iter().map(|(key, io)| (key, io.read.ops)).collect()
    }

    fn reads(workloads: &Workloads, key: &WorkloadKey) -> Option<u64> {
        counts(workloads).get(key).copied()
    }

    #[test]
    fn queues_of_a_host_count_together_and_classes_and_namespaces_apart() {
        let workloads = Workloads::new(2);
        let low = workloads.stats_of(Nanos(0), key(1, 1, Class::Low));
        read(&low, 3);
        read(&workloads.stats_of(Nanos(0), key(1, 1, Class::Low)), 2);
        low.get(1).unwrap().read.record(1, 4096, 1000);
        read(&workloads.stats_of(Nanos(0), key(1, 1, Class::High)), 7);
        read(&workloads.stats_of(Nanos(0), key(1, 2, Class::Low)), 9);
        let of = |nsid, class| reads(&workloads, &key(1, nsid, class));
        assert_eq!(of(1, Class::Low), Some(6));
        assert_eq!((of(1, Class::High), of(2, Class::Low)), (Some(7), Some(9)));
        assert_eq!(of(1, Class::Medium), None, "none was done");
    }

    #[test]
    fn what_has_rested_for_an_hour_is_forgotten_and_counts_for_no_other() {
        let workloads = Workloads::new(1);
        let here = workloads.stats_of(Nanos(0), key(1, 1, Class::Low));
        read(&here, 5);
        read(&workloads.stats_of(Nanos(0), key(2, 1, Class::Low)), 7);
        let seen_at = |now| {
            workloads.forget(Nanos(now));
            [1, 2].map(|host| reads(&workloads, &key(host, 1, Class::Low)))
        };
        assert_eq!(seen_at(HOUR - SECOND), [Some(5), Some(7)]);
        assert_eq!(seen_at(HOUR), [Some(5), None], "a queue holds the first");
        drop(here);
        assert_eq!(seen_at(2 * HOUR - SECOND), [Some(5), None], "seen an hour ago at most");
        assert_eq!(seen_at(2 * HOUR), [None; 2]);
        assert_eq!(workloads.snapshot(), [], "the others' counter has not jumped");
        read(&workloads.stats_of(Nanos(2 * HOUR), key(2, 1, Class::Low)), 3);
        assert_eq!(seen_at(2 * HOUR), [None, Some(3)], "it begins at 0");
    }

    #[test]
    fn names_without_end_take_the_place_of_what_rests_and_of_no_other() {
        let workloads = Workloads::new(1);
        let here = workloads.stats_of(Nanos(0), key(0, 1, Class::High));
        for host in 1..3 * WORKLOADS_MAX {
            read(&workloads.stats_of(Nanos(host as u64), key(host, 1, Class::Low)), 1);
        }
        read(&here, 3);
        assert_eq!(reads(&workloads, &key(0, 1, Class::High)), Some(3), "it was held all the time");
        assert_eq!(reads(&workloads, &key(1, 1, Class::Low)), None, "it rested for longest");
        assert_eq!(reads(&workloads, &key(3 * WORKLOADS_MAX - 1, 1, Class::Low)), Some(1));
        let all = counts(&workloads);
        assert_eq!(all.len(), WORKLOADS_MAX, "none of the others did anything");
        let low = all.iter().filter(|(key, _)| key.class == Class::Low);
        assert_eq!(low.map(|(_, reads)| reads).sum::<u64>(), WORKLOADS_MAX as u64 - 1);
    }

    #[test]
    fn more_at_once_than_are_known_count_together_by_class() {
        let workloads = Workloads::new(1);
        let held: Vec<_> = (0..WORKLOADS_MAX + 5)
            .map(|host| workloads.stats_of(Nanos(0), key(host, 1, Class::Urgent)))
            .collect();
        held.iter().for_each(|stats| read(stats, 1));
        assert_eq!(reads(&workloads, &WorkloadKey::others(Class::Urgent)), Some(5));
        drop(held);
        read(&workloads.stats_of(Nanos(1), key(9999, 1, Class::Urgent)), 2);
        assert_eq!(reads(&workloads, &key(9999, 1, Class::Urgent)), Some(2), "there is room again");
        assert_eq!(reads(&workloads, &WorkloadKey::others(Class::Urgent)), Some(5));
    }

    proptest! {
        #[test]
        fn counters_go_up_by_what_was_done_and_by_nothing_else(
            steps in prop::collection::vec((0usize..6, 0usize..4, any::<bool>(), 0u64..HOUR), 1..100)
        ) {
            let workloads = Workloads::new(1);
            let (mut now, mut held) = (0, Vec::new());
            let mut before = BTreeMap::new();
            for (host, class, comes, pause) in steps {
                now += pause;
                let class = Class::ALL[class];
                if comes {
                    held.push((class, workloads.stats_of(Nanos(now), key(host, 1, class))));
                } else {
                    drop(held.pop());
                }
                let mut done = PerClass::<u64>::default();
                for (class, stats) in &held {
                    read(stats, 1);
                    done[*class] += 1;
                }
                workloads.forget(Nanos(now));
                let after = counts(&workloads);
                let mut gone_up = PerClass::<u64>::default();
                for (key, count) in &after {
                    gone_up[key.class] += count - before.get(key).copied().unwrap_or(0);
                }
                prop_assert_eq!(gone_up, done);
                before = after;
            }
        }
    }
}
