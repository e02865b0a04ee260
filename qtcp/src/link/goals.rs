//! The goal of each class on a link, and the target of each of its flows.
//!
//! Goals belong to classes, not to flows (docs/sources.md, E8: targets belong to classes): the
//! flows of a class share its target, so that a new flow takes from its own class only. A class
//! whose flows want less than their part leaves the rest to the others, in the ratio of their
//! shares.

use core::time::Duration;

use units::{Class, PerClass};

use crate::Rate;

/// The goal of a class on a congested link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ClassGoal {
    /// A share, relative to those of the other classes, of what the other goals leave: positive.
    Share(f64),
    /// A throughput.
    Rate(Rate),
    /// Round trips no longer than this, queues included.
    Latency(Duration),
    /// No goal: whatever its flows send.
    #[default]
    Free,
}

/// The demand of one flow, or of all flows of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// The throughput of the flow, or of all flows.
    pub(super) rate: Rate,
    /// The number of flows that would take more.
    pub(super) backlogged: u32,
    /// The throughput of the flows that have all they want.
    content: Rate,
}

impl Demand {
    /// Makes the demand of one flow; `fair` is its part of the class's target.
    #[inline]
    pub(super) fn of(rate: Rate, app_limited: bool, fair: Rate) -> Self {
        // A flow that has its part is held to it, even if it pauses now and then.
        if app_limited && (rate < fair.times(0.95) || rate == Rate::ZERO) {
            Self { rate, backlogged: 0, content: rate }
        } else {
            Self { rate, backlogged: 1, content: Rate::ZERO }
        }
    }

    #[inline]
    pub(super) fn put(&mut self, flow: &Self) {
        self.rate = self.rate + flow.rate;
        self.content = self.content + flow.content;
        self.backlogged += flow.backlogged;
    }

    #[inline]
    pub(super) fn take(&mut self, flow: &Self) {
        self.rate = self.rate - flow.rate;
        self.content = self.content - flow.content;
        self.backlogged = self.backlogged.saturating_sub(flow.backlogged);
    }
}

/// The target of a class, and of its flows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ClassTarget {
    /// The target of all flows together.
    whole: Rate,
    /// The target of each flow that would take more.
    flow: Rate,
}

/// The targets that follow from goals and demands.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    classes: PerClass<Option<ClassTarget>>,
    /// The class with the greatest target for a flow, of those with flows that would take more.
    filler: Option<Class>,
}

impl Targets {
    /// Returns the target of each flow of a class.
    #[inline]
    pub(super) fn of_flow(&self, class: Class) -> Option<Rate> {
        self.classes[class].map(|target| target.flow)
    }

    /// Returns the target of a class.
    pub(super) fn of_class(&self, class: Class) -> Option<Rate> {
        self.classes[class].map(|target| target.whole)
    }

    /// Tells whether a class is the one that takes what others leave.
    #[inline]
    pub(super) fn fills(&self, class: Class) -> bool {
        self.filler == Some(class)
    }

    /// Divides `lambda` among the classes. Classes that are free or have a latency to keep take
    /// what their flows send; then rates are served; what is left goes by shares to the classes
    /// that want it.
    pub(super) fn divide(
        &mut self,
        lambda: Rate,
        goals: &PerClass<ClassGoal>,
        demands: &PerClass<Demand>,
    ) {
        let mut left = lambda;
        let (mut all, mut backlogged, mut rates) = (0.0, 0.0, Rate::ZERO);
        for (class, demand) in demands.iter() {
            match goals[class] {
                ClassGoal::Free | ClassGoal::Latency(_) => left = left - demand.rate,
                ClassGoal::Rate(rate) if demand.backlogged > 0 => {
                    (left, rates) = (left - rate - missing(rate, demand), rates + rate);
                }
                ClassGoal::Rate(rate) => left = left - rate.min(demand.content),
                ClassGoal::Share(share) if demand.backlogged > 0 => {
                    (all, backlogged) = (all + share, backlogged + share);
                }
                ClassGoal::Share(share) if demand.content > Rate::ZERO => all += share,
                ClassGoal::Share(_) => {}
            }
        }
        // The throughput of content classes, up to their parts, is not shared by the others. Where
        // no class has anything, the shares sum up to 0, and the rate of NaN is zero.
        let mut taken = Rate::ZERO;
        for (class, demand) in demands.iter() {
            if let (ClassGoal::Share(share), 0) = (goals[class], demand.backlogged) {
                taken = taken + left.times(share / all).min(demand.content);
            }
        }
        let left = left - taken;
        // What no class with a share wants goes to those with a rate.
        let rates =
            if backlogged > 0.0 { 1.0 } else { 1.0 + left.bytes() / rates.bytes().max(1.0) };
        self.assign(left, backlogged, rates, goals, demands);
    }

    /// Sets the targets; `backlogged` is the sum of the shares of classes that want more, `rates`
    /// the multiple of their rates that classes with a rate may have.
    fn assign(
        &mut self,
        left: Rate,
        backlogged: f64,
        rates: f64,
        goals: &PerClass<ClassGoal>,
        demands: &PerClass<Demand>,
    ) {
        self.filler = None;
        let mut greatest = Rate::ZERO;
        for (class, demand) in demands.iter() {
            let whole = match goals[class] {
                ClassGoal::Free | ClassGoal::Latency(_) => {
                    self.classes[class] = None;
                    continue;
                }
                ClassGoal::Rate(rate) if demand.backlogged > 0 => rate.times(rates),
                ClassGoal::Rate(rate) => rate,
                ClassGoal::Share(share) if demand.backlogged > 0 => left.times(share / backlogged),
                // The class would have this if it wanted more.
                ClassGoal::Share(share) => {
                    (left + demand.content).times(share / (backlogged + share))
                }
            };
            let flow = flow_target(whole, demand);
            self.classes[class] = Some(ClassTarget { whole, flow });
            let by_share = matches!(goals[class], ClassGoal::Share(_));
            if by_share && demand.backlogged > 0 && flow > greatest {
                (self.filler, greatest) = (Some(class), flow);
            }
        }
    }
}

/// Computes the rate that others leave to a class beside its rate while it has less: the kernel's
/// answer to marks keeps a flow from taking exactly what is left to it.
fn missing(rate: Rate, demand: &Demand) -> Rate {
    (rate - demand.rate).min(rate.times(0.25))
}

/// Computes the part of each flow of a class that would take more: an even part of what content
/// flows leave, and half of an even part of the whole at the least, for content flows may grow.
fn flow_target(whole: Rate, demand: &Demand) -> Rate {
    if demand.backlogged == 0 {
        return whole;
    }
    let flows = 1.0 / f64::from(demand.backlogged);
    let (even, rest) = (whole.times(flows), (whole - demand.content).times(flows));
    rest.max(even.times(0.5))
}

#[cfg(test)]
mod tests {
    use super::super::model::per_class;
    use super::*;

    fn mbit(rate: f64) -> Rate {
        Rate::from_bits(rate * 1e6)
    }

    fn wants(rate: f64, flows: u32) -> Demand {
        Demand { rate: mbit(rate), backlogged: flows, content: Rate::ZERO }
    }

    fn content(rate: f64) -> Demand {
        Demand { rate: mbit(rate), backlogged: 0, content: mbit(rate) }
    }

    /// Divides a throughput by the goals of the first classes. Returns the targets of their flows
    /// in Mbit/s.
    fn targets(lambda: f64, goals: &[ClassGoal], demands: &[Demand]) -> Vec<Option<f64>> {
        let mut targets = Targets::default();
        targets.divide(mbit(lambda), &per_class(goals), &per_class(demands));
        let round = |rate: Rate| (rate.bits() / 1e4).round() / 100.0;
        Class::ALL.map(|class| targets.of_flow(class).map(round)).to_vec()
    }

    const THREE: [ClassGoal; 3] =
        [ClassGoal::Share(3.0), ClassGoal::Share(2.0), ClassGoal::Share(1.0)];

    #[test]
    fn e7_classes_have_their_shares_and_flows_their_part() {
        let all = [wants(70.0, 1), wants(60.0, 2), wants(50.0, 1)];
        assert_eq!(targets(180.0, &THREE, &all)[..3], [Some(90.0), Some(30.0), Some(30.0)]);
    }

    #[test]
    fn e8_what_a_class_does_not_want_goes_to_the_others_by_their_shares() {
        let idle = [content(0.0), wants(100.0, 1), wants(80.0, 1)];
        assert_eq!(targets(180.0, &THREE, &idle)[..3], [Some(90.0), Some(120.0), Some(60.0)]);
        let modest = [content(30.0), wants(100.0, 1), wants(50.0, 1)];
        assert_eq!(targets(180.0, &THREE, &modest)[..3], [Some(90.0), Some(100.0), Some(50.0)]);
    }

    #[test]
    fn e8_a_class_with_more_than_its_part_and_no_demand_is_counted_with_its_part() {
        let content_high = [content(100.0), wants(60.0, 1), wants(30.0, 1)];
        assert_eq!(
            targets(180.0, &THREE, &content_high)[..3],
            [Some(95.0), Some(60.0), Some(30.0)]
        );
        let other = [ClassGoal::Share(1.0), ClassGoal::Share(2.0), ClassGoal::Share(2.0)];
        let content_first = [content(50.0), wants(30.0, 1), wants(20.0, 1)];
        assert_eq!(targets(100.0, &other, &content_first)[1..3], [Some(40.0), Some(40.0)]);
    }

    #[test]
    fn a_class_that_has_less_than_its_rate_is_left_more() {
        let goals = [ClassGoal::Free, ClassGoal::Rate(mbit(40.0)), ClassGoal::Share(1.0)];
        let goals = per_class(&goals);
        for (has, left) in [(40.0, 60.0), (36.0, 56.0), (5.0, 50.0)] {
            let mut demands = PerClass::<Demand>::default();
            demands[Class::High] = wants(has, 1);
            demands[Class::Medium] = wants(100.0 - has, 1);
            let mut targets = Targets::default();
            targets.divide(mbit(100.0), &goals, &demands);
            assert_eq!(targets.of_class(Class::Medium), Some(mbit(left)), "{has}");
            assert_eq!(targets.of_class(Class::High), Some(mbit(40.0)));
        }
    }

    #[test]
    fn free_classes_and_rates_come_first() {
        let goals = [
            ClassGoal::Free,
            ClassGoal::Rate(mbit(40.0)),
            ClassGoal::Share(2.0),
            ClassGoal::Share(1.0),
        ];
        let all = [wants(20.0, 1), wants(50.0, 2), wants(50.0, 1), wants(60.0, 1)];
        assert_eq!(targets(180.0, &goals, &all), [None, Some(20.0), Some(80.0), Some(40.0)]);
    }

    #[test]
    fn a_rate_that_its_class_does_not_use_is_left_to_the_others() {
        let goals = [ClassGoal::Rate(mbit(40.0)), ClassGoal::Share(1.0)];
        let all = [content(10.0), wants(100.0, 1)];
        assert_eq!(targets(180.0, &goals, &all)[..2], [Some(40.0), Some(170.0)]);
        let more = [content(70.0), wants(100.0, 1)];
        assert_eq!(targets(180.0, &goals, &more)[..2], [Some(40.0), Some(140.0)]);
    }

    #[test]
    fn what_no_class_with_a_share_wants_goes_to_those_with_a_rate() {
        let goals =
            [ClassGoal::Rate(mbit(40.0)), ClassGoal::Rate(mbit(20.0)), ClassGoal::Share(1.0)];
        let two = [wants(60.0, 2), wants(60.0, 1), content(30.0)];
        assert_eq!(targets(180.0, &goals, &two)[..2], [Some(50.0), Some(50.0)]);
        let one = [wants(60.0, 1), content(5.0), content(30.0)];
        assert_eq!(targets(180.0, &goals, &one)[..2], [Some(145.0), Some(20.0)]);
        let too_much = [wants(60.0, 1), wants(60.0, 1), content(0.0)];
        assert_eq!(targets(50.0, &goals, &too_much)[..2], [Some(40.0), Some(20.0)]);
    }

    #[test]
    fn flows_that_want_more_share_what_content_flows_of_their_class_leave() {
        let some = |content: f64| Demand { content: mbit(content), ..wants(60.0, 2) };
        assert_eq!(targets(90.0, &[ClassGoal::Share(1.0)], &[some(30.0)])[0], Some(30.0));
        // Half of an even part stays, for the content ones may grow.
        assert_eq!(targets(90.0, &[ClassGoal::Share(1.0)], &[some(80.0)])[0], Some(22.5));
    }

    #[test]
    fn the_greatest_target_of_a_flow_with_a_share_fills_the_link() {
        let goals = PerClass {
            urgent: ClassGoal::Rate(mbit(90.0)),
            high: ClassGoal::Share(3.0),
            medium: ClassGoal::Share(2.0),
            low: ClassGoal::Share(1.0),
        };
        let mut demands = PerClass {
            urgent: wants(9.0, 1),
            high: wants(9.0, 4),
            medium: wants(9.0, 1),
            low: content(9.0),
        };
        let mut targets = Targets::default();
        targets.divide(mbit(180.0), &goals, &demands);
        let fillers = |targets: &Targets| Class::ALL.map(|class| targets.fills(class));
        assert_eq!(
            fillers(&targets),
            [false, false, true, false],
            "one flow of Medium, four of High"
        );
        // Of equal targets, that of the more urgent class fills the link.
        demands.high = wants(9.0, 1);
        let even = PerClass { medium: ClassGoal::Share(3.0), ..goals };
        targets.divide(mbit(180.0), &even, &demands);
        assert_eq!(fillers(&targets), [false, true, false, false]);
        demands.high = wants(9.0, 4);
        demands.medium = content(1.0);
        targets.divide(mbit(180.0), &goals, &demands);
        assert_eq!(fillers(&targets), [false, true, false, false]);
        demands.high = content(1.0);
        targets.divide(mbit(180.0), &goals, &demands);
        assert_eq!(fillers(&targets), [false; 4], "no class with a share wants more");
    }

    #[test]
    fn a_flow_that_pauses_below_its_part_is_content() {
        let fair = mbit(10.0);
        assert_eq!(Demand::of(mbit(9.4), true, fair), content(9.4));
        assert_eq!(Demand::of(mbit(9.6), true, fair), wants(9.6, 1), "it has its part");
        let (fair_hundred, nearly) = (Rate::new(100.0), Rate::new(95.0));
        assert_eq!(Demand::of(nearly, true, fair_hundred).backlogged, 1, "95 % of it are enough");
        assert_eq!(Demand::of(mbit(1.0), false, fair), wants(1.0, 1), "it never pauses");
        assert_eq!(Demand::of(Rate::ZERO, true, Rate::ZERO), content(0.0));
        assert_eq!(Demand::of(mbit(1.0), true, Rate::ZERO), wants(1.0, 1), "no part is known yet");
    }

    #[test]
    fn a_class_s_demand_is_the_sum_of_its_flows() {
        let mut all = wants(5.0, 2);
        all.put(&content(3.0));
        assert_eq!(all, Demand { rate: mbit(8.0), backlogged: 2, content: mbit(3.0) });
        all.put(&wants(1.0, 1));
        assert_eq!(all.backlogged, 3);
        all.take(&content(3.0));
        all.take(&wants(5.0, 2));
        assert_eq!(all, wants(1.0, 1));
        all.take(&wants(9.0, 9));
        assert_eq!(all, wants(0.0, 0), "never below nothing");
    }
}
