//! Tests of single decisions: observations of two flows in, their limits out.

use core::time::Duration;

use units::Class;

use super::model::per_class;
use super::{ClassFlowId, ClassGoal, Link, Rules};
use crate::{Nanos, Observation, Rate};

/// What a flow saw in 5 ms.
#[derive(Clone, Copy)]
struct Look {
    mbit: f64,
    marked: bool,
    backlogged: bool,
}

const FULL: Look = Look { mbit: 50.0, marked: true, backlogged: true };

/// Lets a flow of High, with three parts, and one of Low, with one, see the same for a time. Returns their limits in
/// Mbit/s after each look.
fn limits(
    link: &mut Link,
    looks: core::ops::Range<u64>,
    [high, low]: [Look; 2],
    flows: [ClassFlowId; 2],
) -> Vec<[Option<f64>; 2]> {
    let seen = |look: Look| Observation {
        interval: Duration::from_millis(5),
        delivered: 20,
        marked: if look.marked { 5 } else { 0 },
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test's number"
        )]
        bytes: (look.mbit * 625.0) as u64,
        app_limited: !look.backlogged,
        ..Observation::SEEN
    };
    let looks = looks.map(|look| {
        let now = Nanos(look * 5_000_000);
        [(flows[0], high), (flows[1], low)].map(|(flow, look)| {
            link.observe(flow, now, &seen(look)).limit.map(|limit| limit.bits() / 1e6)
        })
    });
    looks.collect()
}

fn high_and_low() -> (Link, [ClassFlowId; 2]) {
    let goals = [ClassGoal::Free, ClassGoal::Share(3.0), ClassGoal::Free, ClassGoal::Share(1.0)];
    let mut link = Link::new(per_class(&goals), None, Rules::default());
    let flows = [Class::High, Class::Low].map(|class| link.add(class));
    (link, flows)
}

/// Lets Low have what its limit allows, of 100 Mbit/s, and High the rest. Returns Low's limits.
fn give_way(link: &mut Link, flows: [ClassFlowId; 2]) -> Vec<f64> {
    let (mut low, mut seen) = (50.0_f64, Vec::new());
    for look in 0..400 {
        let high = Look { mbit: 100.0 - low, ..FULL };
        let [high, limit] =
            limits(link, look..look + 1, [high, Look { mbit: low, ..FULL }], flows)[0];
        assert!(high.is_none_or(|high| high > 70.0), "High has less for each part: {high:?}");
        seen.extend(limit);
        low = limit.unwrap_or(50.0).min(50.0);
    }
    seen
}

#[test]
fn e7_who_has_more_for_its_share_comes_down_and_who_has_less_is_never_limited() {
    let (mut link, flows) = high_and_low();
    let low = give_way(&mut link, flows);
    assert!(low[0] > 47.0, "from what it has: {low:?}");
    assert!(low.windows(2).all(|two| two[1] > two[0] * 0.97), "by small steps: {low:?}");
    assert!((low[low.len() - 1] / 25.0 - 1.0).abs() < 0.03, "{low:?}");
    assert!(link.is_backlogged(Class::High));
}

#[test]
fn e7_nobody_is_limited_without_marks_or_beside_who_wants_no_more() {
    for high in [
        Look { marked: false, ..FULL },
        Look { backlogged: false, ..FULL },
        Look { marked: false, backlogged: false, ..FULL },
    ] {
        let (mut link, flows) = high_and_low();
        let seen = limits(&mut link, 0..300, [high, FULL], flows);
        assert!(seen.iter().all(|limits| *limits == [None; 2]));
        assert_eq!(link.held_for(Class::Low), None);
    }
}

#[test]
fn e8_limits_are_gone_half_a_second_after_the_last_mark() {
    let (mut link, flows) = high_and_low();
    give_way(&mut link, flows);
    let calm = [75.0, 25.0].map(|mbit| Look { mbit, marked: false, ..FULL });
    let seen = limits(&mut link, 400..500, calm, flows);
    assert!(seen[5][1].is_some(), "a full link has such pauses");
    assert_eq!(seen[99], [None; 2]);
}

/// A capacity is not exceeded either where no class has a share.
#[test]
fn e8_a_capacity_holds_where_all_classes_have_rates() {
    for (rates, parts) in [([16.0, 4.0], [15.0, 5.0]), ([6.0, 2.0], [15.0, 5.0])] {
        let rate = |mbit: f64| ClassGoal::Rate(Rate::from_bits(mbit * 1e6));
        let goals = [ClassGoal::Free, rate(rates[0]), ClassGoal::Free, rate(rates[1])];
        let capacity = Some(Rate::from_bits(20e6));
        let mut link = Link::new(per_class(&goals), capacity, Rules::default());
        let flows = [Class::High, Class::Low].map(|class| link.add(class));
        let mut had = [15.0_f64, 15.0];
        for look in 0..600 {
            let looks = had.map(|mbit| Look { mbit, marked: false, ..FULL });
            let limits = limits(&mut link, look..look + 1, looks, flows)[0];
            had = limits.map(|limit| limit.unwrap_or(15.0).min(15.0));
        }
        let sum: f64 = had.iter().sum();
        assert!(sum < 22.0, "{rates:?}: {had:?}");
        for (had, part) in had.into_iter().zip(parts) {
            assert!((had / part - 1.0).abs() < 0.15, "{rates:?}: {had}");
        }
    }
}

/// High is held back by something else than the network, though it sees marks: what Low gives up reaches nobody.
#[test]
fn e8_limits_that_help_nobody_are_lifted() {
    let (mut link, flows) = high_and_low();
    let (mut low, mut lost, mut looks) = (90.0, 0.0, 0);
    for second in 0..20 {
        for look in 0..200 {
            let at = second * 200 + look;
            let slow = Look { mbit: 10.0, ..FULL };
            let seen = limits(&mut link, at..at + 1, [slow, Look { mbit: low, ..FULL }], flows);
            low = seen[0][1].unwrap_or(90.0).min(90.0);
            (lost, looks) = (lost + 90.0 - low, looks + 1);
        }
    }
    let lost = lost / f64::from(looks) / 90.0;
    assert!(lost < 0.06, "{lost} of what Low might have");
}
