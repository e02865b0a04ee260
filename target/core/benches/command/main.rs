//! Measures the cost of a command in the core, over TCP and over RDMA.
//!
//! `cargo bench -p sluice-core --features testing --bench command -- TRANSPORT DEVICE OPERATION BYTES DEPTH
//! COMMANDS` executes commands and prints the time of each; `benches/instructions.py` prints their cost in
//! instructions, which other load does not change.
//!
//! COMMANDS may be followed by `traced`: the reactor traces all commands.
//!
//! TRANSPORT is `tcp` or `rdma`; DEVICE is `memory` (carried out on the spot, larger reads sent from where
//! the blocks are) or `queued` (as files and drives); OPERATION is `read` or `write`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark ends at the first thing that is wrong"
)]

mod scene;

use scene::{Load, Scene};
use sluice_core::testing::wire::Carrier;

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let [transport, device, operation, numbers @ ..] = &words[..] else {
        println!("see the first lines of benches/command/main.rs for the arguments");
        return;
    };
    let number = |at: usize| numbers.get(at).and_then(|word| word.parse::<u32>().ok());
    let (bytes, depth, commands) =
        (number(0).unwrap_or(4096), number(1).unwrap_or(1), number(2).unwrap_or(100_000));
    let load = Load {
        carrier: if transport == "rdma" { Carrier::Rdma } else { Carrier::Tcp },
        queued: device == "queued",
        writes: operation == "write",
        bytes,
        depth,
    };
    let mut scene = Scene::new(load);
    if words.last().is_some_and(|word| word == "traced") {
        scene.trace();
    }
    let counted = scene.measure(commands);
    println!("{:.1} ns for a command", counted.as_nanos() as f64 / f64::from(commands));
}
