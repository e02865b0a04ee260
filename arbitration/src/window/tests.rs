use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;
use units::Calendar;

use super::*;
use crate::testing::{MS, SECOND};

/// A device that works at `parallel` commands at once, in the order they come.
struct Device {
    parallel: usize,
    /// When places become free.
    free: Calendar<(), u64>,
}

impl Device {
    fn new(parallel: usize) -> Self {
        let mut free = Calendar::new();
        (0..parallel).for_each(|_| free.insert(0, ()));
        Self { parallel, free }
    }

    /// Returns the time at which a command that comes now and takes this long is complete.
    fn complete(&mut self, now: u64, work: u64) -> u64 {
        let (free, ()) = self.free.pop_due(u64::MAX).expect("parallel is at least 1");
        let done = free.max(now) + work;
        self.free.insert(done, ());
        done
    }
}

/// One kind of command.
#[derive(Clone, Copy, Debug)]
struct Kind {
    write: bool,
    bytes: u32,
    /// Time that the device works at it, in ns.
    work: u64,
}

const fn read(work: u64) -> Kind {
    Kind { write: false, bytes: 4096, work }
}

/// Reads that take this long on average: all of them, between half and half as long again, or with
/// a tail: few take three times as long, most less than the average.
fn reads(work: u64, uneven: usize) -> Vec<Kind> {
    let per_cent: [&[u64]; 3] =
        [&[100], &[100, 150, 100, 50], &[140, 5, 60, 330, 15, 105, 45, 195, 30, 75]];
    per_cent[uneven].iter().map(|per_cent| read(work * per_cent / 100)).collect()
}

/// The outcome of a run.
#[derive(Debug, Default)]
struct Run {
    completed: u64,
    /// Sum of times in the device, of all and of writes.
    times: u64,
    writes: u64,
    write_times: u64,
    /// Sum of the times that the device worked, in ns.
    worked: u64,
    span: u64,
}

impl Run {
    fn mean(&self) -> f64 {
        self.times as f64 / self.completed as f64
    }

    /// Returns the part of the device's time that was used.
    fn busy(&self, device: &Device) -> f64 {
        self.worked as f64 / (self.span * device.parallel as u64) as f64
    }
}

/// A window and a device, with at most `offered` commands waiting or in the device at any time.
struct Bench {
    window: Window,
    device: Device,
    kinds: Vec<Kind>,
    offered: usize,
    now: u64,
    next: usize,
    /// Commands in the device, by their completion: begin, price and kind.
    inside: Calendar<(u64, u32, usize), u64>,
}

impl Bench {
    fn new(rule: WindowRule, parallel: usize, kinds: &[Kind]) -> Self {
        Self {
            window: Window::new(rule),
            device: Device::new(parallel),
            kinds: kinds.to_vec(),
            offered: usize::MAX,
            now: SECOND,
            next: 0,
            inside: Calendar::new(),
        }
    }

    fn run(&mut self, span: u64) -> Run {
        let mut run = Run { span, ..Run::default() };
        let end = self.now + span;
        self.dispatch();
        while let Some((done, (begun, price, kind))) = self.inside.pop_due(end - 1) {
            self.now = done;
            let (kind, service) = (self.kinds[kind], done - begun);
            self.window.give(Nanos(done), price, kind.write, kind.bytes, service);
            run.completed += 1;
            run.times += service;
            run.worked += kind.work;
            run.writes += u64::from(kind.write);
            run.write_times += if kind.write { service } else { 0 };
            self.dispatch();
        }
        self.now = end;
        run
    }

    fn dispatch(&mut self) {
        while self.inside.len() < self.offered {
            let which = self.next % self.kinds.len();
            let kind = self.kinds[which];
            let price = self.window.price(kind.write, kind.bytes);
            if !self.window.take(price) {
                return;
            }
            self.next += 1;
            let done = self.device.complete(self.now, kind.work);
            self.inside.insert(done, (self.now, price, which));
        }
    }
}

const fn adaptive(target: u64) -> WindowRule {
    WindowRule::Adaptive { target: Nanos(target), max: 1024 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn adaptive_window_keeps_latency_and_utilisation(
        parallel in 1_usize..64,
        work in 50_000_u64..2_000_000,
        room in 125_u64..2000,
        uneven in 0_usize..3,
    ) {
        let work = work.max(parallel as u64 * 10_000);
        let target = work * room / 100;
        let mut bench = Bench::new(adaptive(target), parallel, &reads(work, uneven));
        bench.run(4 * SECOND);
        let run = bench.run(3 * SECOND);
        let depth = bench.window.depth();
        prop_assert!(run.mean() <= target as f64 * 1.01, "{} ns at {depth:?}", run.mean());
        prop_assert!(run.busy(&bench.device) >= 0.95, "{} at {depth:?}", run.busy(&bench.device));
    }

    #[test]
    fn infeasible_latency_costs_no_throughput(
        parallel in 2_usize..64,
        work in 100_000_u64..2_000_000,
        room in 5_u64..90,
        uneven in 0_usize..3,
    ) {
        let work = work.max(parallel as u64 * 10_000);
        let rule = adaptive(work * room / 100);
        let mut bench = Bench::new(rule, parallel, &reads(work, uneven));
        bench.run(4 * SECOND);
        let run = bench.run(3 * SECOND);
        let depth = bench.window.depth();
        let times = run.mean() / work as f64;
        prop_assert!(times <= 1.6, "{times} times the least at {depth:?}");
        prop_assert!(run.busy(&bench.device) >= 0.9, "{} at {depth:?}", run.busy(&bench.device));
    }

    #[test]
    fn use_never_exceeds_depth_and_is_returned(
        depth in 1_u32..20,
        commands in prop::collection::vec((any::<bool>(), 0_u32..2_000_000, any::<bool>()), 1..100),
    ) {
        let window = Window::new(WindowRule::Fixed(depth));
        let mut held: Vec<(u32, bool, u32)> = Vec::new();
        for (write, bytes, leave) in commands {
            let price = window.price(write, bytes);
            let sum: u32 = held.iter().map(|(price, ..)| price).sum();
            let fits = sum + price <= depth * SLOT || sum == 0;
            prop_assert_eq!(window.take(price), fits);
            if fits {
                held.push((price, write, bytes));
            }
            if leave && let Some((price, write, bytes)) = held.pop() {
                window.give(Nanos(1), price, write, bytes, 1);
            }
        }
        held.into_iter().for_each(|(price, ..)| window.put_back(price));
        prop_assert_eq!(window.in_use(), 0.0);
    }
}

#[test]
fn adaptive_window_follows_device_speed() {
    let mut bench = Bench::new(adaptive(2 * MS), 8, &[read(200_000)]);
    bench.run(SECOND);
    for (work, settling) in [(200_000, SECOND), (1_000_000, SECOND), (100_000, SECOND)] {
        bench.kinds = vec![read(work)];
        bench.run(settling);
        let run = bench.run(2 * SECOND);
        assert!(run.mean() <= 2.02 * MS as f64, "{} ns with {work}", run.mean());
        assert!(run.busy(&bench.device) >= 0.95, "{} with {work}", run.busy(&bench.device));
        let ideal = 8.0 * 2.0 * MS as f64 / work as f64;
        let depth = bench.window.depth().expect("adaptive");
        assert!(depth > ideal * 0.7 && depth <= ideal * 1.1, "{depth} of {ideal} with {work}");
    }
}

#[test]
fn infeasible_latency_leaves_one_command() {
    let mut bench = Bench::new(adaptive(MS), 1, &[read(3 * MS)]);
    bench.run(5 * SECOND);
    assert_eq!(bench.window.depth(), Some(1.0));
    let run = bench.run(3 * SECOND);
    assert!(run.busy(&bench.device) > 0.95, "one after the other: {run:?}");
}

#[test]
fn unfilled_window_shrinks_to_use() {
    let mut bench = Bench::new(adaptive(2 * MS), 4, &[read(100_000)]);
    bench.offered = 8;
    bench.run(SECOND);
    assert_eq!(bench.window.depth(), Some(32.0), "eight at a time say nothing about more");
    bench.kinds = vec![read(MS * 3 / 2)];
    bench.run(SECOND);
    assert!(bench.window.depth() < Some(6.0), "eight at a time are late already");
}

#[test]
fn mixed_load_keeps_latency_and_prices() {
    let write = Kind { write: true, bytes: 4096, work: 800_000 };
    let kinds = [read(100_000), read(100_000), read(100_000), write];
    let mut bench = Bench::new(adaptive(4 * MS), 16, &kinds);
    bench.run(2 * SECOND);
    let run = bench.run(2 * SECOND);
    assert!(run.mean() <= 4.04 * MS as f64, "{} ns", run.mean());
    assert!(run.busy(&bench.device) >= 0.95, "{}", run.busy(&bench.device));
    assert!(run.writes > 0 && run.write_times / run.writes > run.times / run.completed);
    assert!(bench.window.price(true, 4096) > SLOT, "writes cost more");
}

#[test]
fn write_price_follows_cost_from_1_to_16() {
    for (write, times) in [(50_000, 1.0), (100_000, 1.0), (400_000, 4.0), (5_000_000, 16.0)] {
        let bytes = 16384;
        let kinds = [
            Kind { write: false, bytes, work: 100_000 },
            Kind { write: true, bytes, work: write },
            Kind { write: false, bytes: 4096, work: 20_000 },
        ];
        // No deeper than the device is wide: nothing waits inside it.
        let mut bench = Bench::new(WindowRule::Fixed(16), 16, &kinds);
        assert_eq!(bench.window.price(true, bytes), SLOT, "not known yet");
        bench.run(3 * SECOND);
        let price = f64::from(bench.window.price(true, bytes)) / f64::from(SLOT);
        assert!((price / times - 1.0).abs() < 0.1, "{price} for {times}");
        assert_eq!(bench.window.price(false, bytes), SLOT);
    }
}

#[test]
fn large_commands_pay_in_proportion() {
    let window = Window::default();
    for (bytes, price) in [
        (0, SLOT),
        (512, SLOT),
        (128 << 10, SLOT),
        (192 << 10, SLOT * 3 / 2),
        (1 << 20, 8 * SLOT),
        (u32::MAX, (32768 * SLOT) - 1),
    ] {
        assert_eq!(window.price(false, bytes), price, "{bytes}");
    }
}

#[test]
fn large_commands_are_measured_by_their_size() {
    let large = Kind { write: false, bytes: 1 << 20, work: 4 * MS };
    let mut bench = Bench::new(adaptive(2 * MS), 4, &[large]);
    bench.run(2 * SECOND);
    let run = bench.run(2 * SECOND);
    assert!(run.busy(&bench.device) >= 0.95, "0.5 ms for each 128 KiB is within 2 ms: {run:?}");
}

#[test]
fn off_lets_everything_in_and_still_counts() {
    let window = Window::new(WindowRule::Off);
    assert!((0..5000).all(|_| window.take(SLOT)));
    assert_eq!((window.depth(), window.in_use(), window.has_room()), (None, 5000.0, true));
    window.set(WindowRule::Fixed(4));
    assert!(!window.take(SLOT) && !window.has_room(), "more than that is still inside");
    (0..4997).for_each(|_| window.put_back(SLOT));
    assert!(window.has_room() && window.take(SLOT) && !window.take(SLOT));
}

#[test]
fn a_fixed_window_stays_when_it_was_adaptive_before() {
    let mut bench = Bench::new(adaptive(2 * MS), 8, &[read(100_000)]);
    bench.run(SECOND);
    bench.window.set(WindowRule::Fixed(5));
    bench.run(SECOND);
    assert_eq!(bench.window.depth(), Some(5.0));
    bench.window.set(adaptive(2 * MS));
    assert_eq!(bench.window.depth(), Some(5.0), "begins where it was");
}

#[test]
fn threads_together_never_hold_more_than_the_depth() {
    let window = Window::new(WindowRule::Fixed(3));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for turn in 0..20_000_u64 {
                    let price = window.price(false, 4096) + u32::try_from(turn % 100).unwrap();
                    if window.take(price) {
                        over.fetch_or(window.in_use() > 3.0, Relaxed);
                        window.give(Nanos(turn * 1000), price, turn % 2 == 0, 4096, 1000);
                    }
                }
            });
        }
    });
    assert!(!over.into_inner());
    assert_eq!(window.in_use(), 0.0);
}
