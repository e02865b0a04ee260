//! `sluice`: the command line of Sluicegate.

mod bench;
mod control;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Controls a Sluicegate target, and measures NVMe over Fabrics targets.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Control(control::Command),
    /// Put load on an NVMe/TCP target and measure what it does.
    Bench(Box<bench::Args>),
    /// Make a figure again that a source of the design shows, with the code of the target.
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let outcome = match command {
        Command::Control(command) => control::run(&command),
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::FAILURE
        }
    }
}
