//! Limits on top of kernels' controllers, on a fluid model of a bottleneck: windows and limits in,
//! queue and marks out.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model: its numbers are small"
)]

use core::time::Duration;

use units::{Class, PerClass};

use super::{ClassFlowId, ClassGoal, Link, Rules};
use crate::{Nanos, Observation, Rate};

/// The kernel's answer to marks.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    /// Eq. 4.
    Dctcp,
    /// A cut once in a marked round trip, to this part (classic ECN: 0.5 Reno, 0.7 CUBIC).
    Cut(f64),
}

/// Gives goals to the first classes; the others are free.
fn per_class(goals: &[ClassGoal]) -> PerClass<ClassGoal> {
    PerClass::from_fn(|class| goals.get(class.number()).copied().unwrap_or_default())
}

const MSS: f64 = 1448.0;
const BASE: f64 = 200e-6;
/// The model's step in seconds, and how often flows are looked at.
const STEP: f64 = 100e-6;
const LOOK: u32 = 25;

#[derive(Debug)]
struct Flow {
    id: Option<ClassFlowId>,
    kernel: Kernel,
    window: f64,
    alpha: f64,
    limit: f64,
    /// The most that the flow would send, in bits per second.
    wants: f64,
    on: bool,
    // Counts since the last observation.
    bytes: f64,
    marked: f64,
    delivered: f64,
    // Counts since the last round trip.
    trip: f64,
    trip_marked: f64,
    trip_delivered: f64,
    was_limited: bool,
    /// The bytes since the start.
    total: f64,
}

#[derive(Debug)]
struct Water {
    capacity: f64,
    threshold: f64,
    queue: f64,
    queued: f64,
    now: f64,
    looks: u32,
    link: Link,
    control: bool,
    flows: Vec<Flow>,
    random: u64,
}

impl Water {
    fn new(mbit: f64, goals: &[ClassGoal], control: bool) -> Self {
        Self {
            capacity: mbit * 1e6 / 8.0,
            threshold: 60e3,
            queue: 0.0,
            queued: 0.0,
            now: 0.0,
            looks: 0,
            link: Link::new(per_class(goals), None, Rules::default()),
            control,
            flows: Vec::new(),
            random: 88_172_645_463_325_252,
        }
    }

    fn flow(&mut self, class: Option<usize>, kernel: Kernel, wants: f64) -> usize {
        let id = class.map(|class| self.link.add(Class::ALL[class]));
        self.flows.push(Flow {
            id,
            kernel,
            window: 10.0,
            alpha: 0.0,
            limit: f64::INFINITY,
            wants: wants / 8.0,
            on: true,
            bytes: 0.0,
            marked: 0.0,
            delivered: 0.0,
            trip: 0.0,
            trip_marked: 0.0,
            trip_delivered: 0.0,
            was_limited: false,
            total: 0.0,
        });
        self.flows.len() - 1
    }

    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + seconds;
        for flow in &mut self.flows {
            flow.total = 0.0;
        }
        self.queued = 0.0;
        while self.now < end {
            self.step();
        }
        self.queued /= seconds;
    }

    fn step(&mut self) {
        self.now += STEP;
        let rtt = BASE + self.queue / self.capacity;
        let mut sent = Vec::with_capacity(self.flows.len());
        for index in 0..self.flows.len() {
            // Bursts: what a flow sends in a step is not smooth.
            let noise = 0.5 + self.random();
            let flow = &mut self.flows[index];
            let by_window = flow.window * MSS / rtt;
            flow.was_limited = flow.limit.min(flow.wants) < by_window;
            let rate = by_window.min(flow.limit).min(flow.wants);
            sent.push(if flow.on { rate * STEP * noise } else { 0.0 });
        }
        let offered: f64 = sent.iter().sum();
        let served = (self.queue + offered).min(self.capacity * STEP);
        let marked = self.queue > self.threshold;
        let share = if offered > 0.0 { served / offered } else { 0.0 };
        self.queue = self.queue + offered - served;
        self.queued += self.queue * STEP;
        for (flow, sent) in self.flows.iter_mut().zip(&sent) {
            // FIFO: what is served is in the ratio of what was offered.
            let got = sent * share.min(1.0);
            let got = if share > 1.0 { *sent } else { got };
            flow.total += got;
            flow.bytes += got;
            let packets = got / MSS;
            flow.delivered += packets;
            flow.trip_delivered += packets;
            if marked {
                flow.marked += packets;
                flow.trip_marked += packets;
            }
            flow.trip += STEP;
            if flow.trip >= rtt {
                flow.end_trip();
            }
        }
        self.looks += 1;
        if self.looks.is_multiple_of(LOOK) {
            self.look(rtt);
        }
    }

    fn look(&mut self, rtt: f64) {
        let now = Nanos((self.now * 1e9) as u64);
        for flow in &mut self.flows {
            let Some(id) = flow.id else { continue };
            let seen = Observation {
                interval: Duration::from_secs_f64(STEP * f64::from(LOOK)),
                delivered: flow.delivered.ceil() as u32,
                marked: flow.marked.round() as u32,
                bytes: flow.bytes as u64,
                rtt: Duration::from_secs_f64(rtt),
                mss: 1448,
                app_limited: !flow.on || flow.wants < flow.limit.min(flow.window * MSS / rtt),
            };
            (flow.bytes, flow.marked, flow.delivered) = (0.0, 0.0, 0.0);
            let standing = self.link.observe(id, now, &seen);
            if self.control {
                flow.limit = standing.limit.map_or(f64::INFINITY, Rate::bytes);
            }
        }
    }

    /// Bits per second of each flow in the last run, which took this many seconds.
    fn rates(&self, seconds: f64) -> Vec<f64> {
        self.flows.iter().map(|flow| flow.total * 8.0 / seconds).collect()
    }
}

impl Flow {
    fn end_trip(&mut self) {
        let f =
            if self.trip_delivered > 0.0 { self.trip_marked / self.trip_delivered } else { 0.0 };
        self.alpha = self.alpha * (15.0 / 16.0) + f / 16.0;
        if f > 0.0 {
            self.window *= match self.kernel {
                Kernel::Dctcp => 1.0 - self.alpha / 2.0,
                Kernel::Cut(part) => part,
            };
        } else if !self.was_limited {
            self.window += 1.0;
        }
        self.window = self.window.max(2.0);
        (self.trip, self.trip_marked, self.trip_delivered) = (0.0, 0.0, 0.0);
    }
}

const KERNELS: [Kernel; 3] = [Kernel::Dctcp, Kernel::Cut(0.5), Kernel::Cut(0.7)];
const THREE: [ClassGoal; 3] = [ClassGoal::Share(3.0), ClassGoal::Share(2.0), ClassGoal::Share(1.0)];

/// Runs three flows, one of each class, for ten seconds after one to settle.
fn three(kernel: Kernel, mbit: f64, control: bool) -> (Vec<f64>, f64) {
    let mut water = Water::new(mbit, &THREE, control);
    for class in 0..3 {
        water.flow(Some(class), kernel, f64::INFINITY);
    }
    water.run(1.0);
    water.run(10.0);
    (water.rates(10.0), water.queued)
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
        let mut water = Water::new(200.0, &THREE, true);
        for class in [0, 1, 2] {
            water.flow(Some(class), kernel, f64::INFINITY);
        }
        water.run(1.0);
        water.run(5.0);
        let before = water.rates(5.0);
        let second = water.flow(Some(2), kernel, f64::INFINITY);
        water.run(0.5);
        water.run(5.0);
        let with = water.rates(5.0);
        for class in [0, 1] {
            assert!((with[class] / before[class] - 1.0).abs() < 0.06, "{before:?} {with:?}");
        }
        let low = with[2] + with[second];
        assert!((low / before[2] - 1.0).abs() < 0.1, "{kernel:?} {before:?} {with:?}");
        assert!((with[2] / with[second] - 1.0).abs() < 0.1, "{kernel:?} {with:?}");
        water.flows[second].on = false;
        water.flows[0].on = false;
        water.run(0.5);
        water.run(5.0);
        let after = water.rates(5.0);
        let total = after[1] + after[2];
        assert!(total > 0.85 * 200e6, "what is free is taken: {kernel:?} {after:?}");
        assert!((after[1] / total - 2.0 / 3.0).abs() < 0.05, "{kernel:?} {after:?}");
    }
}

#[test]
fn e8_all_give_way_to_a_flow_of_others_and_come_back() {
    for kernel in KERNELS {
        let mut water = Water::new(200.0, &THREE, true);
        for class in [0, 1, 2] {
            water.flow(Some(class), kernel, f64::INFINITY);
        }
        water.run(1.0);
        let other = water.flow(None, kernel, f64::INFINITY);
        water.run(1.0);
        water.run(5.0);
        let rates = water.rates(5.0);
        assert!(rates[other] > 20e6, "it is not starved: {kernel:?} {rates:?}");
        let ours: f64 = rates[..3].iter().sum();
        for (rate, part) in rates.iter().zip([3.0, 2.0, 1.0]) {
            assert!((rate / (ours * part / 6.0) - 1.0).abs() < 0.12, "{kernel:?} {rates:?}");
        }
        water.flows[other].on = false;
        water.run(1.0);
        water.run(5.0);
        let ours: f64 = water.rates(5.0)[..3].iter().sum();
        assert!(ours > 0.88 * 200e6, "they come back: {kernel:?} {ours:.3e}");
    }
}

#[test]
fn e7_a_class_that_wants_little_has_all_it_wants() {
    for kernel in KERNELS {
        let mut water = Water::new(200.0, &THREE, true);
        water.flow(Some(0), kernel, 20e6);
        water.flow(Some(1), kernel, f64::INFINITY);
        water.flow(Some(2), kernel, f64::INFINITY);
        water.run(1.0);
        water.run(10.0);
        let rates = water.rates(10.0);
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
        let mut water = Water::new(200.0, &goals, control);
        water.flow(Some(0), Kernel::Dctcp, 2e6);
        water.flow(Some(1), Kernel::Dctcp, f64::INFINITY);
        water.flow(Some(2), Kernel::Dctcp, f64::INFINITY);
        water.run(3.0);
        water.run(10.0);
        (water.queued / water.capacity, water.rates(10.0))
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
        let mut water = Water::new(100.0, &goals, true);
        for class in 0..2 {
            water.flow(Some(class), kernel, f64::INFINITY);
        }
        water.run(1.0);
        water.run(5.0);
        let rates = water.rates(5.0);
        assert!(rates[0] > 70e6 && rates[1] > 1e6, "{kernel:?} {rates:?}");
    }
}

#[test]
fn e9_bulk_is_not_starved_for_a_latency_that_others_spoil() {
    for kernel in KERNELS {
        let goals = [ClassGoal::Latency(Duration::from_micros(250)), ClassGoal::Share(1.0)];
        let mut water = Water::new(200.0, &goals, true);
        water.flow(Some(0), kernel, 2e6);
        water.flow(Some(1), kernel, f64::INFINITY);
        water.flow(None, kernel, f64::INFINITY);
        water.run(5.0);
        water.run(10.0);
        let rates = water.rates(10.0);
        assert!(rates[1] > 15e6, "a quarter of its part at the least: {kernel:?} {rates:?}");
    }
}

#[test]
fn e7_shares_hold_among_many_flows_on_short_ways() {
    for kernel in KERNELS {
        let mut water = Water::new(1000.0, &THREE, true);
        for flow in 0..60 {
            water.flow(Some(flow / 20), kernel, f64::INFINITY);
        }
        water.run(1.0);
        water.run(3.0);
        let rates = water.rates(3.0);
        let total: f64 = rates.iter().sum();
        for (flows, part) in rates.chunks(20).zip([3.0, 2.0, 1.0]) {
            let off = flows.iter().sum::<f64>() / (total * part / 6.0) - 1.0;
            assert!(off.abs() < 0.05, "{kernel:?} {part}: {off:.3}");
        }
    }
}
