//! `sluice`: the command line of Sluicegate.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sluicegate, an NVMe over Fabrics target: command line.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = 100)]
struct Sluice {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put load on an NVMe/TCP target and measure what it does.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let outcome = match Sluice::parse().command {
        Command::Bench(args) => bench::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::FAILURE
        }
    }
}
