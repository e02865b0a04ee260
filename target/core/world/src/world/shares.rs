//! A check of the parts that hosts have of a device: by the weights of their classes, and the same
//! for all hosts of a class, however many queues each has and whichever reactors serve them.

use arbitration::settings::Weights;
use arbitration::{Class, PerClass};
use fabric::Nanos;

use crate::oracle::Broken;

/// The part of a host's part by which it may have more or less.
const TOLERANCE: f64 = 0.1;

/// The commands that hosts have had.
#[derive(Debug)]
pub(super) struct Shares {
    /// Each host's class, and its commands.
    hosts: Vec<(Class, u64)>,
    /// Whether all queues of all hosts are there.
    complete: bool,
}

impl Shares {
    /// Makes the counts of hosts of these classes; nothing is watched without any.
    pub(super) fn new(classes: &[Class]) -> Self {
        Self { hosts: classes.iter().map(|class| (*class, 0)).collect(), complete: false }
    }

    /// Says whether hosts' parts are watched.
    pub(super) fn are_watched(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Counts an answer of a host, once all queues of all hosts are there, which `complete` says.
    pub(super) fn count(&mut self, host: usize, complete: impl FnOnce() -> bool) {
        if !self.are_watched() {
            return;
        }
        self.complete = self.complete || complete();
        if self.complete
            && let Some((_, had)) = self.hosts.get_mut(host)
        {
            *had += 1;
        }
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
