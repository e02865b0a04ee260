//! Tests of single decisions of a link: observations of a few flows in, their standings out.

use core::time::Duration;

use units::{Class, PerClass};

use super::{ClassFlowId, ClassGoal, Link, Rules, Standing};
use crate::{Nanos, Observation, Rate};

const MS: u64 = 1_000_000;

fn mbit(rate: f64) -> Rate {
    Rate::from_bits(rate * 1e6)
}

/// Makes what a flow saw in one second at a rate in Mbit/s, after which averages have forgotten
/// what was before.
fn seen(rate: u32, marked: bool) -> Observation {
    Observation {
        interval: Duration::from_secs(1),
        marked: if marked { 100 } else { 0 },
        bytes: u64::from(rate) * 125_000,
        ..Observation::SEEN
    }
}

fn near(rate: Rate, expected: f64) -> bool {
    (rate.bits() / 1e6 / expected - 1.0).abs() < 0.02
}

/// A flow of High with a share of 3, and one of Low with a share of 1.
struct Two {
    link: Link,
    high: ClassFlowId,
    low: ClassFlowId,
}

impl Two {
    fn new(capacity: Option<f64>) -> Self {
        let goals = PerClass {
            high: ClassGoal::Share(3.0),
            low: ClassGoal::Share(1.0),
            ..PerClass::default()
        };
        // These tests are not about smoothing.
        let rules = Rules {
            smoothing: Duration::ZERO,
            patience: Duration::from_millis(1),
            ..Rules::default()
        };
        let mut link = Link::new(goals, capacity.map(mbit), rules);
        let (high, low) = (link.add(Class::High), link.add(Class::Low));
        Self { link, high, low }
    }

    /// Observes both flows twice: by the first observation the link comes to know of both.
    fn observe(&mut self, now: u64, high: Observation, low: Observation) -> (Standing, Standing) {
        let now = Nanos(now);
        self.link.observe(self.low, now, &low);
        self.link.observe(self.high, now, &high);
        let low = self.link.observe(self.low, now, &low);
        (self.link.observe(self.high, now, &high), low)
    }

    /// Observes both flows at first and a millisecond later, when that has been congestion for long
    /// enough to tell what the link carries.
    fn known(&mut self, high: Observation, low: Observation) -> (Standing, Standing) {
        self.observe(0, high, low);
        self.observe(MS, high, low)
    }
}

#[test]
fn e7_a_flow_above_its_target_is_held_to_it_while_there_are_marks() {
    let mut two = Two::new(None);
    let (high, low) = two.known(seen(50, true), seen(50, true));
    assert!(near(high.target.unwrap(), 75.0) && near(low.target.unwrap(), 25.0));
    assert!(near(high.rate, 50.0) && near(low.rate, 50.0));
    assert!((high.quality - 1.5).abs() < 0.02 && (low.quality - 0.5).abs() < 0.02);
    assert!((low.alpha - 1.0).abs() < 1e-9, "{low:?}");
    assert_eq!(high.limit, None);
    let limit = low.limit.unwrap();
    assert!(limit >= mbit(22.0) && limit < mbit(28.0), "{limit:?}");
    assert!(near(two.link.estimate(), 100.0));
    assert!(near(two.link.class_target(Class::High).unwrap(), 75.0));
    assert_eq!(two.link.class_target(Class::Medium), None);
}

#[test]
fn no_flow_is_limited_without_marks() {
    let mut two = Two::new(None);
    let (high, low) = two.known(seen(10, false), seen(90, false));
    assert_eq!((high.limit, low.limit), (None, None));
    assert_eq!(two.link.estimate(), Rate::ZERO, "it was never congested");
}

#[test]
fn e7_no_flow_is_limited_before_it_is_known_what_the_link_carries() {
    let mut two = Two::new(None);
    let (high, low) = two.observe(0, seen(50, true), seen(50, true));
    assert_eq!((high.limit, low.limit), (None, None));
}

#[test]
fn e7_the_class_with_the_greatest_target_is_held_to_it_too() {
    let mut two = Two::new(None);
    let (high, low) = two.known(seen(90, true), seen(10, true));
    let limit = high.limit.unwrap();
    assert!(limit >= mbit(66.0) && limit < mbit(78.0), "{high:?}");
    assert_eq!(low.limit, None);
}

#[test]
fn e7_a_class_is_not_held_back_for_those_who_want_no_more() {
    let mut two = Two::new(None);
    let content = Observation { app_limited: true, ..seen(10, true) };
    let (high, _) = two.known(seen(90, true), content);
    assert_eq!(high.limit, None);
}

#[test]
fn e8_the_class_with_the_greatest_target_is_not_held_where_others_take_what_it_leaves() {
    let mut two = Two::new(None);
    two.known(seen(160, true), seen(40, true));
    let mut limits = Vec::new();
    for ms in [100, 500, 700, 5000] {
        let (high, low) = two.observe(ms * MS, seen(80, true), seen(20, true));
        limits.push((high.limit.is_some(), low.limit.is_some()));
    }
    assert_eq!(limits, [(true, false), (true, false), (false, false), (false, false)]);
}

#[test]
fn a_link_that_has_lost_all_flows_is_measured_from_the_beginning() {
    let mut two = Two::new(None);
    two.known(seen(50, true), seen(50, true));
    two.link.remove(two.low);
    two.link.remove(two.high);
    (two.high, two.low) = (two.link.add(Class::High), two.link.add(Class::Low));
    let (high, low) = two.observe(2 * MS, seen(1, true), seen(1, true));
    assert_eq!((high.limit, low.limit), (None, None));
}

#[test]
fn a_given_capacity_is_shared_without_marks() {
    let mut two = Two::new(Some(100.0));
    let (high, low) = two.observe(0, seen(50, false), seen(46, false));
    assert_eq!((high.limit, low.limit), (None, None), "there is room");
    let (high, low) = two.observe(MS, seen(49, false), seen(49, false));
    assert!(near(high.limit.unwrap(), 75.0) && near(low.limit.unwrap(), 25.0), "{high:?} {low:?}");
    let (_, low) = two.observe(2 * MS, seen(60, false), seen(60, false));
    assert!(near(low.limit.unwrap(), 25.0), "of the capacity, not of what goes through: {low:?}");
    assert!(near(two.link.estimate(), 100.0));
}

#[test]
fn beyond_a_given_capacity_all_are_held_before_it_is_known_what_the_link_carries() {
    let mut two = Two::new(Some(100.0));
    let (high, _) = two.observe(0, seen(66, true), seen(44, true));
    assert!(high.limit.is_some_and(|limit| near(limit, 75.0)), "110 of 100: {high:?}");
    let mut two = Two::new(Some(120.0));
    let (high, _) = two.observe(0, seen(66, true), seen(44, true));
    assert_eq!(high.limit, None, "110 of 120: {high:?}");
}

#[test]
fn goals_that_change_count_at_once() {
    let mut two = Two::new(None);
    two.known(seen(50, true), seen(50, true));
    let goals = PerClass {
        high: ClassGoal::Rate(mbit(30.0)),
        low: ClassGoal::Latency(Duration::from_micros(500)),
        ..PerClass::default()
    };
    two.link.configure(goals, None);
    let (high, low) = two.observe(2 * MS, seen(50, true), seen(50, true));
    assert!(near(high.target.unwrap(), 50.0), "all that Low leaves: {high:?}");
    assert_eq!(low.target, None);
    assert!((low.quality - 2.0).abs() < 1e-9, "a round trip of 1 ms: {low:?}");
}

/// A link of 100 Mbit/s with a flow of Urgent, whose latency is to be below 500 us, and one of Low.
fn beside_a_latency() -> (Link, ClassFlowId, ClassFlowId) {
    let goals = PerClass {
        urgent: ClassGoal::Latency(Duration::from_micros(500)),
        low: ClassGoal::Share(1.0),
        ..PerClass::default()
    };
    let rules = Rules { smoothing: Duration::ZERO, ..Rules::default() };
    let mut link = Link::new(goals, Some(mbit(100.0)), rules);
    let (urgent, low) = (link.add(Class::Urgent), link.add(Class::Low));
    (link, urgent, low)
}

#[test]
fn e9_while_a_latency_is_missed_the_others_have_less_and_less() {
    let (mut link, urgent, low) = beside_a_latency();
    let mut targets = Vec::new();
    for ms in (0..400).step_by(10) {
        link.observe(urgent, Nanos(ms * MS), &seen(0, true));
        targets.extend(link.observe(low, Nanos(ms * MS), &seen(90, true)).target);
    }
    assert!(targets[1..].is_sorted_by(|a, b| a >= b), "{targets:?}");
    // 2 in a second, down to a half.
    assert!(near(targets[10], 80.0) && near(targets[39], 50.0), "{targets:?}");
    let silent = link.observe(low, Nanos(1400 * MS), &seen(90, true)).target.unwrap();
    assert!(near(silent, 90.0), "nothing is kept for a class that is silent: {silent:?}");
}

#[test]
fn e9_a_round_trip_time_without_packets_keeps_nothing_empty() {
    let (mut link, urgent, low) = beside_a_latency();
    for ms in (0..400).step_by(10) {
        let silent = Observation { delivered: 0, ..seen(0, false) };
        link.observe(urgent, Nanos(ms * MS), &silent);
        let target = link.observe(low, Nanos(ms * MS), &seen(90, true)).target.unwrap();
        assert!(target >= mbit(90.0), "{ms} ms: {target:?}");
    }
}

#[test]
fn e9_a_latency_that_is_missed_is_no_deficit_of_throughput() {
    let goals = PerClass {
        urgent: ClassGoal::Latency(Duration::from_micros(500)),
        high: ClassGoal::Share(3.0),
        low: ClassGoal::Share(1.0),
        ..PerClass::default()
    };
    let rules =
        Rules { smoothing: Duration::ZERO, patience: Duration::from_millis(1), ..Rules::default() };
    let mut link = Link::new(goals, None, rules);
    let [urgent, high, low] = [Class::Urgent, Class::High, Class::Low].map(|class| link.add(class));
    let content = Observation { app_limited: true, ..seen(10, true) };
    // At one time: nothing of the link is kept empty for the latency yet.
    for _ in 0..2 {
        let missed = link.observe(urgent, Nanos(0), &seen(1, true));
        assert!(missed.quality > 1.5, "{missed:?}");
        link.observe(low, Nanos(0), &content);
        let high = link.observe(high, Nanos(0), &seen(90, true));
        assert_eq!(high.limit, None, "no flow is below a throughput that it should have: {high:?}");
    }
}

#[test]
fn a_flow_that_is_gone_has_nothing() {
    let mut two = Two::new(None);
    two.known(seen(50, true), seen(50, true));
    two.link.remove(two.low);
    let high = two.link.observe(two.high, Nanos(1000 * MS), &seen(50, true));
    assert!(near(high.target.unwrap(), 50.0), "all of what goes through: {high:?}");
    assert_eq!(two.link.observe(two.low, Nanos(MS), &seen(50, true)), Standing::default());
    two.link.remove(two.low);
}
