//! The cost for a command of the parts that reactors share, while nobody else wants them: limits,
//! credits, the window and the backlog.
//!
//! ```text
//! cargo bench -p arbitration --bench stages
//! ```

use std::hint::black_box;

use arbitration::Nanos;
use arbitration::credit::{Caps, Cost, Credits};
use arbitration::limit::{Limiter, Rate};
use arbitration::overload::{Backlog, RetryDelays, SentBackTable, command_key};
use arbitration::settings::WindowRule;
use arbitration::window::Window;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn limits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("limit");
    for (name, rate) in [("none", None), ("1 GB/s", Rate::per_second(1_000_000_000))] {
        let (limiter, mut now) = (Limiter::new(rate), 0);
        group.bench_function(BenchmarkId::new("check and charge", name), |bench| {
            bench.iter(|| {
                now += 5000;
                let passes = limiter.check(Nanos(now)).is_ok();
                limiter.charge(Nanos(now), Nanos(now), black_box(4096));
                passes
            });
        });
        group.bench_function(BenchmarkId::new("take", name), |bench| {
            bench.iter(|| {
                now += 5000;
                limiter.take(Nanos(now), black_box(4096)).is_ok()
            });
        });
    }
}

fn credits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("credit");
    for depth in [1, 2, 4] {
        let caps = Caps { operations: 1000, payload: 1 << 20 };
        let chain: Vec<_> = (0..depth).map(|_| Credits::new(caps)).collect();
        group.bench_function(BenchmarkId::new("take and give, sessions", depth), |bench| {
            bench.iter(|| {
                let cost = Cost::user(black_box(4096));
                let taken = chain.iter().all(|session| session.take(cost));
                chain.iter().for_each(|session| session.give(cost));
                taken
            });
        });
    }
}

fn windows(criterion: &mut Criterion) {
    let adaptive = WindowRule::Adaptive { target: Nanos(2_000_000), max: 1024 };
    let mut group = criterion.benchmark_group("window");
    for (name, rule) in
        [("off", WindowRule::Off), ("fixed", WindowRule::Fixed(128)), ("adaptive", adaptive)]
    {
        let (window, mut now) = (Window::new(rule), 1_000_000_000);
        group.bench_function(BenchmarkId::new("price, take and give", name), |bench| {
            bench.iter(|| {
                now += 1000;
                let (write, bytes) = (black_box(false), black_box(4096));
                let price = window.price(write, bytes);
                let taken = window.take(price);
                window.give(Nanos(now), price, write, bytes, 100_000);
                taken
            });
        });
    }
}

fn backlogs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("overload");
    let (backlog, mut now) = (Backlog::new(1000), 1_000_000_000);
    backlog.entered();
    group.bench_function("enter and leave", |bench| {
        bench.iter(|| {
            now += 1000;
            backlog.entered();
            let full = backlog.is_full();
            backlog.left(Nanos(now), 20_000);
            full
        });
    });
    let (mut refused, mut block) = (SentBackTable::new(128), 0);
    group.bench_function("refuse and know again", |bench| {
        bench.iter(|| {
            block += 8;
            let key = command_key(2, 1, block, 8);
            refused.note(Nanos(now), key, 1, ())
                && refused.take(Nanos(now), key, RetryDelays::DEFAULT).is_some()
        });
    });
}

criterion_group!(benches, limits, credits, windows, backlogs);
criterion_main!(benches);
