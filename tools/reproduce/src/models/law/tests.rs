use core::time::Duration;

use qtcp::Rate;
use sluice_sim::control::NO_BOUND;

use super::*;

const RTT: Duration = Duration::from_micros(100);

fn seen(delivered: u32, marked: u32) -> Observation {
    let bytes = u64::from(delivered) * 1000;
    Observation { interval: RTT, delivered, marked, bytes, rtt: RTT, ..Observation::SEEN }
}

#[track_caller]
fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} against {b}");
}

fn window(flow: &mut WindowControl, seen: &Observation) -> f64 {
    flow.step(Nanos(0), seen).window
}

#[test]
fn e1_slow_start_doubles_until_first_mark() {
    let mut flow = WindowControl::dctcp();
    assert_eq!(flow.decision(), Decision { window: 10.0, rate: NO_BOUND });
    assert_eq!(window(&mut flow, &seen(10, 0)), 20.0);
    assert_eq!(window(&mut flow, &seen(20, 0)), 40.0);
    assert_eq!(window(&mut flow, &seen(90, 0)), 80.0, "at most double, whatever came");
    // Three round trips without a mark, and one in which half of the packets had one (Eq. 3).
    let alpha = (15.0_f64 / 16.0).powi(4) + 0.5 / 16.0;
    let cut = 80.0 * (1.0 - alpha / 2.0);
    near(window(&mut flow, &seen(80, 40)), cut);
    near(window(&mut flow, &seen(50, 0)), cut + 1.0);
}

#[test]
fn e1_unused_window_is_cut_but_never_grows() {
    let mut flow = WindowControl::dctcp();
    let idle = Observation { app_limited: true, ..seen(5, 0) };
    assert_eq!(window(&mut flow, &idle), 10.0);
    assert!(window(&mut flow, &Observation { marked: 5, ..idle }) < 10.0);
}

#[test]
fn e1_constant_marks_halve_window_to_one_packet() {
    let mut flow = WindowControl::dctcp();
    assert_eq!(window(&mut flow, &seen(10, 10)), 5.0);
    for _ in 0..10 {
        window(&mut flow, &seen(10, 10));
    }
    assert_eq!(flow.decision().window, 1.0);
}

#[test]
fn e1_alpha_up_to_epsilon_lets_the_window_grow() {
    let settings = Settings { epsilon: 0.5, initial_alpha: 0.0, ..Settings::default() };
    let mut flow = WindowControl::new(Law::Dctcp, &settings);
    assert_eq!(window(&mut flow, &seen(10, 10)), 11.0, "Eq. 12, first line");
    assert_eq!(flow.report().alpha, 1.0 / 16.0);
}

#[test]
fn e1_growth_is_proportional_to_target_window() {
    let seen = seen(10, 0);
    // 640 packets of 1000 bytes in a round trip of 100 us.
    let target = FlowTarget::Throughput(Rate::new(6.4e9));
    let grows = |quality, target| Growth::Target.packets(quality, target, &seen);
    near(grows(1.0, target), 20.0);
    near(grows(0.5, target), 20.0);
    near(grows(2.0, target), 80.0);
    near(grows(100.0, target), 160.0);
    near(grows(1.0, FlowTarget::Throughput(Rate::new(0.32e9))), 1.0);
    near(grows(2.0, FlowTarget::None), 1.0);
    near(grows(2.0, FlowTarget::Latency(RTT)), 4.0);
    let unknown = Observation { rtt: Duration::ZERO, ..seen };
    near(Growth::Target.packets(2.0, target, &unknown), 4.0);
}

#[test]
fn e1_the_rate_goes_with_the_window() {
    let mut flow = WindowControl::dctcp();
    let decision = flow.step(Nanos(0), &seen(10, 0));
    assert!((decision.rate.bytes() - 20.0 * 1000.0 / 1e-4).abs() < 1.0);
    assert!((flow.report().rate.bytes() - 10.0 * 1000.0 / 1e-4).abs() < 1.0);
}

#[test]
fn e8_lambda_follows_the_deviation_of_quality_within_its_bounds() {
    let mut lambda = Lambda::new(Rate::new(1e9), SIGMA, 0.5);
    lambda.note(0.5);
    assert_eq!(lambda.rate(), Rate::new(1e9), "not above the known capacity");
    lambda.note(1.2);
    assert!((lambda.rate().bytes() - 0.95e9).abs() < 1.0);
    lambda.note(1.04);
    lambda.note(0.96);
    assert!((lambda.rate().bytes() - 0.95e9).abs() < 1.0, "within sigma nothing happens");
    lambda.note(0.9);
    assert!((lambda.rate().bytes() - 0.9975e9).abs() < 1.0);
    for _ in 0..100 {
        lambda.note(1000.0);
    }
    assert_eq!(lambda.share(), 0.5);
    assert_eq!(lambda.rate(), Rate::new(0.5e9));
}

#[test]
fn e8_lambda_is_sound_whatever_it_is_set_to() {
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        let mut lambda = Lambda::new(Rate::new(1e9), bad, bad);
        for quality in [0.0, 2.0, f64::NAN, 1000.0] {
            lambda.note(quality);
            assert!(lambda.share() > 0.0 && lambda.share() <= 1.0);
        }
    }
}

/// Returns lambda as a part of the capacity after a round trip at half of the target.
fn share_after(seen: &Observation) -> f64 {
    let law = Law::Interference(Lambda::new(Rate::new(1e9), SIGMA, FLOOR));
    let mut flow = WindowControl::new(law, &Settings::qtcp());
    flow.set_target(FlowTarget::Throughput(Rate::new(0.5e9)));
    flow.step(Nanos(0), seen);
    let Law::Interference(lambda) = flow.law else { panic!("another law") };
    lambda.share()
}

#[test]
fn e8_lambda_falls_only_under_interference() {
    let quiet = seen(25, 0);
    assert_eq!(share_after(&quiet), 1.0, "nobody is in the way: it is still growing");
    let marked = Observation { marked: 5, ..quiet };
    assert_eq!(share_after(&marked), 0.95);
    let idle = Observation { app_limited: true, ..marked };
    assert_eq!(share_after(&idle), 1.0, "it has no more to send");
}

#[test]
fn e8_the_target_is_the_flows_ratio_of_lambda() {
    let mut lambda = Lambda::new(Rate::new(1e9), 0.5, FLOOR);
    lambda.note(2.0);
    assert_eq!(lambda.share(), 0.5);
    let third = FlowTarget::Throughput(Rate::new(3e8));
    assert_eq!(lambda.part(third), FlowTarget::Throughput(Rate::new(1.5e8)));
    let latency = FlowTarget::Latency(Duration::from_millis(5));
    assert_eq!(lambda.part(latency), latency);
}

/// Returns the window after a round trip of `rtt_us` with marks that bring alpha to 0.25.
fn urgent_window(target: FlowTarget, rtt_us: u64) -> f64 {
    let settings = Settings { g: 1.0, ..Settings::default() };
    let mut flow = WindowControl::new(Law::D2tcp, &settings);
    flow.set_target(target);
    let rtt = Duration::from_micros(rtt_us);
    let seen = Observation { marked: 25, rtt, ..Observation::SEEN };
    flow.step(Nanos(0), &seen).window
}

#[test]
fn e9_late_flows_give_way_less_and_early_ones_more() {
    let target = FlowTarget::Latency(Duration::from_micros(100));
    near(urgent_window(target, 100), 10.0 * (1.0 - 0.25 / 2.0));
    near(urgent_window(target, 200), 10.0 * (1.0 - 0.0625 / 2.0));
    near(urgent_window(target, 9000), urgent_window(target, 200));
    near(urgent_window(target, 50), 10.0 * (1.0 - 0.5 / 2.0));
    near(urgent_window(target, 1), urgent_window(target, 50));
    near(urgent_window(FlowTarget::None, 9000), urgent_window(target, 100));
}

#[test]
fn e9_transfer_needing_double_rate_has_highest_urgency() {
    let needs = |bytes| urgent_window(FlowTarget::Throughput(Rate::new(bytes)), 100);
    assert!(needs(2e8) > needs(1e8) && needs(1e8) > needs(5e7));
    assert_eq!(needs(2e8), needs(9e9));
}
