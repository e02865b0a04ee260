//! The cost of one step of a controller, and of one step of a link. A step of QTCP should take at
//! most 100 ns.
//!
//! ```text
//! cargo bench -p qtcp --bench step
//! ```

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use qtcp::control::{D2tcp, Dcqcn, Dctcp, InterferenceQtcp, Qrdma, Qtcp};
use qtcp::link::{ClassGoal, Link, Rules};
use qtcp::{Controller, FlowTarget, Nanos, Observation, Rate};
use units::{Class, PerClass};

const LINE: Rate = Rate::from_bits(100e9);

/// Makes round trips with and without marks, below and above the target.
fn history() -> Vec<Observation> {
    (0..64_u32)
        .map(|turn| Observation {
            interval: Duration::from_micros(100),
            delivered: 100 + turn * 7 % 100,
            marked: if turn % 3 == 0 { turn } else { 0 },
            bytes: u64::from(100 + turn * 7 % 100) * 1448,
            rtt: Duration::from_micros(90 + u64::from(turn)),
            mss: 1448,
            app_limited: turn % 16 == 5,
        })
        .collect()
}

fn steps(criterion: &mut Criterion) {
    let history = history();
    let controllers: [(&str, Box<dyn Controller>); 6] = [
        ("DCTCP", Box::new(Dctcp::default())),
        ("QTCP", Box::new(Qtcp::default())),
        ("QTCP with interference", Box::new(InterferenceQtcp::with_defaults(LINE))),
        ("D2TCP", Box::new(D2tcp::default())),
        ("DCQCN", Box::new(Dcqcn::default())),
        ("QRDMA", Box::new(Qrdma::default())),
    ];
    let mut group = criterion.benchmark_group("step");
    for (name, mut controller) in controllers {
        controller.set_target(FlowTarget::Throughput(Rate::from_bits(15e9)));
        let mut now = 0;
        let mut seen = history.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(name), |bench| {
            bench.iter(|| {
                now += 100_000;
                seen.next().map(|seen| controller.step(Nanos(now), black_box(seen)))
            });
        });
    }
}

/// Measures one observation of one of many flows of four classes on a link: targets and limit.
fn link(criterion: &mut Criterion) {
    let history = history();
    let mut group = criterion.benchmark_group("link");
    for flows in [3, 1000] {
        let goals = PerClass {
            urgent: ClassGoal::Free,
            high: ClassGoal::Share(3.0),
            medium: ClassGoal::Share(2.0),
            low: ClassGoal::Share(1.0),
        };
        let mut link = Link::new(goals, None, Rules::default());
        let classes = [Class::High, Class::Medium, Class::Low].into_iter().cycle();
        let ids: Vec<_> = classes.take(flows).map(|class| link.add(class)).collect();
        let mut all = ids.iter().cycle();
        let mut seen = history.iter().cycle();
        let mut now = 0;
        group.bench_function(BenchmarkId::new("observe, flows", flows), |bench| {
            bench.iter(|| {
                now += 100_000;
                let (flow, seen) = (all.next(), seen.next());
                flow.zip(seen).map(|(flow, seen)| link.observe(*flow, Nanos(now), black_box(seen)))
            });
        });
    }
}

criterion_group!(benches, steps, link);
criterion_main!(benches);
