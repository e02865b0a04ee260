//! The cost of the engine for an I/O, and of the monitor for a check:
//!
//! `cargo bench -p pmem --bench cost` prints it in ns, the best of many runs; `benches/instructions.sh` prints
//! it in instructions, which other load does not change.
//!
//! An engine does 400 I/Os in an interval, C_L of the paper, has been asked for reports, and every operation
//! on a word is carried out at once. A monitor converts tokens: each client has reported something new.

#![expect(clippy::panic, reason = "a benchmark ends where it cannot measure")]

use std::time::Instant;

use pmem::capacity::{Estimator, Profile};
use pmem::engine::{self, Engine, Step, Words};
use pmem::in_process::Memory;
use pmem::message::{Ask, ClientId, Push};
use pmem::monitor::{self, Action, Monitor};
use pmem::one_sided::Completion;
use pmem::period::Period;
use pmem::token::{Iops, Tokens};
use pmem::word::{PoolWord, ReportWord};
use units::Nanos;

/// Nanoseconds between two I/Os of an engine: C_L is 400 K I/Os per second.
const IO: u64 = 2500;
/// Nanoseconds of an interval.
const INTERVAL: u64 = 1_000_000;
/// Tokens of the data node in a period, many for each client.
const CAPACITY: u64 = 1_570_000;
/// I/Os and checks of a run; less than a period has of either.
const IOS: u64 = 100_000;
const CHECKS: u64 = 500;

/// An engine or a monitor, with the words that it uses.
struct Scene {
    memory: Memory,
    now: Nanos,
    engine: Engine,
    monitor: Monitor,
    clients: u32,
}

impl Scene {
    /// Makes an engine with that many reserved I/Os, and a monitor with that many clients.
    fn new(reserved: u64, clients: u32) -> Self {
        let at = Memory::address;
        let words = Words { pool: at(0), grant: at(1), report: at(2) };
        let mut engine =
            Engine::new(engine::Settings::new(words)).unwrap_or_else(|e| panic!("{e}"));
        let period = Period(1);
        engine.push(Nanos(0), Push { period, reservation: Tokens(reserved) });
        engine.ask(Ask { period });
        engine.request(u64::MAX);
        let profile = Profile { mean: Tokens(CAPACITY), sigma: 0.0 };
        let estimator = Estimator::new(profile, Tokens(CAPACITY / 100), 5);
        let settings = monitor::Settings::new(Iops(400_000), at(0));
        let mut monitor = Monitor::new(settings, estimator, 0).unwrap_or_else(|e| panic!("{e}"));
        for client in 0..clients {
            let part = Tokens(CAPACITY / 2 / u64::from(clients).max(2));
            monitor.admit(ClientId(client), part).unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        let mut scene = Self { memory: Memory::new(3), now: Nanos(0), engine, monitor, clients };
        scene.checks(1);
        // Somebody takes tokens, so that reports are wanted and tokens converted.
        let pool = PoolWord::unpack(scene.memory.get(at(0)).unwrap_or(0));
        let taken = Tokens(u64::try_from(pool.tokens).unwrap_or(0).saturating_sub(1));
        scene.memory.set(at(0), PoolWord::new(pool.period, taken).pack());
        scene.checks(2);
        // The engine's pool never runs dry.
        if clients == 0 {
            scene.memory.set(at(0), PoolWord::new(period, Tokens(1 << 40)).pack());
        }
        scene.now = Nanos(0);
        scene
    }

    /// Does some I/Os.
    #[inline(never)]
    fn ios(&mut self, times: u64) {
        let before = self.engine.ledger().spent;
        for _ in 0..times {
            self.now = self.now.after(IO);
            while let Some(step) = self.engine.next(self.now) {
                let Step::Post(ticket, operation) = step else { break };
                let result = self.memory.carry_out(operation);
                self.engine.completed(self.now, Completion { ticket, result });
            }
            self.engine.io_completed();
        }
        let spent = self.engine.ledger().spent - before;
        assert_eq!(spent, Tokens(times), "each I/O has had its token");
    }

    /// Makes some checks, an interval apart.
    #[inline(never)]
    fn checks(&mut self, times: u64) {
        let mut posted = 0;
        for _ in 0..times {
            self.now = self.monitor.next_tick().max(self.now);
            let (period, done) = (self.monitor.period(), Tokens(self.now.0 / INTERVAL));
            let report = ReportWord::new(period, Tokens(100), done).pack();
            self.monitor.tick(self.now, |_| report);
            while let Some(action) = self.monitor.next_action() {
                if let Action::Post(ticket, operation) = action {
                    posted += 1;
                    let result = self.memory.carry_out(operation);
                    self.monitor.completed(Completion { ticket, result });
                }
            }
        }
        assert!(posted >= times, "each check has looked at the pool");
    }
}

/// Returns the time of one of `times`, in the best of some runs, each on a scene of its own.
fn best(times: u64, scene: impl Fn() -> Scene, run: impl Fn(&mut Scene, u64)) -> f64 {
    let time = || {
        let mut scene = scene();
        let start = Instant::now();
        run(&mut scene, times);
        start.elapsed().as_nanos() as f64 / times as f64
    };
    std::iter::repeat_with(time).take(30).fold(f64::MAX, f64::min)
}

fn table() {
    for (name, reserved) in [("reserved tokens", IOS + 1), ("global tokens", 0)] {
        let time = best(IOS, || Scene::new(reserved, 0), Scene::ios);
        println!("engine, an I/O with {name}: {time:.1} ns");
    }
    for clients in [10, 100, 1000] {
        let time = best(CHECKS, || Scene::new(0, clients), Scene::checks);
        println!("monitor, a check of {clients} clients: {time:.0} ns");
    }
}

fn main() {
    let mut words = std::env::args().skip(1).skip_while(|word| word.starts_with('-'));
    let Some(what) = words.next() else { return table() };
    // The scene is made before the part that valgrind measures, but for the checks that begin it.
    match (what.as_str(), words.next().and_then(|word| word.parse().ok())) {
        ("reserved", Some(times)) => Scene::new(times + 1, 0).ios(times),
        ("global", Some(times)) => Scene::new(0, 0).ios(times),
        ("checks", Some(clients)) => {
            let clients = u32::try_from(clients).unwrap_or(u32::MAX);
            let more = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            let mut scene = Scene::new(0, clients);
            assert!(scene.monitor.is_asking() || scene.clients == 0, "reports are wanted");
            scene.checks(more);
        }
        _ => panic!("reserved TIMES, global TIMES or checks CLIENTS TIMES"),
    }
}
