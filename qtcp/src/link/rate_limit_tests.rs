//! Single steps of one flow's limit.

use super::*;

fn rate(bytes: f64) -> Rate {
    Rate::new(bytes)
}

/// Makes what a flow saw in 5 ms at a rate, without marks, with a round trip of 1 ms.
fn seen(bytes_per_second: u64) -> Observation {
    Observation {
        interval: Duration::from_millis(5),
        delivered: 100,
        marked: 0,
        bytes: bytes_per_second / 200,
        rtt: Duration::from_millis(1),
        mss: 1000,
        app_limited: false,
    }
}

fn marked(bytes_per_second: u64) -> Observation {
    Observation { marked: 100, ..seen(bytes_per_second) }
}

fn conditions(role: Role, target: f64) -> Conditions {
    Conditions { target: Some(rate(target)), role, congested: true, deficit: false, full: false }
}

/// Makes a flow that has had this rate for one observation.
fn flow(seen: &Observation) -> RateLimit {
    let mut flow = RateLimit::default();
    flow.see(&Rules::default(), seen);
    flow
}

fn near(limit: Option<Rate>, expected: f64) -> bool {
    limit.is_some_and(|limit| (limit.bytes() / expected - 1.0).abs() < 1e-6)
}

#[test]
fn e1_a_rate_is_smoothed_over_40_ms_or_eight_round_trips() {
    let long = |rtt_ms: u64, bytes: u64| Observation {
        interval: Duration::from_millis(40),
        bytes,
        rtt: Duration::from_millis(rtt_ms),
        ..seen(0)
    };
    for (rtt_ms, second) in [(1, 1.5e6), (5, 1.5e6), (10, 4e6 / 3.0)] {
        let mut flow = flow(&long(rtt_ms, 40_000));
        assert!(near(Some(flow.rate()), 1e6), "the first is taken as it is");
        flow.see(&Rules::default(), &long(rtt_ms, 80_000));
        assert!(near(Some(flow.rate()), second), "{rtt_ms} ms: {:?}", flow.rate());
        let nothing = Observation { interval: Duration::ZERO, marked: 100, ..long(rtt_ms, 1) };
        flow.see(&Rules::default(), &nothing);
        assert!(near(Some(flow.rate()), second) && flow.alpha() == 0.0, "no time has passed");
    }
}

#[test]
fn e1_alpha_takes_a_sixteenth_in_each_round_trip() {
    let alpha = |interval_us: u64, delivered: u32| {
        let interval = Duration::from_micros(interval_us);
        flow(&Observation { interval, delivered, ..marked(1_000_000) }).alpha()
    };
    let close = |alpha: f64, expected: f64| (alpha - expected).abs() < 1e-9;
    assert!(close(alpha(1000, 100), 1.0 / 16.0));
    assert!(close(alpha(8000, 100), 0.5));
    assert!(close(alpha(50_000, 100), 1.0), "never more than wholly");
    assert!(close(alpha(1, 100), 0.05 / 16.0), "a twentieth of a round trip at the least");
    assert!(close(alpha(1000, 0), 0.0), "nothing was delivered: nothing is known");
}

#[test]
fn a_flow_is_in_deficit_after_a_while_below_its_target() {
    let rules = Rules::default();
    // A fortieth of the way to what is missing in 5 ms: a third after 40 ms.
    let looks = |quality: f64| {
        let mut flow = RateLimit::default();
        (1..1000).find(|_| flow.in_deficit(&rules, &seen(0), quality))
    };
    assert_eq!(looks(2.0), Some(5), "half is missing, more than a twentieth counts");
    assert_eq!(looks(1.25), Some(12));
    assert_eq!(looks(1.04), None, "within sigma");
    assert_eq!(looks(1.0), None);
    // What it had too much counts against that, but no more than as much again.
    let mut flow = RateLimit::default();
    (0..1000).for_each(|_| _ = flow.in_deficit(&rules, &seen(0), 0.001));
    let back = (1..1000).find(|_| flow.in_deficit(&rules, &seen(0), 100.0));
    assert_eq!(back, Some(31));
}

#[test]
fn a_flow_without_a_target_has_no_limit() {
    let mut flow = flow(&marked(1_000_000));
    assert!(
        flow.limit(&Rules::default(), &marked(1_000_000), &conditions(Role::Held, 5e5)).is_some()
    );
    let free = Conditions { target: None, ..conditions(Role::Held, 5e5) };
    assert_eq!(flow.limit(&Rules::default(), &marked(1_000_000), &free), None);
}

#[test]
fn a_flow_that_is_held_has_its_target_and_a_packet_now_and_then() {
    let mut flow = flow(&seen(1_000_000));
    let limit = |flow: &mut RateLimit, rtt_ms, target| {
        let seen = Observation { rtt: Duration::from_millis(rtt_ms), ..seen(1_000_000) };
        flow.limit(&Rules::default(), &seen, &conditions(Role::Held, target))
    };
    assert!(near(limit(&mut flow, 1, 2e6), 2e6));
    assert!(near(limit(&mut flow, 1, 10.0), 1e5), "a packet in 10 ms");
    assert!(near(limit(&mut flow, 40, 10.0), 25e3), "or in a round trip");
}

#[test]
fn e7_a_follower_is_held_near_its_target_once_it_has_more() {
    let (rules, target) = (Rules::default(), conditions(Role::Follower, 1e6));
    let mut at = flow(&marked(1_000_000));
    assert_eq!(at.limit(&rules, &marked(1_000_000), &target), None, "it has its target");
    let mut flow = flow(&marked(2_000_000));
    let mut limits = Vec::new();
    for _ in 0..5 {
        limits.push(flow.limit(&rules, &marked(2_000_000), &target).unwrap().bytes() / 1e6);
    }
    // A whole target too much takes a fortieth of it from the limit in 5 of 200 ms.
    let expected = [0.975, 0.95, 0.925, 0.9, 0.9];
    assert!(limits.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{limits:?}");
    // Half a target too little adds half as much.
    let mut less = RateLimit { rate: Average::default().starting(5e5), ..flow };
    assert!(near(less.limit(&rules, &marked(500_000), &target), 0.9125e6));
    for _ in 0..200 {
        less.limit(&rules, &marked(500_000), &target);
    }
    assert!(near(less.limit(&rules, &marked(500_000), &target), 2e6), "twice at the most");
}

#[test]
fn a_follower_that_sees_no_marks_keeps_its_limit_while_others_see_some() {
    let (rules, target) = (Rules::default(), conditions(Role::Follower, 1e6));
    let mut free = flow(&seen(2_000_000));
    assert_eq!(free.limit(&rules, &seen(2_000_000), &target), None);
    let mut limited = RateLimit { limit: Some(rate(3e6)), ..free };
    assert!(near(limited.limit(&rules, &seen(2_000_000), &target), 3e6));
    let more = conditions(Role::Follower, 4e6);
    assert!(near(limited.limit(&rules, &seen(2_000_000), &more), 4e6), "up to its target");
    // A link that is full is congested without marks.
    let full = Conditions { full: true, ..target };
    assert!(near(free.limit(&rules, &seen(2_000_000), &full), 0.975e6));
    // Marks up to epsilon are none.
    let alpha = Average::default().starting(rules.epsilon);
    let mut hardly = RateLimit { alpha, limit: None, ..free };
    assert_eq!(hardly.limit(&rules, &seen(2_000_000), &target), None);
}

#[test]
fn the_flow_that_fills_the_link_is_limited_for_others_alone() {
    let (rules, target) = (Rules::default(), conditions(Role::Filler, 1e6));
    let deficit = Conditions { deficit: true, ..target };
    let mut flow = flow(&marked(1_020_000));
    assert_eq!(flow.limit(&rules, &marked(1_020_000), &deficit), None, "within half of sigma");
    let mut more = RateLimit { rate: Average::default().starting(1.03e6), ..flow };
    assert_eq!(more.limit(&rules, &marked(1_030_000), &target), None);
    assert!(near(more.limit(&rules, &marked(1_030_000), &deficit), 1.025e6));
    more.rate = Average::default().starting(1e6);
    assert!(near(more.limit(&rules, &marked(1_000_000), &deficit), 1.025e6), "it stays");
    // No flow is in deficit any more: the limit grows.
    assert!(near(more.limit(&rules, &marked(1_000_000), &target), 1.025e6 * 1.01));
}

#[test]
fn without_congestion_a_limit_grows_until_it_holds_no_flow_back() {
    let rules = Rules::default();
    let calm = Conditions { congested: false, ..conditions(Role::Follower, 1e6) };
    let mut flow = RateLimit { limit: Some(rate(2e6)), ..flow(&seen(1_000_000)) };
    // 5 ms of 500.
    assert!(near(flow.limit(&rules, &seen(1_000_000), &calm), 2.02e6));
    flow.limit = Some(rate(1e5));
    assert!(near(flow.limit(&rules, &seen(1_000_000), &calm), 1e6), "its target at the least");
    flow.limit = Some(rate(3.97e6));
    assert_eq!(flow.limit(&rules, &seen(1_000_000), &calm), None, "four times its rate");
    assert_eq!(flow.limit(&rules, &seen(1_000_000), &calm), None);
    flow.limit = Some(rate(2e6));
    flow.rate = Average::default().starting(0.0);
    assert!(near(flow.limit(&rules, &seen(0), &calm), 2.02e6), "nothing says that it is too high");
}
