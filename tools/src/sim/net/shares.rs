//! What each class is to have, and each of its flows.

use std::time::Duration;

use qtcp::{Rate, Target};

/// What a class is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// A share of the capacity, relative to the others' shares: all its flows together.
    Share(f64),
    /// A latency: each of its flows.
    Latency(Duration),
}

/// The classes of a bottleneck.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// What there is to share.
    capacity: Rate,
    aims: Vec<Aim>,
    /// Flows of each class that are there.
    flows: Vec<u32>,
}

impl Shares {
    pub(crate) fn new(capacity: Rate, aims: Vec<Aim>) -> Self {
        let flows = vec![0; aims.len()];
        Self { capacity, aims, flows }
    }

    /// A flow of a class comes.
    pub(crate) fn join(&mut self, class: usize) {
        self.flows.iter_mut().skip(class).take(1).for_each(|flows| *flows += 1);
    }

    /// A flow of a class goes.
    pub(crate) fn leave(&mut self, class: usize) {
        self.flows
            .iter_mut()
            .skip(class)
            .take(1)
            .for_each(|flows| *flows = flows.saturating_sub(1));
    }

    /// What a flow of this class is to have: the target of a class is shared by its flows.
    pub(crate) fn target(&self, class: usize) -> Target {
        let Some(&aim) = self.aims.get(class) else { return Target::None };
        match aim {
            Aim::Latency(target) => Target::Latency(target),
            Aim::Share(share) => {
                let flows = self.flows.get(class).copied().unwrap_or(1).max(1);
                Target::Throughput(self.capacity.times(share / self.sum() / f64::from(flows)))
            }
        }
    }

    fn sum(&self) -> f64 {
        let share = |aim: &Aim| if let Aim::Share(share) = aim { *share } else { 0.0 };
        self.aims.iter().map(share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e8_a_class_s_target_is_shared_by_its_flows_alone() {
        let aims = vec![Aim::Share(3.0), Aim::Share(2.0), Aim::Share(1.0)];
        let mut shares = Shares::new(Rate::new(600.0), aims);
        [0, 1, 2, 2].into_iter().for_each(|class| shares.join(class));
        let rates = |shares: &Shares| [0, 1, 2].map(|class| shares.target(class));
        let expect = |rates: [f64; 3]| rates.map(|rate| Target::Throughput(Rate::new(rate)));
        assert_eq!(rates(&shares), expect([300.0, 200.0, 50.0]));
        shares.leave(2);
        assert_eq!(rates(&shares), expect([300.0, 200.0, 100.0]));
    }
}
