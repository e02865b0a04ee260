use super::*;

const LINE: f64 = 5e9;

fn seen(marked: u32, bytes: u64) -> Observation {
    let rtt = Duration::from_micros(10);
    Observation { interval: rtt, delivered: 10, marked, bytes, rtt, ..Observation::SEEN }
}

fn micros(us: u64) -> Nanos {
    Nanos(us * 1000)
}

fn rate(flow: &mut Dcqcn, us: u64, marked: u32) -> f64 {
    flow.step(micros(us), &seen(marked, 0)).rate.bytes()
}

/// Creates a flow after so many notifications, one each 50 us.
fn cut(times: u64) -> Dcqcn {
    let mut flow = Dcqcn::default();
    (0..times).for_each(|cut| _ = rate(&mut flow, 50 * cut, 1));
    flow
}

#[test]
fn e2_the_first_notification_halves_the_rate_of_the_link() {
    let mut flow = Dcqcn::default();
    assert_eq!(rate(&mut flow, 0, 0), LINE);
    assert_eq!(rate(&mut flow, 1000, 1), LINE / 2.0);
    assert!((flow.decision().window - 25.0).abs() < 1e-9, "2.5 GB/s for 10 us");
}

#[test]
fn e2_at_most_one_cut_in_the_interval_of_notifications() {
    let mut flow = cut(1);
    assert_eq!(rate(&mut flow, 49, 1), LINE / 2.0);
    assert_eq!(rate(&mut flow, 50, 1), LINE / 4.0, "alpha is 1 as long as notifications come");
}

#[test]
fn e2_fast_recovery_precedes_additive_increase() {
    let mut flow = cut(2);
    // RT = LINE / 2, RC = LINE / 4.
    let mut missing = LINE / 4.0;
    for round in 1..=5 {
        missing /= 2.0;
        assert!((rate(&mut flow, 50 + 55 * round, 0) - (LINE / 2.0 - missing)).abs() < 1.0);
    }
    let sixth = LINE / 2.0 + (5e6 - missing) / 2.0;
    assert!((rate(&mut flow, 50 + 55 * 6, 0) - sixth).abs() < 1.0);
}

#[test]
fn e2_hyper_increase_once_both_counters_have_had_their_rounds() {
    let bytes = Settings::default().increase_bytes;
    let mut flow = cut(4);
    let mut gains = Vec::new();
    let mut target = flow.reaction.target;
    for round in 1..=8 {
        flow.step(micros(150 + 55 * round), &seen(0, bytes));
        gains.push(((flow.reaction.target - target) / 5e6).round());
        target = flow.reaction.target;
    }
    // In units of R_AI. Round 6: the timer adds one, then both have completed six: hyper increase.
    assert_eq!(gains, [0.0, 0.0, 0.0, 0.0, 0.0, 11.0, 30.0, 50.0]);
}

#[test]
fn e2_alpha_decays_with_its_timer_while_no_notification_comes() {
    let mut flow = cut(1);
    rate(&mut flow, 54, 0);
    assert_eq!(flow.report().alpha, 1.0);
    rate(&mut flow, 55, 0);
    assert!((flow.report().alpha - 255.0 / 256.0).abs() < 1e-12);
    rate(&mut flow, 550, 0);
    assert!((flow.report().alpha - (255.0_f64 / 256.0).powi(10)).abs() < 1e-12);
}

#[test]
fn e2_step_processes_expired_timers() {
    let (mut often, mut seldom) = (cut(6), cut(6));
    for us in 251..20_000 {
        rate(&mut often, us, 0);
    }
    rate(&mut seldom, 19_999, 0);
    assert_eq!(often.decision(), seldom.decision());
    assert!((often.report().alpha - seldom.report().alpha).abs() < 1e-9);
    let back = rate(&mut seldom, 60_000_000, 0);
    assert!(back > 0.999 * LINE && back <= LINE, "a minute later it has all of the link: {back}");
}

#[test]
fn e2_a_rate_never_falls_below_the_least() {
    let flow = cut(100);
    assert_eq!(flow.decision().rate, Settings::default().min);
    assert_eq!(flow.decision().window, 1.0);
}
