//! `sluice sim`: figures of the sources, reproduced on models with the libraries' code, and scenarios
//! of a user's own.
//!
//! - [`figures`]: all figures by their names; [`repro`]: several of them, and docs/reproduction.md.
//! - [`e2e`]: QTCP on one bottleneck, on [`net`], a network packet by packet; [`intelliqos`]:
//!   containers on a disk; [`fahrrad`]: reservations on a disk; [`haechi`]: Haechi's experiments, and
//!   the same on a data node of a user's own. [`disk`]: what scenarios of one disk have in common;
//!   [`scenario`]: what all of these have.
//! - [`part`]: a scenario of a part of the system; [`dtm`]: the discrete-time model on one.
//!   [`whole`]: whole targets, for figures. The planner's commands are [`sluice_sim::command`].
//! - [`mod@figure`]: what a figure shows; [`plot`]: charts.

mod disk;
mod dtm;
mod e2e;
mod fahrrad;
mod figure;
mod figures;
mod haechi;
mod intelliqos;
mod net;
mod part;
mod plot;
mod repro;
mod scenario;
mod whole;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sluice_sim::command;

use self::figure::{Length, Made};
use crate::control::Options;

/// Arguments of `sluice sim`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
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
}

/// Several figures at once, and models that run on a user's scenario.
#[derive(Debug, clap::Subcommand)]
enum Model {
    #[command(flatten)]
    Planning(command::Command),
    /// Reproduce figures of the sources: each number beside ours, whether it holds or differs, and
    /// why.
    Repro(repro::Args),
    /// The discrete-time model of QTCP on one link: window, Q, throughput, queue and latency of
    /// each class over time.
    Dtm(dtm::Args),
    /// Haechi on the paper's data node with other clients, reservations and periods.
    Haechi(haechi::variation::Args),
}

/// Makes a figure and prints it, or lists all figures.
///
/// # Errors
///
/// There is no such figure, a scenario cannot be run, a plot cannot be written, or a result is neither
/// the source's nor differs as it is declared.
pub(crate) fn run(args: &Args, options: &Options) -> anyhow::Result<()> {
    let (made, plot) = match (&args.model, &args.figure) {
        (Some(Model::Planning(command::Command::Run(args))), _) => {
            (part::run(args, options.json)?.into(), None)
        }
        (Some(Model::Planning(command)), _) => (command.run(&asked(options))?.into(), None),
        (Some(Model::Repro(args)), _) => (repro::run(args)?, None),
        (Some(Model::Dtm(args)), _) => (dtm::run(args)?.into(), None),
        (Some(Model::Haechi(args)), _) => (haechi::variation::run(args)?, args.plot()),
        (None, Some(name)) => {
            let length = Length { seed: args.seed, scale: args.scale, quick: args.quick };
            (figures::find(name)?.make(&length)?, args.plot.as_deref())
        }
        (None, None) => (list().into(), None),
    };
    print!("{}", made.text);
    if let Some(folder) = plot {
        print!("{}", draw(&made, folder)?);
    }
    conclude(&made)
}

/// Returns the options as the planner's commands have them.
fn asked(options: &Options) -> command::Options {
    let Options { socket, timeout, json, .. } = options.clone();
    command::Options { socket, timeout, json }
}

/// Says whether all results are as expected, for the exit status.
fn conclude(made: &Made) -> anyhow::Result<()> {
    anyhow::ensure!(made.off.is_empty(), "not as expected: {}", made.off.join("; "));
    Ok(())
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
    text + "\n`sluice sim repro all` makes all of them. `sluice sim run SCENARIO.toml` runs a scenario of your \
            own;\n`sluice sim predict LOAD.toml` predicts what a load has on your target; `sluice sim promises` measures service\nlevels beside random antagonists; `sluice sim dtm SCENARIO.toml` and `sluice sim haechi` run models of parts.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_are_listed() {
        assert!(figures::all().all(|figure| list().contains(figure.about)));
    }

    #[test]
    fn a_result_that_is_not_as_expected_fails_the_command() {
        assert!(conclude(&Made::from("text".to_owned())).is_ok());
        let made = Made { off: vec!["C1: 3".to_owned(), "C2: 4".to_owned()], ..Made::default() };
        assert_eq!(conclude(&made).unwrap_err().to_string(), "not as expected: C1: 3; C2: 4");
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
