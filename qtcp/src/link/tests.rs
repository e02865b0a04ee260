//! Tests of limits on top of kernels' controllers, on the model of a bottleneck.

use core::time::Duration;

use units::Class;

use super::model::{BASE, Bottleneck, Kernel, per_class};
use super::{ClassGoal, Link, Rules};
use crate::{Nanos, Observation, Rate};

const KERNELS: [Kernel; 3] = [Kernel::Dctcp, Kernel::Cut(0.5), Kernel::Cut(0.7)];
const THREE: [ClassGoal; 3] = [ClassGoal::Share(3.0), ClassGoal::Share(2.0), ClassGoal::Share(1.0)];
/// The demand of a flow that uses any rate.
const ALL: f64 = f64::INFINITY;

/// A flow of each of three classes that takes all it gets.
const EACH: [(Option<usize>, f64); 3] = [(Some(0), ALL), (Some(1), ALL), (Some(2), ALL)];

/// Makes a link with flows: the class of each, if it is ours, and the bits per second that it wants.
fn link(
    mbit: f64,
    goals: &[ClassGoal],
    kernel: Kernel,
    flows: &[(Option<usize>, f64)],
) -> Bottleneck {
    let mut bottleneck = Bottleneck::new(mbit, goals, true);
    for (class, wants) in flows {
        bottleneck.flow(*class, kernel, *wants);
    }
    bottleneck
}

/// Runs flows for some seconds until they settle. Returns their rates in the seconds after that, in bit/s.
fn rates(bottleneck: &mut Bottleneck, settle: f64, seconds: f64) -> Vec<f64> {
    bottleneck.run(settle);
    bottleneck.run(seconds);
    bottleneck.rates(seconds)
}

/// Returns the largest deviation of flows from 3:2:1, relative to the due part of each.
fn deviation(rates: &[f64]) -> f64 {
    let total: f64 = rates.iter().sum();
    let parts = rates.iter().zip([3.0, 2.0, 1.0]);
    parts.map(|(rate, part)| (rate / (total * part / 6.0) - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn e7_shares_hold_with_any_kernel_at_full_link() {
    for kernel in KERNELS {
        for mbit in [100.0, 200.0, 1000.0] {
            let [plain, rates] = [false, true].map(|control| {
                let mut bottleneck = link(mbit, &THREE, kernel, &EACH);
                bottleneck.control = control;
                rates(&mut bottleneck, 1.0, 10.0)
            });
            let (total, all): (f64, f64) = (rates.iter().sum(), plain.iter().sum());
            assert!(plain[0] < 1.5 * plain[2], "without control they are alike: {plain:?}");
            assert!(total > 0.95 * all, "{kernel:?} {mbit}: {total:.3e} of {all:.3e}");
            assert!(deviation(&rates) < 0.05, "{kernel:?} {mbit}: {rates:?}");
        }
    }
}

#[test]
fn e8_new_flow_shares_with_its_own_class() {
    for kernel in KERNELS {
        let mut bottleneck = link(200.0, &THREE, kernel, &EACH);
        let before = rates(&mut bottleneck, 1.0, 5.0);
        let second = bottleneck.flow(Some(2), kernel, ALL);
        let with = rates(&mut bottleneck, 0.5, 5.0);
        for class in [0, 1] {
            assert!((with[class] / before[class] - 1.0).abs() < 0.06, "{before:?} {with:?}");
        }
        let low = with[2] + with[second];
        assert!((low / before[2] - 1.0).abs() < 0.1, "{kernel:?} {before:?} {with:?}");
        assert!((with[2] / with[second] - 1.0).abs() < 0.1, "{kernel:?} {with:?}");
        bottleneck.flows[second].on = false;
        bottleneck.flows[0].on = false;
        let after = rates(&mut bottleneck, 0.5, 5.0);
        let total = after[1] + after[2];
        assert!(total > 0.85 * 200e6, "what is free is taken: {kernel:?} {after:?}");
        assert!((after[1] / total - 2.0 / 3.0).abs() < 0.05, "{kernel:?} {after:?}");
    }
}

#[test]
fn e8_flows_yield_to_foreign_flow_and_recover() {
    for kernel in KERNELS {
        let mut bottleneck = link(200.0, &THREE, kernel, &EACH);
        bottleneck.run(1.0);
        let other = bottleneck.flow(None, kernel, ALL);
        let beside = rates(&mut bottleneck, 3.0, 5.0);
        assert!(beside[other] > 20e6, "it is not starved: {kernel:?} {beside:?}");
        assert!(deviation(&beside[..3]) < 0.12, "{kernel:?} {beside:?}");
        bottleneck.flows[other].on = false;
        let ours: f64 = rates(&mut bottleneck, 1.0, 5.0)[..3].iter().sum();
        assert!(ours > 0.88 * 200e6, "they come back: {kernel:?} {ours:.3e}");
    }
}

#[test]
fn e7_class_with_low_demand_gets_all() {
    for kernel in KERNELS {
        let flows = [(Some(0), 20e6), (Some(1), ALL), (Some(2), ALL)];
        let rates = rates(&mut link(200.0, &THREE, kernel, &flows), 1.0, 10.0);
        assert!(rates[0] > 18e6, "{kernel:?} {rates:?}");
        assert!((rates[1] / rates[2] - 2.0).abs() < 0.3, "{kernel:?} {rates:?}");
        assert!(rates.iter().sum::<f64>() > 0.88 * 200e6, "{kernel:?} {rates:?}");
    }
}

#[test]
fn e9_bulk_classes_yield_queue_to_latency_class() {
    let target = Duration::from_micros(800);
    let goals = [ClassGoal::Latency(target), ClassGoal::Share(2.0), ClassGoal::Share(1.0)];
    let [(without, _), (with, bulk)] = [false, true].map(|control| {
        let flows = [(Some(0), 2e6), (Some(1), ALL), (Some(2), ALL)];
        let mut bottleneck = link(200.0, &goals, Kernel::Dctcp, &flows);
        bottleneck.control = control;
        let rates = rates(&mut bottleneck, 3.0, 10.0);
        (bottleneck.queued / bottleneck.capacity, [rates[1], rates[2]])
    });
    assert!(without > 1.5e-3, "the marking threshold makes a queue: {without}");
    assert!(with + BASE < 1.1 * target.as_secs_f64(), "{with}");
    assert!(bulk[0] + bulk[1] > 0.75 * 200e6, "{bulk:?}");
    assert!((bulk[0] / bulk[1] - 2.0).abs() < 0.2, "{bulk:?}");
}

#[test]
fn flows_that_come_and_go_leave_nothing_behind() {
    let mut link = Link::new(per_class(&THREE), None, Rules::default());
    let seen = Observation { marked: 100, bytes: 2896, ..Observation::SEEN };
    for round in 0..100_u64 {
        let flows = Class::ALL.map(|class| link.add(class));
        for flow in flows {
            let standing = link.observe(flow, Nanos(round * 1_000_000), &seen);
            assert!(standing.rate.bytes() > 2.8e6, "{standing:?}");
        }
        flows.into_iter().for_each(|flow| link.remove(flow));
    }
    assert!(Class::ALL.iter().all(|&class| !link.is_backlogged(class)));
    assert!(link.total().bytes() < 1.0, "rounding alone: {:?}", link.total());
    assert!(link.flows.capacity() <= 4);
}

#[test]
fn e8_rates_come_first_where_they_take_all_there_is() {
    for kernel in KERNELS {
        let goals = [ClassGoal::Rate(Rate::from_bits(180e6)), ClassGoal::Share(1.0)];
        let flows = [(Some(0), ALL), (Some(1), ALL)];
        let rates = rates(&mut link(100.0, &goals, kernel, &flows), 1.0, 5.0);
        assert!(rates[0] > 70e6 && rates[1] > 0.25e6, "{kernel:?} {rates:?}");
    }
}

#[test]
fn e9_bulk_is_not_starved_for_unattainable_latency() {
    for kernel in KERNELS {
        let goals = [ClassGoal::Latency(Duration::from_micros(250)), ClassGoal::Share(1.0)];
        let flows = [(Some(0), 2e6), (Some(1), ALL), (None, ALL)];
        let rates = rates(&mut link(200.0, &goals, kernel, &flows), 5.0, 10.0);
        assert!(rates[1] > 15e6, "a quarter of its part at the least: {kernel:?} {rates:?}");
    }
}

#[test]
fn e7_shares_hold_among_many_flows_on_short_paths() {
    for kernel in KERNELS {
        let flows: Vec<_> = (0..60).map(|flow| (Some(flow / 20), ALL)).collect();
        let rates = rates(&mut link(1000.0, &THREE, kernel, &flows), 1.0, 3.0);
        let classes: Vec<f64> = rates.chunks(20).map(|flows| flows.iter().sum()).collect();
        assert!(deviation(&classes) < 0.05, "{kernel:?}: {classes:?}");
    }
}
