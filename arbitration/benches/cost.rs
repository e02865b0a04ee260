//! The cost of a command in the arbiter, against commands queued and sessions:
//!
//! `cargo bench -p arbitration --bench cost` prints the table in ns, the best of many batches;
//! `benches/instructions.sh` prints it in instructions, which other load does not change.

mod scene;

use std::time::Instant;

use scene::Scene;

const QUEUED: [usize; 5] = [0, 64, 1000, 10_000, 100_000];
const SESSIONS: [usize; 4] = [1, 10, 100, 1000];
const BATCH: u64 = 2000;
const BATCHES: u32 = 200;

fn best(mut batch: impl FnMut()) -> f64 {
    let time = || {
        let start = Instant::now();
        batch();
        start.elapsed().as_nanos() as f64 / BATCH as f64
    };
    std::iter::repeat_with(time).take(BATCHES as usize).fold(f64::MAX, f64::min)
}

/// Prints a row for each number of sessions: the time that each number of queued commands has.
fn rows(time: impl Fn(Scene) -> f64) {
    for sessions in SESSIONS {
        print!("{sessions:>17} ");
        QUEUED.iter().for_each(|queued| print!("{:>9.1}", time(Scene::new(sessions, *queued))));
        println!();
    }
}

fn table() {
    let mut empty = Scene::new(10, 0);
    let nothing = best(|| empty.nothing(BATCH));
    println!("ns for one command to be enqueued, dispatched and completed (best of {BATCHES}");
    println!("batches of {BATCH}; the benchmark's own {nothing:.1} ns are taken off)\n");
    println!("sessions \\ queued {}", QUEUED.map(|queued| format!("{queued:>9}")).join(""));
    rows(|mut scene| best(|| scene.turns(BATCH)) - nothing);
    println!("\nenqueued and dispatched only (median of 20,000 batches of 32)\n");
    rows(|mut scene| {
        let mut batches: Vec<f64> = (0..20_000).map(|_| scene.enqueue_dispatch()).collect();
        batches.sort_by(f64::total_cmp);
        batches.get(10_000).copied().unwrap_or(0.0) - nothing
    });
    println!();
    for sessions in [1, 1000] {
        let mut scene = Scene::new(sessions, 0);
        let pass = best(|| scene.passes(BATCH));
        println!("pass and complete, {sessions} sessions: {pass:.1} ns");
    }
}

fn main() {
    let mut words = std::env::args().skip(1).skip_while(|word| word.starts_with('-'));
    let Some(what) = words.next() else { return table() };
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let (sessions, queued, times) = (number().max(1), number(), number() as u64);
    let mut scene = Scene::new(sessions, queued);
    // The scene is made before the part that valgrind measures.
    match what.as_str() {
        "turns" => scene.turns(times),
        "passes" => scene.passes(times),
        _ => scene.nothing(times),
    }
}
