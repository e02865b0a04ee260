//! A check of the parts that hosts have of a device: by the weights of their classes, and the same
//! for all hosts of a class, however many queues each has and whichever reactors serve them.

use arbitration::settings::Weights;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use units::QueueWeights;

use crate::oracle::Broken;
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
    pub(super) fn check_own(&self, scenario: &Scenario, at: Nanos) -> Result<(), Broken> {
        if !scenario.own_weights || scenario.reactors > 1 {
            return Ok(());
        }
        let priorities = [Class::High, Class::Medium, Class::Low];
        for (host, had) in self.priorities.iter().enumerate().skip(1) {
            let weights = QueueWeights::new(scenario.own_weights_of(host));
            let weight = |priority| f64::from(weights.weight(priority));
            let sum: f64 = priorities.into_iter().map(weight).sum();
            let total: u64 = had.values().sum();
            for priority in priorities {
                let of_part = had[priority] as f64 / total as f64 / (weight(priority) / sum);
                if (of_part - 1.0).abs() > TOLERANCE {
                    let what = format!(
                        "the {priority} queues of host {host} had {of_part:.2} of their part by \
                         {weights:?}: {had:?}"
                    );
                    return Err(Broken { at, what });
                }
            }
        }
        Ok(())
    }

    /// Checks that each host had its part by the weights, of at least `least` commands in all.
    pub(super) fn check(&self, weights: Weights, least: u64, at: Nanos) -> Result<(), Broken> {
        let mut of_class = PerClass::<f64>::default();
        for (class, _) in &self.hosts {
            of_class[*class] += 1.0;
        }
        let weight = |class| match class {
            Class::Urgent | Class::High => f64::from(weights.high),
            Class::Medium => f64::from(weights.medium),
            Class::Low => f64::from(weights.low),
        };
        let hosts = of_class.iter().filter(|(_, hosts)| **hosts > 0.0);
        let weights: f64 = hosts.map(|(class, _)| weight(class)).sum();
        let total: u64 = self.hosts.iter().map(|(_, had)| had).sum();
        for (class, had) in &self.hosts {
            let part = weight(*class) / weights / of_class[*class];
            let of_part = *had as f64 / (total as f64 * part);
            if (of_part - 1.0).abs() > TOLERANCE || total < least {
                let what = format!(
                    "a host of {class} had {had} commands of {total}, {of_part:.2} of its part: {:?}",
                    self.hosts
                );
                return Err(Broken { at, what });
            }
        }
        Ok(())
    }
}
