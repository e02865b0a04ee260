//! The cost of one step of a link.
//!
//! ```text
//! cargo bench -p qtcp --bench step
//! ```

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use qtcp::link::{ClassGoal, Link, Rules};
use qtcp::{Nanos, Observation};
use units::{Class, PerClass};

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

/// Measures one observation of one of many flows of four classes on a link: targets and limit.
fn link(criterion: &mut Criterion) {
    let history = history();
    let mut group = criterion.benchmark_group("link");
    for flows in [3, 1000] {
        let [high, medium, low] = [3.0, 2.0, 1.0].map(ClassGoal::Share);
        let goals = PerClass { urgent: ClassGoal::Free, high, medium, low };
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

criterion_group!(benches, link);
criterion_main!(benches);
