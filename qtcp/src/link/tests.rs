//! Tests of limits on top of kernels' controllers, on the model of a bottleneck.

use core::time::Duration;

use units::Class;

use super::model::{BASE, Bottleneck, Kernel, per_class};
use super::{ClassGoal, Link, Rules};
use crate::{Nanos, Observation, Rate};

const KERNELS: [Kernel; 3] = [Kernel::Dctcp, Kernel::Cut(0.5), Kernel::Cut(0.7)];
const THREE: [ClassGoal; 3] = [ClassGoal::Share(3.0), ClassGoal::Share(2.0), ClassGoal::Share(1.0)];

/// Runs three flows, one of each class, for ten seconds after one to settle.
fn three(kernel: Kernel, mbit: f64, control: bool) -> (Vec<f64>, f64) {
    let mut bottleneck = Bottleneck::new(mbit, &THREE, control);
    for class in 0..3 {
        bottleneck.flow(Some(class), kernel, f64::INFINITY);
    }
    bottleneck.run(1.0);
    bottleneck.run(10.0);
    (bottleneck.rates(10.0), bottleneck.queued)
}

#[test]
fn e7_shares_hold_over_any_kernel_and_the_link_stays_full() {
    for kernel in KERNELS {
        for mbit in [100.0, 200.0, 1000.0] {
            let (plain, _) = three(kernel, mbit, false);
            let (rates, _) = three(kernel, mbit, true);
            let total: f64 = rates.iter().sum();
            let all: f64 = plain.iter().sum();
            assert!(plain[0] < 1.5 * plain[2], "without control they are alike: {plain:?}");
            assert!(total > 0.95 * all, "{kernel:?} {mbit}: {total:.3e} of {all:.3e}");
            for (rate, part) in rates.iter().zip([3.0, 2.0, 1.0]) {
                let off = rate / (total * part / 6.0) - 1.0;
                assert!(off.abs() < 0.05, "{kernel:?} {mbit}: {rates:?} {off:.3}");
            }
        }
    }
}

#[test]
fn e8_a_flow_that_comes_takes_from_its_own_class_and_leaves_to_it() {
    for kernel in KERNELS {
        let mut bottleneck = Bottleneck::new(200.0, &THREE, true);
        for class in [0, 1, 2] {
            bottleneck.flow(Some(class), kernel, f64::INFINITY);
        }
        bottleneck.run(1.0);
        bottleneck.run(5.0);
        let before = bottleneck.rates(5.0);
        let second = bottleneck.flow(Some(2), kernel, f64::INFINITY);
        bottleneck.run(0.5);
        bottleneck.run(5.0);
        let with = bottleneck.rates(5.0);
        for class in [0, 1] {
            assert!((with[class] / before[class] - 1.0).abs() < 0.06, "{before:?} {with:?}");
        }
        let low = with[2] + with[second];
        assert!((low / before[2] - 1.0).abs() < 0.1, "{kernel:?} {before:?} {with:?}");
        assert!((with[2] / with[second] - 1.0).abs() < 0.1, "{kernel:?} {with:?}");
        bottleneck.flows[second].on = false;
        bottleneck.flows[0].on = false;
        bottleneck.run(0.5);
        bottleneck.run(5.0);
        let after = bottleneck.rates(5.0);
        let total = after[1] + after[2];
        assert!(total > 0.85 * 200e6, "what is free is taken: {kernel:?} {after:?}");
        assert!((after[1] / total - 2.0 / 3.0).abs() < 0.05, "{kernel:?} {after:?}");
    }
}

#[test]
fn e8_all_give_way_to_a_flow_of_others_and_come_back() {
    for kernel in KERNELS {
        let mut bottleneck = Bottleneck::new(200.0, &THREE, true);
        for class in [0, 1, 2] {
            bottleneck.flow(Some(class), kernel, f64::INFINITY);
        }
        bottleneck.run(1.0);
        let other = bottleneck.flow(None, kernel, f64::INFINITY);
        bottleneck.run(1.0);
        bottleneck.run(5.0);
        let rates = bottleneck.rates(5.0);
        assert!(rates[other] > 20e6, "it is not starved: {kernel:?} {rates:?}");
        let ours: f64 = rates[..3].iter().sum();
        for (rate, part) in rates.iter().zip([3.0, 2.0, 1.0]) {
            assert!((rate / (ours * part / 6.0) - 1.0).abs() < 0.12, "{kernel:?} {rates:?}");
        }
        bottleneck.flows[other].on = false;
        bottleneck.run(1.0);
        bottleneck.run(5.0);
        let ours: f64 = bottleneck.rates(5.0)[..3].iter().sum();
        assert!(ours > 0.88 * 200e6, "they come back: {kernel:?} {ours:.3e}");
    }
}

#[test]
fn e7_a_class_that_wants_little_has_all_it_wants() {
    for kernel in KERNELS {
        let mut bottleneck = Bottleneck::new(200.0, &THREE, true);
        bottleneck.flow(Some(0), kernel, 20e6);
        bottleneck.flow(Some(1), kernel, f64::INFINITY);
        bottleneck.flow(Some(2), kernel, f64::INFINITY);
        bottleneck.run(1.0);
        bottleneck.run(10.0);
        let rates = bottleneck.rates(10.0);
        assert!(rates[0] > 18e6, "{kernel:?} {rates:?}");
        assert!((rates[1] / rates[2] - 2.0).abs() < 0.3, "{kernel:?} {rates:?}");
        assert!(rates.iter().sum::<f64>() > 0.88 * 200e6, "{kernel:?} {rates:?}");
    }
}

#[test]
fn e9_bulk_classes_leave_the_queue_to_a_class_with_a_latency_to_keep() {
    let target = Duration::from_micros(800);
    let goals = [ClassGoal::Latency(target), ClassGoal::Share(2.0), ClassGoal::Share(1.0)];
    let queue = |control| {
        let mut bottleneck = Bottleneck::new(200.0, &goals, control);
        bottleneck.flow(Some(0), Kernel::Dctcp, 2e6);
        bottleneck.flow(Some(1), Kernel::Dctcp, f64::INFINITY);
        bottleneck.flow(Some(2), Kernel::Dctcp, f64::INFINITY);
        bottleneck.run(3.0);
        bottleneck.run(10.0);
        (bottleneck.queued / bottleneck.capacity, bottleneck.rates(10.0))
    };
    let ((without, _), (with, rates)) = (queue(false), queue(true));
    assert!(without > 1.5e-3, "the marking threshold makes a queue: {without}");
    assert!(with + BASE < 1.1 * target.as_secs_f64(), "{with}");
    let bulk = rates[1] + rates[2];
    assert!(bulk > 0.75 * 200e6 && (rates[1] / rates[2] - 2.0).abs() < 0.2, "{rates:?}");
}

#[test]
fn flows_that_come_and_go_leave_nothing_behind() {
    let mut link = Link::new(per_class(&THREE), None, Rules::default());
    let seen = Observation {
        interval: Duration::from_millis(5),
        delivered: 10,
        marked: 10,
        bytes: 14_480,
        rtt: Duration::from_millis(1),
        mss: 1448,
        app_limited: false,
    };
    for round in 0..100_u64 {
        let flows = Class::ALL.map(|class| link.add(class));
        for flow in flows {
            let standing = link.observe(flow, Nanos(round * 1_000_000), &seen);
            assert!(standing.rate.bytes() > 2.8e6, "{standing:?}");
        }
        flows.into_iter().for_each(|flow| link.remove(flow));
    }
    assert!(link.demands.values().all(|demand| demand.backlogged == 0));
    assert!(link.total().bytes() < 1.0, "rounding alone: {:?}", link.total());
    assert!(link.flows.capacity() <= 4);
}

#[test]
fn e8_rates_come_first_where_they_take_all_there_is() {
    for kernel in KERNELS {
        let goals = [ClassGoal::Rate(Rate::from_bits(180e6)), ClassGoal::Share(1.0)];
        let mut bottleneck = Bottleneck::new(100.0, &goals, true);
        for class in 0..2 {
            bottleneck.flow(Some(class), kernel, f64::INFINITY);
        }
        bottleneck.run(1.0);
        bottleneck.run(5.0);
        let rates = bottleneck.rates(5.0);
        assert!(rates[0] > 70e6 && rates[1] > 0.25e6, "{kernel:?} {rates:?}");
    }
}

#[test]
fn e9_bulk_is_not_starved_for_a_latency_that_others_spoil() {
    for kernel in KERNELS {
        let goals = [ClassGoal::Latency(Duration::from_micros(250)), ClassGoal::Share(1.0)];
        let mut bottleneck = Bottleneck::new(200.0, &goals, true);
        bottleneck.flow(Some(0), kernel, 2e6);
        bottleneck.flow(Some(1), kernel, f64::INFINITY);
        bottleneck.flow(None, kernel, f64::INFINITY);
        bottleneck.run(5.0);
        bottleneck.run(10.0);
        let rates = bottleneck.rates(10.0);
        assert!(rates[1] > 15e6, "a quarter of its part at the least: {kernel:?} {rates:?}");
    }
}

#[test]
fn e7_shares_hold_among_many_flows_on_short_paths() {
    for kernel in KERNELS {
        let mut bottleneck = Bottleneck::new(1000.0, &THREE, true);
        for flow in 0..60 {
            bottleneck.flow(Some(flow / 20), kernel, f64::INFINITY);
        }
        bottleneck.run(1.0);
        bottleneck.run(3.0);
        let rates = bottleneck.rates(3.0);
        let total: f64 = rates.iter().sum();
        for (flows, part) in rates.chunks(20).zip([3.0, 2.0, 1.0]) {
            let off = flows.iter().sum::<f64>() / (total * part / 6.0) - 1.0;
            assert!(off.abs() < 0.05, "{kernel:?} {part}: {off:.3}");
        }
    }
}
