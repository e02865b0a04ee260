//! Properties of every controller, under any observations.

use std::time::Duration;

use proptest::prelude::*;
use qtcp::{Nanos, Observation, Rate};
use reproduce::models::law::{FLOOR, Growth, Lambda, Law, SIGMA, Settings, WindowControl};
use sluice_sim::control::{Controller, Dcqcn, FlowTarget, Limits, Qrdma, dcqcn};

const LINE: Rate = Rate::from_bits(100e9);

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos),
        (1..1_000_000_u64).prop_map(Duration::from_nanos),
    ]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), any::<u32>(), 0..1000_u32]
}

/// Draws any possible observation.
fn anything() -> impl Strategy<Value = Observation> {
    let bytes = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..10_000_000_u64];
    let (times, counts) = (prop::array::uniform2(time()), prop::array::uniform3(count()));
    (times, counts, bytes, any::<bool>()).prop_map(|(times, counts, bytes, app_limited)| {
        let ([interval, rtt], [delivered, marked, mss]) = (times, counts);
        Observation { interval, delivered, marked, bytes, rtt, mss, app_limited }
    })
}

/// Draws a plausible round trip.
fn likely() -> impl Strategy<Value = Observation> {
    (0..2000_u32, 0..=8_u32, 20..500_u64, any::<bool>()).prop_map(
        |(delivered, eighths, rtt_us, app_limited)| {
            let (interval, rtt) = (Duration::from_micros(rtt_us), Duration::from_micros(rtt_us));
            let marked = delivered / 8 * eighths.saturating_sub(4);
            let (bytes, mss) = (u64::from(delivered) * 1448, 1448);
            Observation { interval, delivered, marked, bytes, rtt, mss, app_limited }
        },
    )
}

fn target() -> impl Strategy<Value = FlowTarget> {
    prop_oneof![
        Just(FlowTarget::None),
        prop_oneof![Just(0.0), Just(f64::MIN_POSITIVE), Just(f64::MAX), 0.0..1e11]
            .prop_map(|rate| FlowTarget::Throughput(Rate::new(rate))),
        time().prop_map(FlowTarget::Latency),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    (1.0..50.0, 50.0..1e6, 0.0..2e6).prop_map(|(min, max, initial)| Limits { min, max, initial })
}

fn growth() -> impl Strategy<Value = Growth> {
    prop_oneof![Just(Growth::Packet), Just(Growth::Quality), Just(Growth::Target)]
}

/// QTCP with Fig. 15a, which has all of the link.
fn interference() -> Law {
    Law::Interference(Lambda::new(LINE, SIGMA, FLOOR))
}

/// Returns one of each.
fn controllers(settings: &Settings) -> [Box<dyn Controller>; 6] {
    let rates = dcqcn::Settings { limits: settings.limits, ..dcqcn::Settings::of(LINE) };
    [
        Box::new(WindowControl::new(Law::Dctcp, settings)),
        Box::new(WindowControl::new(Law::Qtcp, settings)),
        Box::new(WindowControl::new(interference(), settings)),
        Box::new(WindowControl::new(Law::D2tcp, settings)),
        Box::new(Dcqcn::new(&rates)),
        Box::new(Qrdma::new(&rates)),
    ]
}

proptest! {
    #[test]
    fn e1_windows_keep_to_their_limits_whatever_is_seen(
        limits in limits(),
        growth in growth(),
        history in prop::collection::vec((any::<u64>(), anything(), target()), 1..60),
    ) {
        let settings = Settings { limits, growth, ..Settings::qtcp() };
        for mut controller in controllers(&settings) {
            for (now, seen, target) in &history {
                controller.set_target(*target);
                let decision = controller.step(Nanos(*now), seen);
                let window = decision.window;
                prop_assert!(window >= limits.min && window <= limits.max, "{controller:?}");
                prop_assert!(decision.rate > Rate::ZERO, "{controller:?}");
                prop_assert_eq!(controller.decision(), decision);
                let report = controller.report();
                prop_assert!((0.0..=1.0).contains(&report.alpha), "{report:?}");
                prop_assert!((0.0..=1000.0).contains(&report.quality), "{report:?}");
            }
        }
    }

    #[test]
    fn e2_rates_stay_between_the_least_and_the_link(
        history in prop::collection::vec((0..2_000_000_u64, anything(), target()), 1..100),
    ) {
        let settings = dcqcn::Settings::of(LINE);
        let flows: [Box<dyn Controller>; 2] =
            [Box::new(Dcqcn::new(&settings)), Box::new(Qrdma::new(&settings))];
        for mut flow in flows {
            let mut now = 0;
            for (passed, seen, target) in &history {
                now += passed;
                flow.set_target(*target);
                let rate = flow.step(Nanos(now), seen).rate;
                prop_assert!(rate >= settings.min && rate <= LINE, "{rate:?}");
            }
        }
    }

    /// Targets that make Q 1 or more are among these: then only alpha counts (Eq. 5).
    #[test]
    fn e1_qtcp_with_quality_one_equals_dctcp(
        limits in limits(),
        growth in growth(),
        g in 0.01..1.0,
        epsilon in prop_oneof![Just(0.0), 0.0..0.5],
        history in prop::collection::vec(prop_oneof![likely(), anything()], 1..200),
    ) {
        let settings = Settings { limits, g, epsilon, growth, ..Settings::default() };
        let flow = |law| WindowControl::new(law, &settings);
        let mut dctcp = flow(Law::Dctcp);
        let packet = Settings { growth: Growth::Packet, ..settings };
        let mut short = WindowControl::new(Law::Qtcp, &packet);
        short.set_target(FlowTarget::Throughput(Rate::new(1e300)));
        let mut same = [flow(Law::Qtcp), short, flow(interference()), flow(Law::D2tcp)];
        for (turn, seen) in (0..).zip(&history) {
            let decision = dctcp.step(Nanos(turn), seen);
            for other in &mut same {
                let theirs = other.step(Nanos(turn), seen);
                prop_assert_eq!(theirs.window.to_bits(), decision.window.to_bits());
                prop_assert_eq!(theirs, decision);
                prop_assert_eq!(other.report().alpha, dctcp.report().alpha);
            }
        }
    }

    /// A flow that has more than its target never keeps a larger window than one without a target.
    #[test]
    fn e1_a_window_shrinks_with_the_target(
        history in prop::collection::vec(likely(), 1..200),
        rate in 1_000_000..1_000_000_000_u32,
    ) {
        let mut flows = [(); 3].map(|()| WindowControl::qtcp());
        flows[0].set_target(FlowTarget::Throughput(Rate::new(f64::from(rate))));
        flows[1].set_target(FlowTarget::Throughput(Rate::new(2.0 * f64::from(rate))));
        for seen in &history {
            let [low, high, free] = flows.each_mut().map(|flow| flow.step(Nanos(0), seen).window);
            prop_assert!(low <= high && high <= free, "{low}, {high}, {free}");
        }
        // Four times the lower target without marks, until the earlier rate is forgotten; then a
        // mark.
        let (interval, rtt) = (Duration::from_secs(1), Duration::from_micros(100));
        let (delivered, bytes) = (1000, 4 * u64::from(rate));
        let trip =
            |marked| Observation { interval, delivered, marked, bytes, rtt, ..Observation::SEEN };
        for _ in 0..40 {
            flows.iter_mut().for_each(|flow| _ = flow.step(Nanos(0), &trip(0)));
        }
        let before = flows.each_ref().map(|flow| flow.decision().window);
        let after = flows.each_mut().map(|flow| flow.step(Nanos(0), &trip(500)).window);
        let left = [0, 1, 2].map(|flow| after[flow] / before[flow]);
        // Eq. 5: a mark leaves Q times as much of a window as without a target.
        for (part, quality) in left.iter().zip([0.25, 0.5, 1.0]) {
            let expected = left[2] * quality;
            prop_assert!((part / expected - 1.0).abs() < 1e-3, "{before:?} then {after:?}");
        }
    }
}
