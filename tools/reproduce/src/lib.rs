//! `reproduce`: figures of the sources, reproduced on models with the libraries' code, for readers of the papers.
//!
//! - `figures`: all figures by their names; `report`: several of them, and docs/research/reproduction.md.
//! - `e2e`: QTCP on one bottleneck, on `net`, a network packet by packet; `intelliqos`: containers on a disk;
//!   `fahrrad`: reservations on a disk; `haechi`: Haechi's experiments, and the same on a data node of a user's
//!   own. `disk`: the common parts of scenarios of one disk; `scenario`: the common parts of all scenarios.
//! - `part`: a scenario of a part of the system; `dtm`: the discrete-time model on one. `whole`: whole targets,
//!   for figures.
//! - `figure`: the content of a figure; `plot`: charts.
//! - [`models`]: models that only figures and the benchmark of bottlenecks use.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod disk;
mod dtm;
mod e2e;
mod fahrrad;
mod figure;
mod figures;
mod haechi;
mod intelliqos;
pub mod models;
mod net;
mod part;
mod plot;
mod report;
mod scenario;
mod whole;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;
use sluice_config::program;
use sluice_sim::command::{conclude, run as whole_target};
use sluice_sim::random;

use self::figure::{Length, Made};

/// The name of the program in its messages.
const NAME: &str = "reproduce";

/// Reproduces the figures of the sources: each number beside ours, whether it holds or differs, and why.
#[derive(Debug, clap::Parser)]
#[command(name = NAME, version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    model: Option<Model>,
    /// The figure; without one, all are listed.
    figure: Option<String>,
    /// Random seed: the same seed gives the same numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divide the capacities of haechi-6 to haechi-19 by this, 1 to 8, which takes as much less time;
    /// haechi-9 always has the paper's size.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=8))]
    scale: Option<u64>,
    /// Make runs of reduced length.
    #[arg(long)]
    quick: bool,
    /// Write the figure's plots (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Print the report of a scenario, and errors, as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// Several figures at once, and models that run on a user's scenario.
#[derive(Debug, clap::Subcommand)]
enum Model {
    /// Run the scenario of a figure: of a part of the system, or of a whole target.
    Run(whole_target::Args),
    /// Make several figures, or all: each number beside ours, whether it holds or differs, and why.
    Report(report::Args),
    /// The discrete-time model of QTCP on one link: window, Q, throughput, queue and latency of
    /// each class over time.
    Dtm(dtm::Args),
    /// Haechi on the paper's data node with other clients, reservations and periods.
    Haechi(haechi::variation::Args),
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let args = match Args::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return program::report_usage(NAME, &error, &arguments),
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => program::report(NAME, &error, args.json),
    }
}

/// Makes a figure and prints it, or lists all figures.
///
/// # Errors
///
/// There is no such figure, a scenario cannot be run, a plot cannot be written, or a result is neither
/// the source's nor differs as it is declared.
fn run(args: &Args) -> anyhow::Result<()> {
    let (made, plot) = match (&args.model, &args.figure) {
        (Some(Model::Run(of)), _) => (part::run(of, args.json)?.into(), None),
        (Some(Model::Report(args)), _) => (report::run(args)?, None),
        (Some(Model::Dtm(args)), _) => (dtm::run(args)?.into(), None),
        (Some(Model::Haechi(args)), _) => (haechi::variation::run(args)?, args.plot()),
        (None, Some(name)) => {
            let length = Length { seed: args.seed, scale: args.scale, quick: args.quick };
            (figures::find(name)?.make(&length)?, args.plot.as_deref())
        }
        (None, None) => (list().into(), None),
    };
    program::print(&made.text)?;
    if let Some(folder) = plot {
        program::print(draw(&made, folder)?)?;
    }
    conclude(&made.off)
}

/// Writes a figure's plots, and returns a line with their paths.
fn draw(made: &Made, folder: &Path) -> anyhow::Result<String> {
    anyhow::ensure!(!made.plots.is_empty(), "this figure has no plots: leave --plot out");
    let paths = made.draw(folder)?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok(format!("\nwrote {}\n", names.join(", ")))
}

fn list() -> String {
    let mut text = String::new();
    for figure in figures::all() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:13} {}", figure.name, figure.about);
    }
    text + "\n`reproduce report all` makes all of them. `reproduce run SCENARIO.toml` runs a scenario of one;\n\
            `reproduce dtm SCENARIO.toml` and `reproduce haechi` run models of parts.\n"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn all_figures_are_listed() {
        assert!(figures::all().all(|figure| list().contains(figure.about)));
    }

    #[test]
    fn a_scale_and_plots_are_refused_where_there_are_none() {
        let length = Length { seed: 1, scale: Some(2), quick: false };
        let error = figures::find("intelliqos-2").unwrap().make(&length).unwrap_err().to_string();
        assert_eq!(error, "intelliqos-2 has no scale: leave --scale out");
        let error = draw(&Made::from(String::new()), Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("no plots"), "{error}");
    }
}
