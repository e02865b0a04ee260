//! Tests of single steps of one flow's limit.

use super::*;

fn rate(bytes: f64) -> Rate {
    Rate::new(bytes)
}

/// Makes what a flow saw in 5 ms at a rate, without marks, with a round trip of 1 ms.
fn seen(bytes_per_second: u64) -> Observation {
    let interval = Duration::from_millis(5);
    Observation { interval, bytes: bytes_per_second / 200, ..Observation::SEEN }
}

fn marked(bytes_per_second: u64) -> Observation {
    Observation { marked: 100, ..seen(bytes_per_second) }
}

fn conditions(role: Role, target: f64) -> Conditions {
    Conditions { target: Some(rate(target)), role, congested: true, full: false }
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
    assert!(near(limit(&mut flow, 1, 10.0), 25e3), "a packet in 40 ms");
    assert!(near(limit(&mut flow, 80, 10.0), 12.5e3), "or in a round trip");
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
fn a_limit_far_above_the_rate_comes_down_at_once() {
    let (rules, target) = (Rules::default(), conditions(Role::Follower, 1e6));
    let wide = RateLimit { limit: Some(rate(2e6)), boost: 2.0, ..flow(&marked(1_100_000)) };
    // A quarter of the target above the rate, less a fortieth of the tenth that is too much.
    assert!(near({ wide }.limit(&rules, &marked(1_100_000), &target), 1.35e6 - 2500.0));
    let less = RateLimit { rate: Average::default().starting(1e6), ..wide };
    assert!(near({ less }.limit(&rules, &marked(1_000_000), &target), 2e6), "it has its target");
}

#[test]
fn a_follower_that_sees_no_marks_is_held_no_lower_than_its_target_while_others_see_some() {
    let (rules, target) = (Rules::default(), conditions(Role::Follower, 1e6));
    let mut free = flow(&seen(2_000_000));
    assert_eq!(free.limit(&rules, &seen(2_000_000), &target), None);
    let limited = RateLimit { limit: Some(rate(3e6)), ..free };
    for (boost, limit) in [(0.9, 1e6), (1.0, 1e6), (1.5, 1.5e6)] {
        let mut limited = RateLimit { boost, ..limited };
        assert!(near(limited.limit(&rules, &seen(2_000_000), &target), limit), "{boost}");
    }
    // A link that is full is congested without marks.
    let full = Conditions { full: true, ..target };
    assert!(near(free.limit(&rules, &seen(2_000_000), &full), 0.975e6));
    // Marks up to epsilon are none.
    let alpha = Average::default().starting(rules.epsilon);
    let mut hardly = RateLimit { alpha, limit: None, ..free };
    assert_eq!(hardly.limit(&rules, &seen(2_000_000), &target), None);
}

#[test]
fn without_congestion_a_limit_follows_its_target_up() {
    let rules = Rules::default();
    let calm = |target| Conditions { congested: false, ..conditions(Role::Follower, target) };
    let mut flow = RateLimit { limit: Some(rate(1e6)), boost: 1.2, ..flow(&seen(1_000_000)) };
    assert!(near(flow.limit(&rules, &seen(1_000_000), &calm(2e6)), 2.4e6));
    assert!(near(flow.limit(&rules, &seen(1_000_000), &calm(1e6)), 2.4e6), "not down");
    assert!(near(flow.limit(&rules, &seen(1_000_000), &calm(3.3e6)), 3.96e6));
    assert_eq!(flow.limit(&rules, &seen(1_000_000), &calm(3.4e6)), None, "four times its rate");
    assert_eq!(flow.limit(&rules, &seen(1_000_000), &calm(1e6)), None);
}

#[test]
fn the_limit_of_a_flow_that_fills_the_link_grows_until_it_holds_no_flow_back() {
    let rules = Rules::default();
    for congested in [false, true] {
        let fills = Conditions { congested, ..conditions(Role::Filler, 1e6) };
        let mut flow = RateLimit { limit: Some(rate(2e6)), ..flow(&marked(1_000_000)) };
        // 5 ms of 500.
        assert!(near(flow.limit(&rules, &marked(1_000_000), &fills), 2.02e6));
        flow.limit = Some(rate(1e5));
        assert!(near(flow.limit(&rules, &marked(1_000_000), &fills), 1e6), "at least its target");
        flow.limit = Some(rate(3.97e6));
        assert_eq!(flow.limit(&rules, &marked(1_000_000), &fills), None, "four times its rate");
        assert_eq!(flow.limit(&rules, &marked(1_000_000), &fills), None);
        flow.limit = Some(rate(2e6));
        flow.rate = Average::default().starting(0.0);
        let silent = flow.limit(&rules, &seen(0), &fills);
        assert!(near(silent, 2.02e6), "nothing says that it is too high");
    }
}

#[test]
fn e7_marks_count_for_six_of_the_longest_round_trips() {
    let rules = Rules::default();
    for (longest, ms) in [(0.0, 50), (1e-3, 50), (20e-3, 120), (1.0, 500), (f64::MAX, 500)] {
        assert_eq!(rules.memory_on(longest), Duration::from_millis(ms), "{longest} s");
    }
}

#[test]
fn e7_a_flow_rises_while_nothing_holds_it_back() {
    let mut flow = flow(&seen(1_000_000));
    let mut rises = |rate: u64, app_limited: bool, congested: bool| {
        let seen =
            Observation { interval: Duration::from_secs(1), bytes: rate, app_limited, ..seen(0) };
        flow.see(&Rules::default(), &seen);
        flow.is_rising(&seen, congested)
    };
    assert!(!rises(1_000_000, false, true), "on a congested link no flow does");
    assert!(!rises(1_010_000, false, false), "one per cent is noise");
    assert!(rises(1_100_000, false, false));
    assert!(!rises(1_100_000, false, false), "it has come to rest");
    assert!(!rises(1_050_000, false, false) && !rises(1_110_000, false, false), "less, and again");
    assert!(!rises(2_000_000, true, false), "it had too little to send");
    assert!(rises(2_100_000, false, false), "from then on");
}
