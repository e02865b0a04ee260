//! The targets of classes, and of each of their flows.

use crate::models::law::Lambda;
use qtcp::Rate;
use sluice_sim::control::FlowTarget;

/// The weight of the old value in the smoothed throughput of all flows together.
const SMOOTHING: f64 = 0.75;

/// The classes of a bottleneck, which share its capacity.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// The throughput to share.
    capacity: Rate,
    /// The share of each class, relative to the others: all its flows together.
    shares: Vec<f64>,
    /// The number of flows of each class.
    flows: Vec<u32>,
    /// The bandwidth that is left to the classes, where it is found out (Fig. 15a).
    lambda: Option<Lambda>,
    /// The smoothed throughput of all flows of classes together, in bytes per second.
    had: Option<f64>,
}

impl Shares {
    pub(crate) fn new(capacity: Rate, shares: Vec<f64>) -> Self {
        let flows = vec![0; shares.len()];
        Self { capacity, shares, flows, lambda: None, had: None }
    }

    /// Enables the detection of the capacity that is left to the classes, with one lambda for all flows.
    pub(crate) fn detect(&mut self, sigma: f64, floor: f64) {
        self.lambda = Some(Lambda::new(self.capacity, sigma, floor));
    }

    /// Notes the throughput of all flows of classes together in a round trip, in bytes per second, and whether their
    /// packets were marked. Returns whether targets have changed.
    pub(crate) fn note(&mut self, rate: f64, marked: bool) -> bool {
        let had = self.had.map_or(rate, |had| SMOOTHING * had + (1.0 - SMOOTHING) * rate);
        self.had = Some(had);
        let Some(lambda) = self.lambda.as_mut().filter(|_| marked) else { return false };
        let before = lambda.share();
        lambda.note(lambda.rate().bytes() / had.max(1.0));
        lambda.share() != before
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

    pub(crate) fn classes(&self) -> usize {
        self.shares.len()
    }

    /// Computes the target of a flow: the target of a class is shared by its flows.
    pub(crate) fn target(&self, class: usize) -> FlowTarget {
        let (Some(share), Some(&flows)) = (self.shares.get(class), self.flows.get(class)) else {
            return FlowTarget::None;
        };
        let part = share / self.shares.iter().sum::<f64>() / f64::from(flows.max(1));
        let target = FlowTarget::Throughput(self.capacity.times(part));
        self.lambda.map_or(target, |lambda| lambda.part(target))
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

    #[test]
    fn e8_all_targets_fall_alike_while_others_take_bandwidth_and_come_back() {
        let mut shares = Shares::new(Rate::new(600.0), vec![3.0, 2.0, 1.0]);
        [0, 1, 2].into_iter().for_each(|class| shares.join(class));
        shares.detect(0.05, 0.01);
        assert!(!shares.note(300.0, false), "nothing is marked, so nobody is in the way");
        assert!(!shares.note(590.0, true) || shares.had.is_some_and(|had| had < 570.0));
        for _ in 0..40 {
            shares.note(300.0, true);
        }
        let rate = |class| match shares.target(class) {
            FlowTarget::Throughput(rate) => rate.bytes(),
            _ => 0.0,
        };
        assert!((rate(0) / rate(2) - 3.0).abs() < 1e-9 && rate(0) < 165.0, "{}", rate(0));
        for _ in 0..40 {
            shares.note(600.0, true);
        }
        let FlowTarget::Throughput(back) = shares.target(0) else { panic!("no target") };
        assert!(back.bytes() > 280.0, "{back:?}");
    }
}
