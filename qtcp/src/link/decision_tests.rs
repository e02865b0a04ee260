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

/// Looks at flows of High and Low, `at` looks after the start. Returns their limits in Mbit/s.
fn limits(link: &mut Link, at: u64, looks: [Look; 2], flows: [ClassFlowId; 2]) -> [Option<f64>; 2] {
    [0, 1].map(|flow| observe(link, flows[flow], at, looks[flow]).limit.map(mbit))
}

fn mbit(rate: Rate) -> f64 {
    rate.bits() / 1e6
}

/// Adds an observation of a flow.
fn observe(link: &mut Link, flow: ClassFlowId, at: u64, look: Look) -> Standing {
    let seen = Observation {
        interval: Duration::from_millis(5),
        delivered: 20,
        marked: if look.marked { 5 } else { 0 },
        bytes: Rate::from_bits(look.mbit * 1e6).bytes_in(Duration::from_millis(5)),
        app_limited: !look.backlogged,
        ..Observation::SEEN
    };
    link.observe(flow, Nanos(at * 5_000_000), &seen)
}

const THREE_TO_ONE: [ClassGoal; 2] = [ClassGoal::Share(3.0), ClassGoal::Share(1.0)];

const fn rate(mbit: f64) -> ClassGoal {
    ClassGoal::Rate(Rate::from_bits(mbit * 1e6))
}

/// Makes a link of these Mbit/s, or of an unknown capacity, with a flow of High and one of Low.
fn high_and_low([high, low]: [ClassGoal; 2], mbit: Option<f64>) -> (Link, [ClassFlowId; 2]) {
    let goals = per_class(&[ClassGoal::Free, high, ClassGoal::Free, low]);
    let capacity = mbit.map(|mbit| Rate::from_bits(mbit * 1e6));
    let mut link = Link::new(goals, capacity, Rules::default());
    let flows = [Class::High, Class::Low].map(|class| link.add(class));
    (link, flows)
}

/// Runs Low at its limit, of 100 Mbit/s, and High at the rest; `marked`: both see marks. Returns Low's limits.
fn give_way(link: &mut Link, flows: [ClassFlowId; 2], marked: bool) -> Vec<f64> {
    let (mut low, mut seen) = (50.0_f64, Vec::new());
    for look in 0..400 {
        let looks = [100.0 - low, low].map(|mbit| Look { mbit, marked, ..FULL });
        let [high, limit] = limits(link, look, looks, flows);
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
    let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
    let low = give_way(&mut link, flows, true);
    assert!(low[0] > 47.0, "from what it has: {low:?}");
    assert!(low.windows(2).all(|two| two[1] > two[0] * 0.97), "by small steps: {low:?}");
    assert!((low[low.len() - 1] / 25.0 - 1.0).abs() < 0.04, "{low:?}");
    assert!(link.is_backlogged(Class::High));
}

#[test]
fn e7_no_limits_without_marks_or_demand() {
    for (marked, backlogged) in [(false, true), (true, false), (false, false)] {
        let high = Look { marked, backlogged, ..FULL };
        let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
        for at in 0..300 {
            assert_eq!(limits(&mut link, at, [high, FULL], flows), [None; 2]);
        }
        assert_eq!(link.held_for(Class::Low), None);
    }
}

#[test]
fn e8_limits_end_half_second_after_last_mark() {
    let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
    give_way(&mut link, flows, true);
    let calm = [75.0, 25.0].map(|mbit| Look { mbit, marked: false, ..FULL });
    let seen: Vec<_> = (400..500).map(|at| limits(&mut link, at, calm, flows)).collect();
    assert!(seen[5][1].is_some(), "a full link has such pauses");
    assert_eq!(seen[99], [None; 2]);
}

/// A capacity is not exceeded either where no class has a share.
#[test]
fn e8_a_capacity_holds_where_all_classes_have_rates() {
    for rates in [[16.0, 4.0], [6.0, 2.0]] {
        let (mut link, flows) = high_and_low(rates.map(rate), Some(20.0));
        let mut had = [15.0_f64, 15.0];
        for look in 0..600 {
            let looks = had.map(|mbit| Look { mbit, marked: false, ..FULL });
            let limits = limits(&mut link, look, looks, flows);
            had = limits.map(|limit| limit.unwrap_or(15.0).min(15.0));
        }
        let sum: f64 = had.iter().sum();
        assert!(sum < 22.0, "{rates:?}: {had:?}");
        for (had, part) in had.into_iter().zip([15.0, 5.0]) {
            assert!((had / part - 1.0).abs() < 0.15, "{rates:?}: {had}");
        }
    }
}

/// Adds a flow of another class, of a share like Low's.
fn share_of_one(link: &mut Link, class: Class) -> ClassFlowId {
    link.goals[class] = ClassGoal::Share(1.0);
    link.add(class)
}

/// Runs Low at its limit of 90 Mbit/s for 20 seconds. High is held to 10 by something else than the network, though it
/// sees marks. Urgent has so many Mbit/s in every second period of so many looks of `bursts`. Returns the part of 90
/// that Low has lost in each second but the first two.
fn lost_beside_unhelpable_class(bursts: Option<(f64, u64)>) -> Vec<f64> {
    let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
    let urgent = share_of_one(&mut link, Class::Urgent);
    let mut had = 90.0;
    let mut second = |from: u64| {
        let lost = (from..from + 200).map(|at| {
            if let Some((burst, looks)) = bursts {
                let wants = (at / looks).is_multiple_of(2);
                let mbit = if wants { burst } else { 0.0 };
                let burst = Look { mbit, marked: wants, backlogged: wants };
                observe(&mut link, urgent, at, burst);
            }
            let seen = [Look { mbit: 10.0, ..FULL }, Look { mbit: had, ..FULL }];
            had = limits(&mut link, at, seen, flows)[1].unwrap_or(90.0).min(90.0);
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
    let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
    let medium = share_of_one(&mut link, Class::Medium);
    let mut had = 90.0_f64;
    for at in 0..4600 {
        let others = had.min(if at < 4000 { 90.0 } else { 70.0 });
        if at >= 4000 {
            observe(&mut link, medium, at, Look { mbit: 90.0 - others, ..FULL });
        }
        let seen = [10.0, others].map(|mbit| Look { mbit, ..FULL });
        had = limits(&mut link, at, seen, flows)[1].unwrap_or(90.0);
    }
    assert!((had / 45.0 - 1.0).abs() < 0.1, "Low has {had} of 90 beside Medium, which is alike");
}

/// High has a second host, on this machine or behind another port, whose data meets no queue.
#[test]
fn e7_use_of_other_path_leaves_share_intact() {
    for (is_local, looks) in [(true, 400), (false, 3000)] {
        let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
        let elsewhere = if is_local { link.add_local(Class::High) } else { link.add(Class::High) };
        let mut low = 50.0_f64;
        for at in 0..looks {
            let free = Look { mbit: 1000.0, marked: false, backlogged: at % 200 < 100 };
            assert_eq!(observe(&mut link, elsewhere, at, free).limit, None);
            let looks = [100.0 - low, low].map(|mbit| Look { mbit, ..FULL });
            let [high, limit] = limits(&mut link, at, looks, flows);
            assert!(high.is_none_or(|high| high > 70.0), "High has less for each part: {high:?}");
            low = limit.unwrap_or(50.0).min(50.0);
        }
        assert!((low / 25.0 - 1.0).abs() < 0.05, "Low has {low} of 100");
    }
}

#[test]
fn e7_a_given_capacity_is_shared_without_marks() {
    let (mut link, flows) = high_and_low(THREE_TO_ONE, Some(100.0));
    let room = [50.0, 46.0].map(|mbit| Look { mbit, marked: false, ..FULL });
    for at in 0..300 {
        assert_eq!(limits(&mut link, at, room, flows), [None; 2], "there is room");
    }
    let (mut link, flows) = high_and_low(THREE_TO_ONE, Some(100.0));
    let low = give_way(&mut link, flows, false);
    assert!((low[low.len() - 1] / 25.0 - 1.0).abs() < 0.05, "{low:?}");
}

/// The unwanted use of the largest class is left to the others: High was held to its part of a
/// capacity, and then wants a little less.
#[test]
fn e8_capacity_is_used_beside_class_wanting_less() {
    let (mut link, flows) = high_and_low(THREE_TO_ONE, Some(100.0));
    let mut had = [80.0_f64, 60.0];
    for at in 0..800 {
        let wants = if at < 400 { 80.0 } else { 60.0 };
        let mut seen = had.map(|mbit| Look { mbit, marked: false, ..FULL });
        seen[0].backlogged = had[0] < wants;
        let limits = limits(&mut link, at, seen, flows);
        had = [limits[0].unwrap_or(80.0).min(wants), limits[1].unwrap_or(60.0).min(60.0)];
        assert!(at != 399 || had[1] < 30.0, "shares: {had:?}");
    }
    assert!(had[0] > 59.0 && (36.0..42.0).contains(&had[1]), "{had:?}");
}

/// High is to have 50 and is slow itself.
#[test]
fn e8_capacity_is_used_beside_class_below_rate() {
    let (mut link, flows) = high_and_low([rate(50.0), ClassGoal::Share(1.0)], Some(100.0));
    let (mut high, mut low, mut parts) = (10.0_f64, 90.0_f64, Vec::new());
    for at in 0..800 {
        // From the fourth hundred on it is fast enough.
        let most = if at < 400 { 10.0 } else { 60.0 };
        let seen = [high, low].map(|mbit| Look { mbit, marked: false, ..FULL });
        low = limits(&mut link, at, seen, flows)[1].unwrap_or(95.0).min(95.0);
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
    let (mut link, flows) = high_and_low([ClassGoal::Share(1.0), rate(20.0)], None);
    let (mut had, mut seen) = (50.0_f64, Vec::new());
    for at in 0..16_000 {
        let wants_more = !(400..15_000).contains(&at);
        let high = if wants_more { 100.0 - had } else { 10.0 };
        let mut looks = [high, had].map(|mbit| Look { mbit, ..FULL });
        looks[0].backlogged = wants_more;
        had = limits(&mut link, at, looks, flows)[1].unwrap_or(90.0).min(90.0);
        seen.push(had);
    }
    let near = |at: usize, mbit: f64| (seen[at] / mbit - 1.0).abs() < 0.12;
    assert!(near(399, 20.0), "it gives way: {}", seen[399]);
    assert!(near(800, 90.0), "two seconds later it has what is left: {}", seen[800]);
    assert!(near(14_999, 90.0) && near(15_999, 20.0), "{} {}", seen[14_999], seen[15_999]);
}

#[test]
fn goals_that_change_count_at_once() {
    let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
    give_way(&mut link, flows, true);
    let latency = ClassGoal::Latency(Duration::from_micros(500));
    link.configure(per_class(&[ClassGoal::Free, rate(30.0), ClassGoal::Free, latency]), None);
    let seen = Observation { marked: 5, ..Observation::SEEN };
    let [high, low] = flows.map(|flow| link.observe(flow, Nanos(2_000_000_000), &seen));
    assert_eq!(high.target, Some(Rate::from_bits(30e6)));
    assert!(low.is_free && low.target.is_none() && low.limit.is_none(), "{low:?}");
    assert!((low.quality - 2.0).abs() < 1e-9, "a round trip of 1 ms: {low:?}");
}

#[test]
fn removed_flow_has_no_effect() {
    let (mut link, flows) = high_and_low(THREE_TO_ONE, None);
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
    let mut targets = Vec::new();
    for look in 0..40 {
        let now = Nanos(look * 10_000_000);
        link.observe(urgent, now, &Observation { delivered, ..seen(0) });
        targets.extend(link.observe(low, now, &seen(11_250_000)).target.map(mbit));
    }
    (targets, link.observe(low, Nanos(1_400_000_000), &seen(11_250_000)).target.map(mbit))
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
