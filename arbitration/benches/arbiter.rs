//! The cost of a command in the arbiter. `cost.rs` prints the same as a table.

#[expect(dead_code, reason = "the table of costs uses the rest")]
mod scene;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use scene::Scene;

fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue, dispatch and complete");
    for (sessions, queued) in [(1, 64), (10, 1000), (1000, 10_000), (1000, 100_000)] {
        let name = format!("{sessions} sessions, {queued} queued");
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            let mut scene = Scene::new(sessions, queued);
            b.iter(|| scene.turns(1));
        });
    }
    group.bench_function("the benchmark itself", |b| {
        let mut scene = Scene::new(1000, 0);
        b.iter(|| scene.nothing(1));
    });
}

fn passes(c: &mut Criterion) {
    c.bench_function("pass and complete", |b| {
        let mut scene = Scene::new(1000, 0);
        b.iter(|| scene.passes(1));
    });
}

criterion_group!(benches, turns, passes);
criterion_main!(benches);
