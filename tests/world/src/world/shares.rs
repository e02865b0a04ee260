//! A check of the parts that hosts have of a device: by the weights of their classes, and the same
//! for all hosts of a class, however many queues each has and whichever reactors serve them.

use arbitration::settings::Weights;
use arbitration::{Class, PerClass};
use units::QueueWeights;

use crate::scenario::Scenario;

/// The part of a host's part by which it may have more or less.
pub(super) const TOLERANCE: f64 = 0.1;

/// The numbers of commands answered to hosts.
#[derive(Debug)]
pub(super) struct Shares {
    /// Each host's class, and its commands.
    hosts: Vec<(Class, u64)>,
    /// The commands of each host's queues, by the queues' priority classes.
    priorities: Vec<PerClass<u64>>,
    /// Whether all queues of all hosts are there.
    complete: bool,
}

impl Shares {
    /// Makes the counts of hosts of these classes; nothing is watched without any.
    pub(super) fn new(classes: &[Class]) -> Self {
        let hosts = classes.iter().map(|class| (*class, 0)).collect();
        let priorities = classes.iter().map(|_| PerClass::default()).collect();
        Self { hosts, priorities, complete: false }
    }

    /// Counts an answer of a host, on a queue of this priority class, once all queues of all hosts are
    /// there, which `complete` says.
    pub(super) fn count(&mut self, host: usize, priority: Class, complete: impl FnOnce() -> bool) {
        if self.hosts.is_empty() {
            return;
        }
        self.complete = self.complete || complete();
        if self.complete {
            self.hosts[host].1 += 1;
            self.priorities[host][priority] += 1;
        }
    }

    /// Checks that the queues of each host but the first had their parts of the host's part by the
    /// host's own weights. Each reactor orders the queues that it serves, so they are compared where
    /// one serves them all.
    pub(super) fn check_own(&self, scenario: &Scenario) -> Result<(), String> {
        if !scenario.own_weights || scenario.reactors > 1 {
            return Ok(());
        }
        let priorities = [Class::High, Class::Medium, Class::Low];
        for (host, had) in self.priorities.iter().enumerate().skip(1) {
            let weights = QueueWeights::new(scenario.own_weights_of(host));
            let weight = |priority| f64::from(weights.weight(priority));
            let parts = priorities.map(|priority| (priority, weight(priority), had[priority]));
            check_parts(&parts).map_err(|what| format!("queues of host {host}: {what}"))?;
        }
        Ok(())
    }

    /// Checks that each host had its part by the weights, of at least `least` commands in all.
    pub(super) fn check(&self, weights: Weights, least: u64) -> Result<(), String> {
        let mut of_class = PerClass::<f64>::default();
        self.hosts.iter().for_each(|(class, _)| of_class[*class] += 1.0);
        let weight = |class| match class {
            Class::Urgent | Class::High => f64::from(weights.high),
            Class::Medium => f64::from(weights.medium),
            Class::Low => f64::from(weights.low),
        };
        let hosts = self.hosts.iter();
        let parts = hosts.map(|(class, had)| (*class, weight(*class) / of_class[*class], *had));
        let total = check_parts(&parts.collect::<Vec<_>>())?;
        let enough = self.hosts.is_empty() || total >= least;
        enough.then_some(()).ok_or_else(|| format!("{total} commands are too few"))
    }
}

/// Checks that each of these, with a class and a weight, had its part of all commands by the weights. Returns the
/// number of commands.
fn check_parts(parts: &[(Class, f64, u64)]) -> Result<u64, String> {
    let total: u64 = parts.iter().map(|(_, _, had)| had).sum();
    let weights: f64 = parts.iter().map(|(_, weight, _)| weight).sum();
    for (class, weight, had) in parts {
        let of_part = *had as f64 / total as f64 / (weight / weights);
        if (of_part - 1.0).abs() > TOLERANCE {
            return Err(format!("{class} had {of_part:.2} of its part: {parts:?}"));
        }
    }
    Ok(total)
}
