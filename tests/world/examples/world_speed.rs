//! How many commands a second of real time a world carries out, on one core.

use std::time::Instant;

use sluice_world::{Scenario, World};

fn main() {
    for round in 1..=3 {
        let start = Instant::now();
        match World::new(Scenario::busy(1_000_000)).run() {
            Ok(outcome) => {
                let rate = outcome.answered as f64 / start.elapsed().as_secs_f64();
                println!("round {round}: {rate:.0} commands a second");
            }
            Err(broken) => println!("round {round}: {broken}"),
        }
    }
}
