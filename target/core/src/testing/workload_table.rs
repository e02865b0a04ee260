//! The statistics of all workloads of a simulation or a test, whose drivers never give one up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arbitration::Class;

use crate::stats::counters::{IoSnapshot, PerReactor};

/// The statistics of workloads: of each host's commands, by namespace and class.
#[derive(Debug)]
pub struct WorkloadTable {
    reactors: usize,
    known: RefCell<HashMap<(String, u32, Class), Arc<PerReactor>>>,
}

impl WorkloadTable {
    /// Makes a table without workloads, for so many reactors.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        Self { reactors, known: RefCell::default() }
    }

    /// Returns the statistics of a host's commands of a class to a namespace.
    #[must_use]
    pub fn stats(&self, host: &str, (nsid, class): (u32, Class)) -> Arc<PerReactor> {
        let mut known = self.known.borrow_mut();
        let new = || Arc::new(PerReactor::new(self.reactors));
        Arc::clone(known.entry((host.to_owned(), nsid, class)).or_insert_with(new))
    }

    /// Sums up what those workloads have done that `is_one` picks by namespace and class.
    #[must_use]
    pub fn sum(&self, is_one: impl Fn(u32, Class) -> bool) -> IoSnapshot {
        let mut sum = IoSnapshot::default();
        for ((_, nsid, class), stats) in self.known.borrow().iter() {
            if is_one(*nsid, *class) {
                stats.iter().for_each(|stats| sum.merge(&stats.snapshot()));
            }
        }
        sum
    }
}
