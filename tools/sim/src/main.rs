//! `sluice-sim`: predicts, for planners, how a configuration behaves before it is rolled out.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use sluice_config::program;
use sluice_sim::command::{Command, Options};

/// The name of the program in its messages.
const NAME: &str = "sluice-sim";

/// Simulates targets on racks that you describe, and predicts the results of a load on a target.
#[derive(Debug, clap::Parser)]
#[command(name = NAME, version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let Cli { options, command } = match Cli::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return program::report_usage(NAME, &error, &arguments),
    };
    let outcome = command.run(&options).and_then(|made| {
        program::print(&made.text)?;
        made.conclude()
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => program::report(NAME, &error, options.json),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
