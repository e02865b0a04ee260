//! Tests of single decisions: observations of two flows in, their limits out.

use core::time::Duration;

use units::Class;

use super::model::per_class;
use super::{ClassFlowId, ClassGoal, Link, RecentMost, Rules, Standing};
use crate::{Nanos, Observation, Rate};

/// The observation of a flow over 5 ms.
#[derive(Clone, Copy)]
struct Look {
    mbit: f64,
    marked: bool,
    backlogged: bool,
}

const FULL: Look = Look { mbit: 50.0, marked: true, backlogged: true };

/// Runs a flow of High, with three parts, and a flow of Low, with one, with constant observations. Returns their limits
/// in Mbit/s after each look.
fn limits(
    link: &mut Link,
    looks: core::ops::Range<u64>,
    [high, low]: [Look; 2],
    flows: [ClassFlowId; 2],
) -> Vec<[Option<f64>; 2]> {
    let looks = looks.map(|look| {
        let now = Nanos(look * 5_000_000);
        [(flows[0], high), (flows[1], low)].map(|(flow, look)| {
            observe(link, flow, now, look).limit.map(|limit| limit.bits() / 1e6)
        })
    });
    looks.collect()
}

/// Adds an observation of a flow.
fn observe(link: &mut Link, flow: ClassFlowId, now: Nanos, look: Look) -> Standing {
    let seen = Observation {
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
    link.observe(flow, now, &seen)
}

const GOALS: [ClassGoal; 4] =
    [ClassGoal::Free, ClassGoal::Share(3.0), ClassGoal::Free, ClassGoal::Share(1.0)];

fn high_and_low(capacity: Option<Rate>) -> (Link, [ClassFlowId; 2]) {
    let mut link = Link::new(per_class(&GOALS), capacity, Rules::default());
    let flows = [Class::High, Class::Low].map(|class| link.add(class));
    (link, flows)
}

/// Runs Low at its limit, of 100 Mbit/s, and High at the rest; `marked`: both see marks. Returns Low's limits.
fn give_way(link: &mut Link, flows: [ClassFlowId; 2], marked: bool) -> Vec<f64> {
    let (mut low, mut seen) = (50.0_f64, Vec::new());
    for look in 0..400 {
        let looks = [100.0 - low, low].map(|mbit| Look { mbit, marked, ..FULL });
        let [high, limit] = limits(link, look..look + 1, looks, flows)[0];
        let for_itself = |class| link.held_for(class) == Some(class);
        assert!(!for_itself(Class::High) && !for_itself(Class::Low));
        assert!(high.is_none_or(|high| high > 70.0), "High has less for each part: {high:?}");
        seen.extend(limit);
        low = limit.unwrap_or(50.0).min(50.0);
    }
    seen
}

#[test]
fn e7_only_classes_above_share_are_limited() {
    let (mut link, flows) = high_and_low(None);
    let low = give_way(&mut link, flows, true);
    assert!(low[0] > 47.0, "from what it has: {low:?}");
    assert!(low.windows(2).all(|two| two[1] > two[0] * 0.97), "by small steps: {low:?}");
    assert!((low[low.len() - 1] / 25.0 - 1.0).abs() < 0.04, "{low:?}");
    assert!(link.is_backlogged(Class::High));
}

#[test]
fn e7_no_limits_without_marks_or_demand() {
    for high in [
        Look { marked: false, ..FULL },
        Look { backlogged: false, ..FULL },
        Look { marked: false, backlogged: false, ..FULL },
    ] {
        let (mut link, flows) = high_and_low(None);
        let seen = limits(&mut link, 0..300, [high, FULL], flows);
        assert!(seen.iter().all(|limits| *limits == [None; 2]));
        assert_eq!(link.held_for(Class::Low), None);
    }
}

#[test]
fn e8_limits_end_half_second_after_last_mark() {
    let (mut link, flows) = high_and_low(None);
    give_way(&mut link, flows, true);
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

/// Runs Low at its limit of 90 Mbit/s for 20 seconds. High is held to 10 by something else than the network, though it
/// sees marks. Urgent has so many Mbit/s in every second period of so many looks of `bursts`. Returns the part of 90
/// that Low has lost in each second but the first two.
fn lost_beside_unhelpable_class(bursts: Option<(f64, u64)>) -> Vec<f64> {
    let mut goals = GOALS;
    goals[0] = ClassGoal::Share(1.0);
    let mut link = Link::new(per_class(&goals), None, Rules::default());
    let [urgent, high, low] = [Class::Urgent, Class::High, Class::Low].map(|class| link.add(class));
    let mut had = 90.0;
    let mut second = |from: u64| {
        let lost = (from..from + 200).map(|at| {
            if let Some((burst, looks)) = bursts {
                let wants = (at / looks).is_multiple_of(2);
                let mbit = if wants { burst } else { 0.0 };
                let burst = Look { mbit, marked: wants, backlogged: wants };
                observe(&mut link, urgent, Nanos(at * 5_000_000), burst);
            }
            let seen = [Look { mbit: 10.0, ..FULL }, Look { mbit: had, ..FULL }];
            had = limits(&mut link, at..at + 1, seen, [high, low])[0][1].unwrap_or(90.0).min(90.0);
            1.0 - had / 90.0
        });
        lost.sum::<f64>() / 200.0
    };
    (0..20).map(|number| second(number * 200)).skip(2).collect()
}

/// After three tries that helped nobody, Low loses little for another one.
#[test]
fn e8_limits_that_help_nobody_are_lifted() {
    let lost = lost_beside_unhelpable_class(None);
    assert!(lost.iter().sum::<f64>() / 18.0 < 0.03, "{lost:.3?} of what Low might have");
    assert!(lost[3..].iter().all(|lost| *lost < 0.055), "{lost:.3?} of what Low might have");
}

/// Flows that come and go do not erase the finding that Low's sacrifice has reached no flow.
#[test]
fn e8_useless_limits_are_lifted_beside_intermittent_class() {
    for burst in [0.2, 1.0, 5.0, 10.0, 20.0] {
        for looks in [1, 4, 10, 20, 50, 100, 200, 400] {
            let lost = lost_beside_unhelpable_class(Some((burst, looks)));
            let mean = lost.iter().sum::<f64>() / 18.0;
            assert!(mean < 0.09, "{lost:.3?} with {burst} Mbit/s for {looks} looks");
        }
    }
}

/// Medium comes while nobody gives way to High any longer, since nothing reaches it.
#[test]
fn e7_unhelpable_class_costs_no_other_its_share() {
    let mut goals = GOALS;
    goals[2] = ClassGoal::Share(1.0);
    let mut link = Link::new(per_class(&goals), None, Rules::default());
    let [high, medium, low] = [Class::High, Class::Medium, Class::Low].map(|class| link.add(class));
    let mut had = 90.0_f64;
    for at in 0..4600 {
        let slow = Look { mbit: 10.0, ..FULL };
        let (now, others) = (Nanos(at * 5_000_000), had.min(if at < 4000 { 90.0 } else { 70.0 }));
        if at >= 4000 {
            observe(&mut link, medium, now, Look { mbit: 90.0 - others, ..FULL });
        }
        let seen = [slow, Look { mbit: others, ..FULL }];
        had = limits(&mut link, at..at + 1, seen, [high, low])[0][1].unwrap_or(90.0);
    }
    assert!(
        (had / 45.0 - 1.0).abs() < 0.1,
        "Low has {had} of 90 beside Medium with the same share"
    );
}

/// High has a second host, on this machine or behind another port, whose data meets no queue. Returns what High's
/// other host and Low have of the 100 Mbit/s of a full link at the end of some looks.
fn beside_another_way(is_local: bool, looks: u64) -> [f64; 2] {
    let (mut link, flows) = high_and_low(None);
    let elsewhere = if is_local { link.add_local(Class::High) } else { link.add(Class::High) };
    let mut low = 50.0_f64;
    for at in 0..looks {
        let free = Look { mbit: 1000.0, marked: false, backlogged: at % 200 < 100 };
        let standing = observe(&mut link, elsewhere, Nanos(at * 5_000_000), free);
        assert_eq!(standing.limit, None);
        let looks = [100.0 - low, low].map(|mbit| Look { mbit, ..FULL });
        let [high, limit] = limits(&mut link, at..at + 1, looks, flows)[0];
        assert!(high.is_none_or(|high| high > 70.0), "High has less for each part: {high:?}");
        low = limit.unwrap_or(50.0).min(50.0);
    }
    [100.0 - low, low]
}

#[test]
fn e7_use_of_other_path_leaves_share_intact() {
    for (is_local, looks) in [(true, 400), (false, 3000)] {
        let [high, low] = beside_another_way(is_local, looks);
        assert!((low / 25.0 - 1.0).abs() < 0.05, "High has {high}, Low {low}");
    }
}

#[test]
fn e7_a_given_capacity_is_shared_without_marks() {
    let capacity = Some(Rate::from_bits(100e6));
    let (mut link, flows) = high_and_low(capacity);
    let room = [50.0, 46.0].map(|mbit| Look { mbit, marked: false, ..FULL });
    let seen = limits(&mut link, 0..300, room, flows);
    assert!(seen.iter().all(|limits| *limits == [None; 2]), "there is room");
    let (mut link, flows) = high_and_low(capacity);
    let low = give_way(&mut link, flows, false);
    assert!((low[low.len() - 1] / 25.0 - 1.0).abs() < 0.05, "{low:?}");
}

/// The unwanted use of the largest class is left to the others: High was held to its part of a
/// capacity, and then wants a little less.
#[test]
fn e8_capacity_is_used_beside_class_wanting_less() {
    let (mut link, flows) = high_and_low(Some(Rate::from_bits(100e6)));
    let mut had = [80.0_f64, 60.0];
    for at in 0..800 {
        let wants = if at < 400 { 80.0 } else { 60.0 };
        let seen = [Look { mbit: had[0].min(wants), marked: false, backlogged: had[0] < wants }, {
            Look { mbit: had[1], marked: false, backlogged: true }
        }];
        let limits = limits(&mut link, at..at + 1, seen, flows)[0];
        had = [limits[0].unwrap_or(80.0).min(wants), limits[1].unwrap_or(60.0).min(60.0)];
        assert!(at != 399 || had[1] < 30.0, "shares: {had:?}");
    }
    assert!(had[0] > 59.0 && (36.0..42.0).contains(&had[1]), "{had:?}");
}

/// High is to have 50 and is slow itself.
#[test]
fn e8_capacity_is_used_beside_class_below_rate() {
    let rate = |mbit: f64| Rate::from_bits(mbit * 1e6);
    let goals =
        [ClassGoal::Free, ClassGoal::Rate(rate(50.0)), ClassGoal::Free, ClassGoal::Share(1.0)];
    let mut link = Link::new(per_class(&goals), Some(rate(100.0)), Rules::default());
    let flows = [Class::High, Class::Low].map(|class| link.add(class));
    let (mut high, mut low, mut parts) = (10.0_f64, 90.0_f64, Vec::new());
    for at in 0..800 {
        // From the fourth hundred on it is fast enough.
        let most = if at < 400 { 10.0 } else { 60.0 };
        let seen = [high, low].map(|mbit| Look { mbit, marked: false, backlogged: true });
        low = limits(&mut link, at..at + 1, seen, flows)[0][1].unwrap_or(95.0).min(95.0);
        high = (100.0 - low).min(most);
        parts.push(low);
    }
    assert!(parts[300] > 75.0, "of what High does not take: {parts:?}");
    assert!((parts[799] / 50.0 - 1.0).abs() < 0.05, "{parts:?}");
}

/// Low has a rate, and gives way to High; then High wants little, for long, and then its full share
/// again.
#[test]
fn e8_class_with_rate_uses_unwanted_share() {
    let goals = [
        ClassGoal::Free,
        ClassGoal::Share(1.0),
        ClassGoal::Free,
        ClassGoal::Rate(Rate::from_bits(20e6)),
    ];
    let mut link = Link::new(per_class(&goals), None, Rules::default());
    let flows = [Class::High, Class::Low].map(|class| link.add(class));
    let (mut had, mut seen) = (50.0_f64, Vec::new());
    for at in 0..16_000 {
        let wants_more = !(400..15_000).contains(&at);
        let high = if wants_more { 100.0 - had } else { 10.0 };
        let looks =
            [Look { mbit: high, marked: true, backlogged: wants_more }, Look { mbit: had, ..FULL }];
        had = limits(&mut link, at..at + 1, looks, flows)[0][1].unwrap_or(90.0).min(90.0);
        seen.push(had);
    }
    let near = |at: usize, mbit: f64| (seen[at] / mbit - 1.0).abs() < 0.12;
    assert!(near(399, 20.0), "it gives way: {}", seen[399]);
    assert!(near(800, 90.0), "two seconds later it has what is left: {}", seen[800]);
    assert!(near(14_999, 90.0) && near(15_999, 20.0), "{} {}", seen[14_999], seen[15_999]);
}

#[test]
fn goals_that_change_count_at_once() {
    let (mut link, flows) = high_and_low(None);
    give_way(&mut link, flows, true);
    let goals = [
        ClassGoal::Free,
        ClassGoal::Rate(Rate::from_bits(30e6)),
        ClassGoal::Free,
        ClassGoal::Latency(Duration::from_micros(500)),
    ];
    link.configure(per_class(&goals), None);
    let seen = Observation { marked: 5, ..Observation::SEEN };
    let [high, low] = flows.map(|flow| link.observe(flow, Nanos(2_000_000_000), &seen));
    assert_eq!(high.target, Some(Rate::from_bits(30e6)));
    assert!(low.is_free && low.target.is_none() && low.limit.is_none(), "{low:?}");
    assert!((low.quality - 2.0).abs() < 1e-9, "a round trip of 1 ms: {low:?}");
}

#[test]
fn removed_flow_has_no_effect() {
    let (mut link, flows) = high_and_low(None);
    give_way(&mut link, flows, true);
    link.remove(flows[0]);
    let seen = Observation { marked: 5, ..Observation::SEEN };
    assert_eq!(link.observe(flows[0], Nanos(2_000_000_000), &seen), Standing::default());
    link.remove(flows[0]);
    let alone = (400..500).map(|look| link.observe(flows[1], Nanos(look * 5_000_000), &seen).limit);
    assert_eq!(alone.last(), Some(None));
}

/// Misses a latency goal of Urgent for 400 ms, with `delivered` packets in each look, beside Low, which has 90 of a
/// capacity of 100 Mbit/s. Returns Low's targets in Mbit/s, and the target a second after Urgent's last look.
fn beside_a_latency(delivered: u32) -> (Vec<f64>, Option<f64>) {
    let latency = ClassGoal::Latency(Duration::from_micros(500));
    let goals = [latency, ClassGoal::Free, ClassGoal::Free, ClassGoal::Share(1.0)];
    let mut link = Link::new(per_class(&goals), Some(Rate::from_bits(100e6)), Rules::default());
    let [urgent, low] = [Class::Urgent, Class::Low].map(|class| link.add(class));
    let seen = |bytes| Observation { bytes, interval: Duration::from_secs(1), ..Observation::SEEN };
    let mbit = |standing: Standing| standing.target.map(|target| target.bits() / 1e6);
    let mut targets = Vec::new();
    for look in 0..40 {
        let now = Nanos(look * 10_000_000);
        link.observe(urgent, now, &Observation { delivered, ..seen(0) });
        targets.extend(mbit(link.observe(low, now, &seen(11_250_000))));
    }
    (targets, mbit(link.observe(low, Nanos(1_400_000_000), &seen(11_250_000))))
}

#[test]
fn e9_missed_latency_reduces_other_rates() {
    let (targets, silent) = beside_a_latency(100);
    assert!(targets.is_sorted_by(|a, b| a >= b), "{targets:?}");
    // 2 in a second, down to a half: from 85 on it bounds what Low has.
    assert!(targets.len() > 25 && (targets[0] - 86.0).abs() < 4.1, "{targets:?}");
    assert!((targets[targets.len() - 1] - 50.0).abs() < 0.5, "{targets:?}");
    assert!(silent.is_none_or(|target| target > 89.0), "for a class that is silent: {silent:?}");
}

#[test]
fn e9_a_round_trip_time_without_packets_keeps_nothing_empty() {
    let (targets, _) = beside_a_latency(0);
    assert!(targets.iter().all(|target| *target > 89.0), "{targets:?}");
}

#[test]
fn maximum_is_forgotten_after_ten_seconds() {
    let mut most = RecentMost::default();
    let second = |seconds: u64| Nanos(seconds * 1_000_000_000);
    for (at, value, greatest) in [
        (6, 9.0, 9.0),
        (11, 3.0, 9.0),
        (12, 2.0, 9.0),
        (17, 1.0, 9.0),
        (18, 1.0, 2.0),
        (29, 0.5, 0.5),
    ] {
        let seen: f64 = most.see(second(at), value);
        assert!((seen - greatest).abs() < 1e-9, "second {at}: {seen}");
    }
}
