//! `sluice sim`: figures of the sources, reproduced on models with the libraries' code. The daemon
//! runs the code of containers, reservations and admission. It does not run the controllers of
//! QTCP, since the kernel keeps the windows (docs/sim.md).
//!
//! - [`intelliqos`]: containers on a disk; [`fahrrad`]: reservations on a disk.
//! - [`fig8`], [`fig9`], [`fig10`], [`fig14`], [`fig15`]: QTCP on one bottleneck, on [`net`], a
//!   network packet by packet.
//! - [`haechi`]: Haechi's experiments, and the same on a data node of a user's own.
//! - [`dtm`]: the discrete-time model on a user's scenario.
//! - [`mod@figure`]: what a figure shows; [`plot`]: charts; [`disk`]: a hard disk.

mod disk;
mod dtm;
mod fahrrad;
mod fig10;
mod fig14;
mod fig15;
mod fig8;
mod fig9;
mod figure;
mod haechi;
mod intelliqos;
mod net;
mod plot;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use self::figure::{Figure, Made, Run};

/// The figures of all sources but Haechi, which has its own.
const FIGURES: &[Figure] = &[
    Figure {
        name: "fig2",
        about: "two users of one disk: deadlines, batches and containers (intelliQoS, Figure 2)",
        run: Run::Text(|seed| Ok(intelliqos::run(seed))),
    },
    Figure {
        name: "fig3",
        about: "reservations on a disk: two media streams, bursty transactions, a background stream",
        run: Run::Text(|seed| Ok(fahrrad::figure(seed))),
    },
    Figure {
        name: "fig8",
        about: "QTCP: the discrete-time model beside the packet simulation (E3, Figure 8)",
        run: Run::Text(fig8::run),
    },
    Figure {
        name: "fig9",
        about: "QTCP: how soon quality factors settle, for three round-trip times (E1, Figure 9)",
        run: Run::Text(|seed| Ok(fig9::run(seed))),
    },
    Figure {
        name: "fig10",
        about: "QTCP and DCTCP: how soon flows that start later have their part (E4, Figure 10)",
        run: Run::Text(|seed| Ok(fig10::run(seed))),
    },
    Figure {
        name: "fig14",
        about: "QTCP: flows that come and go, and DCTCP that interferes (E8, Figure 14)",
        run: Run::Text(|seed| Ok(fig14::run(seed))),
    },
    Figure {
        name: "fig15",
        about: "DCTCP, D2TCP and QTCP: transfers that miss their deadlines (E9, Figure 15b)",
        run: Run::Text(|seed| Ok(fig15::run(seed))),
    },
];

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
    /// Write the figure's plots (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Models that run on a user's scenario.
#[derive(Debug, clap::Subcommand)]
enum Model {
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
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (made, plot) = match (&args.model, &args.figure) {
        (Some(Model::Dtm(args)), _) => (dtm::run(args)?.into(), None),
        (Some(Model::Haechi(args)), _) => (haechi::variation::run(args)?, args.plot()),
        (None, Some(name)) => (figure(name, args.seed, args.scale)?, args.plot.as_deref()),
        (None, None) => (list().into(), None),
    };
    print!("{}", made.text);
    if let Some(folder) = plot {
        print!("{}", draw(&made, folder)?);
    }
    conclude(&made)
}

/// Says whether all results are as expected, for the exit status.
fn conclude(made: &Made) -> anyhow::Result<()> {
    anyhow::ensure!(made.off.is_empty(), "not as expected: {}", made.off.join("; "));
    Ok(())
}

/// Returns all figures.
fn figures() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().chain(haechi::FIGURES)
}

fn figure(name: &str, seed: u64, scale: Option<u64>) -> anyhow::Result<Made> {
    let found = figures().find(|figure| figure.name == name);
    let figure = found.with_context(|| {
        let names: Vec<&str> = figures().map(|figure| figure.name).collect();
        format!("there is no figure `{name}`: choose one of {}", names.join(", "))
    })?;
    figure.make(seed, scale)
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
    for figure in figures() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:9} {}", figure.name, figure.about);
    }
    text + "\n`sluice sim dtm SCENARIO.toml` and `sluice sim haechi` run scenarios of your own.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_not_there_names_those_that_are() {
        let error = figure("fig0", 1, None).unwrap_err().to_string();
        assert!(figures().all(|figure| error.contains(figure.name)), "{error}");
        assert!(figures().all(|figure| list().contains(figure.about)));
    }

    #[test]
    fn a_result_that_is_not_as_expected_fails_the_command() {
        assert!(conclude(&Made::from("text".to_owned())).is_ok());
        let made = Made { off: vec!["C1: 3".to_owned(), "C2: 4".to_owned()], ..Made::default() };
        assert_eq!(conclude(&made).unwrap_err().to_string(), "not as expected: C1: 3; C2: 4");
    }

    #[test]
    fn a_scale_and_plots_are_refused_where_there_are_none() {
        let error = figure("fig2", 1, Some(2)).unwrap_err().to_string();
        assert_eq!(error, "fig2 has no scale: leave --scale out");
        let error = draw(&Made::from(String::new()), Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("no plots"), "{error}");
    }
}
