//! The targets of classes, and of each of their flows.

use qtcp::{FlowTarget, Rate};

/// The classes of a bottleneck, which share its capacity.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// The throughput to share.
    capacity: Rate,
    /// The share of each class, relative to the others: all its flows together.
    shares: Vec<f64>,
    /// The number of flows of each class.
    flows: Vec<u32>,
}

impl Shares {
    pub(crate) fn new(capacity: Rate, shares: Vec<f64>) -> Self {
        let flows = vec![0; shares.len()];
        Self { capacity, shares, flows }
    }

    /// Adds a flow of a class.
    pub(crate) fn join(&mut self, class: usize) {
        if let Some(flows) = self.flows.get_mut(class) {
            *flows += 1;
        }
    }

    /// Removes a flow of a class.
    pub(crate) fn leave(&mut self, class: usize) {
        if let Some(flows) = self.flows.get_mut(class) {
            *flows = flows.saturating_sub(1);
        }
    }

    /// Computes the target of a flow: the target of a class is shared by its flows.
    pub(crate) fn target(&self, class: usize) -> FlowTarget {
        let (Some(share), Some(&flows)) = (self.shares.get(class), self.flows.get(class)) else {
            return FlowTarget::None;
        };
        let part = share / self.shares.iter().sum::<f64>() / f64::from(flows.max(1));
        FlowTarget::Throughput(self.capacity.times(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e8_a_class_s_target_is_shared_by_its_flows_alone() {
        let mut shares = Shares::new(Rate::new(600.0), vec![3.0, 2.0, 1.0]);
        [0, 1, 2, 2].into_iter().for_each(|class| shares.join(class));
        let rates = |shares: &Shares| [0, 1, 2].map(|class| shares.target(class));
        let expect = |rates: [f64; 3]| rates.map(|rate| FlowTarget::Throughput(Rate::new(rate)));
        assert_eq!(rates(&shares), expect([300.0, 200.0, 50.0]));
        shares.leave(2);
        assert_eq!(rates(&shares), expect([300.0, 200.0, 100.0]));
    }
}
