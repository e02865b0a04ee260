//! `sluice`: the command line of Sluicegate.

mod bench;
mod control;
mod sim;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Controls and watches a Sluicegate target, and measures NVMe over Fabrics targets.
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
    /// Watch what the daemon does, live.
    Top(top::Args),
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let outcome = match command {
        Command::Control(command) => control::run(&command),
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Top(args) => top::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::FAILURE
        }
    }
}
