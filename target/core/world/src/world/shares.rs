//! A check of the parts that hosts have of a device: by the weights of their classes, and the same
//! for all hosts of a class, however many queues each has and whichever reactors serve them.

use arbitration::{Class, PerClass};

use super::World;
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
}

impl World {
    /// Counts an answer of a host, once all hosts have their queues.
    pub(super) fn count_share(&mut self, host: usize) {
        if !self.shares.are_watched() {
            return;
        }
        if !self.shares.complete {
            let mut queues = (0..).zip(&self.hosts).flat_map(|(index, host)| {
                (1..=self.scenario.queues_of(index)).map(|qid| host.queues.get(usize::from(qid)))
            });
            self.shares.complete =
                queues.all(|queue| queue.is_some_and(|q| q.as_ref().is_some_and(|q| q.live)));
        }
        if self.shares.complete
            && let Some((_, had)) = self.shares.hosts.get_mut(host)
        {
            *had += 1;
        }
    }

    /// Checks that each host had its part.
    pub(super) fn check_shares(&self) -> Result<(), Broken> {
        let weights = self.shared.rules.borrow().order.weights;
        let mut of_class = PerClass::<f64>::default();
        for (class, _) in &self.shares.hosts {
            of_class[*class] += 1.0;
        }
        let weight = |class| match class {
            Class::Urgent | Class::High => f64::from(weights.high),
            Class::Medium => f64::from(weights.medium),
            Class::Low => f64::from(weights.low),
        };
        let hosts = || of_class.iter().filter(|(_, hosts)| **hosts > 0.0);
        let weights: f64 = hosts().map(|(class, _)| weight(class)).sum();
        let total: u64 = self.shares.hosts.iter().map(|(_, had)| had).sum();
        for (class, had) in &self.shares.hosts {
            let part = weight(*class) / weights / of_class[*class];
            let of_part = *had as f64 / (total as f64 * part);
            if (of_part - 1.0).abs() > TOLERANCE || total < self.scenario.commands / 2 {
                let at = self.now;
                let what = format!(
                    "a host of {class} had {had} commands of {total}, {of_part:.2} of its part: {:?}",
                    self.shares.hosts
                );
                return Err(Broken { at, what });
            }
        }
        Ok(())
    }
}
