//! `sluice`: the command line of Sluicegate.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod bench;
mod control;
mod doctor;
#[cfg(test)]
mod documents;
mod host;
mod import;
mod manual;
mod pmem;
mod schema;
mod sim;
#[cfg(test)]
mod testing;
mod top;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use control::{Names, Options};
use sluice_config::program;

/// The name of the program in its messages.
const NAME: &str = "sluice";

/// The version with the commit of the source.
const VERSION_AND_COMMIT: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("SLUICEGATE_COMMIT"), ")");

/// Controls and watches a Sluicegate target, and measures NVMe over Fabrics targets.
#[derive(Debug, Parser)]
#[command(name = "sluice", version = VERSION_AND_COMMIT, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Control(control::Command),
    Agent(Box<agent::Args>),
    /// Put load on an NVMe/TCP or NVMe/RDMA target, or a region, and measure its throughput and latency.
    Bench(Box<bench::Args>),
    /// Use regions of persistent memory by one-sided RDMA, or see what their reservations are worth.
    Pmem {
        #[command(subcommand)]
        action: PmemCommand,
    },
    /// Print another target's configuration as this target's, with a comment for each setting without a counterpart.
    Import {
        #[command(subcommand)]
        source: import::Source,
    },
    /// Check this machine, its network, and its side of connections to targets; the exit status is 1 if something is wrong.
    Doctor(doctor::Args),
    /// Print a script that completes the command line in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages and the completions.
    #[command(hide = true)]
    Manual(manual::Args),
    /// Print the JSON Schema of the daemon's methods: their parameters, and the answers that --json prints.
    Schema(schema::Args),
    /// Simulate scenarios, and predict the results of a load on a target: runs the program sluice-sim.
    Sim(sim::Args),
    /// Show the traffic of classes, sessions, devices, hosts, links, connections and workloads, live.
    Top(top::Args),
}

/// `sluice pmem …`.
#[derive(Debug, Subcommand)]
enum PmemCommand {
    #[command(flatten)]
    Control(control::PmemAction),
    #[command(flatten)]
    Client(pmem::Action),
}

/// Returns the definition of the command line.
fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line. Returns its arguments, and the names of its parameters.
fn parse(arguments: &[OsString]) -> Result<(Cli, Names), clap::Error> {
    let mut whole = Cli::command();
    let matches: ArgMatches = whole.try_get_matches_from_mut(arguments)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut whole))?;
    let names = Names::of(&whole, &matches);
    Ok((cli, names))
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (Cli { options, command }, names) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return program::report_usage(NAME, &error, &arguments),
    };
    let is_control =
        matches!(command, Command::Control(_) | Command::Pmem { action: PmemCommand::Control(_) });
    if options.dry_run && !is_control {
        return program::report(NAME, &control::no_dry_run().into(), options.json);
    }
    let outcome = match command {
        Command::Control(command) => control::run(&command, &options, &names),
        Command::Pmem { action: PmemCommand::Control(action) } => {
            control::run_pmem(&action, &options, &names)
        }
        Command::Agent(args) => agent::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Bench(mut args) => {
            args.load.socket.clone_from(&options.socket);
            bench::run(&args).map(|()| ExitCode::SUCCESS)
        }
        Command::Pmem { action: PmemCommand::Client(action) } => {
            pmem::run(&action, options.json).map(|()| ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            manual::complete(self::command(), shell).map(|()| ExitCode::SUCCESS)
        }
        Command::Manual(args) => manual::write(self::command(), &args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(&args, options.json),
        Command::Import { source } => import::run(&source).map(|()| ExitCode::SUCCESS),
        Command::Schema(args) => schema::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Sim(args) => Err(sim::run(&args, &options)),
        Command::Top(args) => top::run(&args, &options).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| program::report(NAME, &error, options.json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse_all;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert!(Cli::command().render_version().contains(" (commit "));
    }

    #[test]
    fn usage_asks_for_no_socket() {
        for line in ["sluice status extra", "sluice namespace remove", "sluice qos set --x"] {
            let message = parse_all(line).unwrap_err().to_string();
            assert!(
                message.contains("Usage: sluice ") && !message.contains("--socket"),
                "{message}"
            );
        }
    }

    #[test]
    fn options_are_taken_before_and_behind_every_command() {
        for line in [
            "sluice --json --socket /s --timeout 250ms status",
            "sluice status --json --socket /s --timeout 250ms",
            "sluice --json namespace --timeout 250ms list --socket /s",
            "sluice --socket /s top --once --json --timeout 250ms",
        ] {
            let options = parse_all(line).unwrap().options;
            assert!(options.json && options.socket == Some("/s".into()), "{line}");
            assert_eq!(options.timeout, std::time::Duration::from_millis(250), "{line}");
        }
        let bench = parse_all("sluice bench -n nqn --json").unwrap();
        assert!(bench.options.json, "errors are JSON as the report is");
        assert!(!parse_all("sluice status").unwrap().options.json);
    }

    #[test]
    fn json_before_bench_is_json_of_bench() {
        let cli = parse_all("sluice --json bench -n nqn").unwrap();
        let Command::Bench(args) = cli.command else { panic!("not bench") };
        assert!(args.load.json);
    }

    #[test]
    fn a_time_out_that_cannot_be_is_refused() {
        for line in ["sluice --timeout 0s status", "sluice --timeout 5y status"] {
            assert!(parse_all(line).is_err(), "{line}");
        }
    }
}
