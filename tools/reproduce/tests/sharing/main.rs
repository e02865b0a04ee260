//! Tests of the throughputs of flows that share a bottleneck.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod bottleneck;

use bottleneck::{Bottleneck, Flow, MSS};
use proptest::prelude::*;
use qtcp::Rate;
use reproduce::models::law::{FLOOR, Growth, Lambda, Law, SIGMA, Settings, WindowControl};
use sluice_sim::control::{Controller, Dcqcn, FlowTarget, Limits, Qrdma, dcqcn};

/// The parts of High, Medium and Low in all runs of the source.
const PARTS: [f64; 3] = [3.0 / 6.0, 2.0 / 6.0, 1.0 / 6.0];

const HUNDRED: Rate = Rate::from_bits(100e9);
const FORTY: Rate = Rate::from_bits(40e9);
const TEN: Rate = Rate::from_bits(10e9);

fn qtcp(rtt_us: u64) -> Flow {
    Flow::new(Box::new(WindowControl::qtcp()), rtt_us)
}

fn dctcp(rtt_us: u64) -> Flow {
    Flow::new(Box::new(WindowControl::dctcp()), rtt_us)
}

/// Makes a link with so many flows, which are aimed at the parts of High, Medium and Low.
fn link(capacity: Rate, threshold: f64, flows: Vec<Flow>) -> Bottleneck {
    let mut link = Bottleneck::new(capacity, threshold, flows);
    link.set_target(capacity, &PARTS);
    link
}

/// Computes the packets in a round trip that a threshold is set to (section 4.3.1 of the source).
fn threshold(capacity: Rate, rtt_us: u64) -> f64 {
    0.17 * capacity.bytes() / f64::from(MSS) * rtt_us as f64 / 1e6
}

/// Computes the largest deviation of a flow from its part of what all got, as a part of that part.
fn deviation(shares: &[f64], parts: &[f64]) -> f64 {
    let (all, of): (f64, f64) = (shares.iter().sum(), parts.iter().sum());
    let off = |(share, part): (&f64, &f64)| (share / all / (part / of) - 1.0).abs();
    shares.iter().zip(parts).map(off).fold(0.0, f64::max)
}

/// Computes the largest deviation of the last 50 windows from their mean, as a part of the mean.
fn swing(flow: &Flow) -> f64 {
    let last = &flow.windows[flow.windows.len() - 50..];
    let mean = last.iter().sum::<f64>() / 50.0;
    last.iter().map(|window| (window / mean - 1.0).abs()).fold(0.0, f64::max)
}

/// Draws weights, round-trip times up to `spread` per cent apart, and first windows of 2 to 6
/// flows.
fn flows(spread: u64) -> impl Strategy<Value = (u64, Vec<(u32, u64, f64)>)> {
    let flow = (1..5_u32, 0..=spread, 1.0..1000.0);
    (50..100_u64, prop::collection::vec(flow, 2..=6))
}

/// Runs such flows on 40 Gbit/s for 300 of the shortest round trips, with windows of 8 packets and more. Then each has
/// its part but for `off` of it, all have `used` of the link at the least, and no window is further from its mean than
/// `rests` of it.
fn settle(
    growth: Growth,
    (rtt_us, flows): (u64, Vec<(u32, u64, f64)>),
    (off, used, rests): (f64, f64, f64),
) -> Result<(), TestCaseError> {
    let sum: u32 = flows.iter().map(|flow| flow.0).sum();
    let parts: Vec<f64> = flows.iter().map(|flow| f64::from(flow.0) / f64::from(sum)).collect();
    let flow = |&(_, more, initial): &(u32, u64, f64)| {
        let limits = Limits { initial, ..Limits::default() };
        let settings = Settings { growth, limits, ..Settings::qtcp() };
        Flow::new(Box::new(WindowControl::new(Law::Qtcp, &settings)), rtt_us + rtt_us * more / 100)
    };
    let flows = flows.iter().map(flow).collect();
    let mut link = Bottleneck::new(FORTY, threshold(FORTY, rtt_us).max(40.0), flows);
    link.set_target(FORTY, &parts);
    link.run(300 * rtt_us);
    let shares = link.shares(100 * rtt_us);
    prop_assert!(deviation(&shares, &parts) < off, "{shares:.3?} for {parts:.3?}");
    prop_assert!(shares.iter().sum::<f64>() > used, "{shares:.3?}");
    for flow in &link.flows {
        prop_assert!(swing(flow) < rests, "{:.1?}", &flow.windows[flow.windows.len() - 50..]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Eq. 5. Most of the deviation is the packet that a window grows by: it weighs most where windows
    /// are small.
    #[test]
    fn e1_ratios_converge_from_any_start_and_windows_rest(flows in flows(0)) {
        settle(Growth::Packet, flows, (0.18, 0.97, 0.4))?;
    }

    /// The longest round trip is up to twice the shortest.
    #[test]
    fn e1_ratios_converge_where_round_trips_differ(flows in flows(100)) {
        settle(Growth::Quality, flows, (0.27, 0.95, f64::INFINITY))?;
    }

    #[test]
    fn e1_growth_by_target_brings_each_flow_to_its_part(flows in flows(0)) {
        settle(Growth::Target, flows, (0.05, 0.98, 0.2))?;
    }

    #[test]
    fn e1_growth_by_target_also_where_round_trips_differ(flows in flows(100)) {
        settle(Growth::Target, flows, (0.27, 0.94, f64::INFINITY))?;
    }
}

/// Fig. 12a has 48, 31 and 17 of 100 Gbit/s where 3:2:1 would be 50, 33 and 17.
#[test]
fn e7_shares_of_3_2_1_hold_within_five_percent() {
    for rtt_us in [25, 62] {
        for (flow, parts) in [(qtcp as fn(u64) -> Flow, PARTS), (dctcp, [1.0; 3])] {
            let mut link = link(HUNDRED, 140.0, (0..3).map(|_| flow(rtt_us)).collect());
            link.run(300 * rtt_us);
            let shares = link.shares(300 * rtt_us);
            assert!(deviation(&shares, &parts) < 0.05, "{shares:.3?} at {rtt_us} us");
            assert!(shares.iter().sum::<f64>() > 0.99, "{shares:.3?} at {rtt_us} us");
        }
    }
}

/// Fig. 9a: at 25 us all three are within a tenth of 1 after 100 round trips, and stay there.
#[test]
fn e1_quality_settles_around_one_and_stays() {
    let mut link = link(HUNDRED, 140.0, (0..3).map(|_| qtcp(25)).collect());
    link.run(40_000);
    for flow in &link.flows {
        assert!(flow.qualities.len() > 500);
        let later = &flow.qualities[100..];
        assert!(later.iter().all(|quality| (0.9..1.1).contains(quality)), "{later:.2?}");
    }
}

/// Growth by quality brings the class that lacks most to its target, when all have the same first.
#[test]
fn e1_growth_by_quality_puts_far_flows_in_order() {
    let share_of = |growth| {
        let settings = Settings { growth, ..Settings::qtcp() };
        let flow = |rtt_us| Flow::new(Box::new(WindowControl::new(Law::Qtcp, &settings)), rtt_us);
        let mut link = link(HUNDRED, 140.0, [100, 50, 25].map(flow).into());
        link.run(50_000);
        link.shares(50_000)
    };
    let shares = share_of(Growth::Quality);
    assert!(shares[0] > 1.15 * shares[1] && shares[1] > 1.5 * shares[2], "{shares:.3?}");
    let printed = share_of(Growth::Packet);
    assert!(printed[0] < shares[0], "{printed:.3?}");
}

/// Returns the time from when two flows join a third until all stay within 15 % of their parts for
/// 2 ms, in steps of 1 ms.
fn joined(mut link: Bottleneck, parts: &[f64; 3]) -> u32 {
    link.flows[1].active = false;
    link.flows[2].active = false;
    link.run(20_000);
    link.flows[1].active = true;
    link.flows[2].active = true;
    let mut good = 0;
    for passed in 1..400 {
        good = if deviation(&link.shares(1000), parts) < 0.15 { good + 1 } else { 0 };
        if good == 2 {
            return passed - 1;
        }
    }
    400
}

/// Fig. 10: at 98 us QTCP has its ratios at least 5 ms (50 round trips) before DCTCP is fair.
#[test]
fn e4_late_flows_converge_faster_than_dctcp() {
    let plain = joined(link(TEN, 20.0, (0..3).map(|_| dctcp(98)).collect()), &[1.0; 3]);
    let quality = joined(link(TEN, 20.0, (0..3).map(|_| qtcp(98)).collect()), &PARTS);
    assert!(quality + 5 <= plain, "{quality} ms with QTCP, {plain} ms with DCTCP");
}

/// Fig. 14a: a second flow of a class halves the target of each of the class; a flow of another
/// class keeps its part within 7 %.
#[test]
fn e8_a_new_flow_takes_of_its_class_alone() {
    for class in 0..3 {
        let mut link = link(FORTY, 60.0, (0..4).map(|_| qtcp(80)).collect());
        link.flows[3].active = false;
        link.run(40_000);
        let before = link.shares(20_000);

        let mut parts = vec![PARTS[0], PARTS[1], PARTS[2], PARTS[class] / 2.0];
        parts[class] /= 2.0;
        link.set_target(FORTY, &parts);
        link.flows[3].active = true;
        link.run(40_000);
        let after = link.shares(20_000);
        for other in (0..3).filter(|other| *other != class) {
            let change = after[other] / before[other] - 1.0;
            assert!(change.abs() < 0.07, "{before:.3?}, then {after:.3?}");
        }
        let two = [after[class], after[3]];
        assert!(deviation(&two, &[1.0; 2]) < 0.1, "equal in their class: {after:.3?}");

        link.flows[3].active = false;
        link.set_target(FORTY, &PARTS);
        link.run(40_000);
        let again = link.shares(20_000);
        assert!(deviation(&again, &before) < 0.03, "{before:.3?}, in the end {again:.3?}");
    }
}

/// Runs three classes alone, then beside a flow of DCTCP, then alone again, each for 100 ms; `each`
/// runs every round trip. Returns the shares in the last 20 ms of each.
fn beside_dctcp(
    mut flows: Vec<Flow>,
    mut each: impl FnMut(&mut Bottleneck, &[f64]),
) -> [Vec<f64>; 3] {
    flows.push(dctcp(100));
    let mut link = link(TEN, 40.0, flows);
    [false, true, false].map(|interfering| {
        link.flows[3].active = interfering;
        let mut all = [0.0; 4];
        for turn in 0..1000 {
            let shares = link.shares(100);
            each(&mut link, &shares);
            if turn >= 800 {
                all.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += share / 200.0);
            }
        }
        all.into()
    })
}

/// Fig. 14b, each flow with a lambda of its own: they back off for the flow that knows no classes,
/// and have their bandwidth back when it is gone.
#[test]
fn e8_flows_yield_to_interfering_flow_and_recover() {
    let law = Law::Interference(Lambda::new(TEN, SIGMA, FLOOR));
    let flow = |_| Flow::new(Box::new(WindowControl::new(law, &Settings::qtcp())), 100);
    let mut quality = 0.0;
    let [alone, beside, after] = beside_dctcp((0..3).map(flow).collect(), |link, _| {
        if link.flows[3].active {
            quality = link.flows[0].controller.report().quality;
        }
    });
    // High has 28 % of the 50 % available to it alone: its target has fallen to the rest.
    assert!((0.8..1.2).contains(&quality), "{quality:.3}");
    assert!(deviation(&alone[..3], &PARTS) < 0.08, "{alone:.3?}");
    assert!((0.2..0.3).contains(&beside[3]), "about its fair share: {beside:.3?}");
    assert!(beside[0] > 1.3 * beside[2] && beside[1] > 1.3 * beside[2], "{beside:.3?}");
    assert!(deviation(&after[..3], &alone[..3]) < 0.03, "{alone:.3?}, then {after:.3?}");
}

/// The same with one lambda for all, noted once in a round trip: beside the flow each keeps its
/// part of what all three have within 12 %.
#[test]
fn e8_common_lambda_preserves_ratio() {
    let mut lambda = Lambda::new(TEN, SIGMA, FLOOR);
    let mut had = 1.0;
    let [alone, beside, after] =
        beside_dctcp((0..3).map(|_| qtcp(100)).collect(), |link, shares| {
            had = 0.75 * had + 0.25 * shares[..3].iter().sum::<f64>();
            lambda.note(lambda.share() / had);
            link.set_target(lambda.rate(), &PARTS);
        });
    for shares in [&alone, &beside, &after] {
        assert!(deviation(&shares[..3], &PARTS) < 0.12, "{shares:.3?}");
        assert!(shares.iter().sum::<f64>() > 0.98, "{shares:.3?}");
    }
    assert!((0.2..0.33).contains(&beside[3]), "about its fair share: {beside:.3?}");
    assert!(after[3] < 0.01);
}

/// Of two flows in one queue, the flow with the longer target gives way (Eq. 2).
#[test]
fn e9_early_flows_yield_to_late_flows() {
    let mut link = Bottleneck::new(TEN, 40.0, (0..2).map(|_| qtcp(100)).collect());
    for (flow, target_us) in link.flows.iter_mut().zip([110, 180]) {
        flow.controller
            .set_target(FlowTarget::Latency(std::time::Duration::from_micros(target_us)));
    }
    link.run(40_000);
    let shares = link.shares(20_000);
    assert!(shares[0] > 2.0 * shares[1], "{shares:.3?}");
    assert!(shares.iter().sum::<f64>() > 0.95, "{shares:.3?}");
}

/// Runs rate-based flows on 40 Gbit/s with a round trip of 20 us. Returns their rates after 40 ms.
fn rate_based(flow: impl Fn() -> Box<dyn Controller>, parts: &[f64; 4]) -> Vec<f64> {
    let flows = (0..4).map(|_| Flow::paced(flow(), 20, 55)).collect();
    let mut link = Bottleneck::new(FORTY, 40.0, flows);
    link.set_target(FORTY, parts);
    link.run(40_000);
    link.shares(40_000)
}

/// Fig. 19b/c, with flows of QRDMA alone: 1:1.5:2:3.
#[test]
fn e11_qrdma_keeps_ratios_where_dcqcn_is_equal() {
    let parts = [1.0, 1.5, 2.0, 3.0].map(|weight| weight / 7.5);
    let settings = dcqcn::Settings::of(FORTY);
    let shares = rate_based(|| Box::new(Qrdma::new(&settings)), &parts);
    assert!(deviation(&shares, &parts) < 0.1, "{shares:.3?}");
    assert!(shares.iter().sum::<f64>() > 0.95, "{shares:.3?}");
    let equal = rate_based(|| Box::new(Dcqcn::new(&settings)), &parts);
    assert!(deviation(&equal, &[1.0; 4]) < 0.01, "{equal:.3?}");
}
