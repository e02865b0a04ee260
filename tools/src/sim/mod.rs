//! `sluice sim`: figures of the sources, reproduced on models with the libraries' code. The daemon
//! runs the code of containers, reservations and admission. It does not run the controllers of
//! QTCP, since the kernel keeps the windows (docs/sim.md).
//!
//! - [`intelliqos`]: containers on a disk; [`fahrrad`]: reservations on a disk.
//! - [`fig8`], [`fig9`], [`fig10`], [`fig14`], [`fig15`]: QTCP on one bottleneck, on [`net`], a
//!   network packet by packet.
//! - [`dtm`]: the discrete-time model on a user's scenario; [`plot`]: its charts.
//! - [`disk`]: a hard disk.

mod disk;
mod dtm;
mod fahrrad;
mod fig10;
mod fig14;
mod fig15;
mod fig8;
mod fig9;
mod intelliqos;
mod net;
mod plot;

use anyhow::Context as _;

/// A figure that can be reproduced.
#[derive(Debug)]
struct Figure {
    /// The name on the command line.
    name: &'static str,
    /// The description in one line.
    about: &'static str,
    /// The function that runs the figure on a seed. Returns the source's numbers beside ours.
    run: fn(seed: u64) -> anyhow::Result<String>,
}

/// All figures.
const FIGURES: &[Figure] = &[
    Figure {
        name: "fig2",
        about: "two users of one disk: deadlines, batches and containers (intelliQoS, Figure 2)",
        run: |seed| Ok(intelliqos::run(seed)),
    },
    Figure {
        name: "fig3",
        about: "reservations on a disk: two media streams, bursty transactions, a background stream",
        run: |seed| Ok(fahrrad::figure(seed)),
    },
    Figure {
        name: "fig8",
        about: "QTCP: the discrete-time model beside the packet simulation (E3, Figure 8)",
        run: fig8::run,
    },
    Figure {
        name: "fig9",
        about: "QTCP: how soon quality factors settle, for three round-trip times (E1, Figure 9)",
        run: |seed| Ok(fig9::run(seed)),
    },
    Figure {
        name: "fig10",
        about: "QTCP and DCTCP: how soon flows that start later have their part (E4, Figure 10)",
        run: |seed| Ok(fig10::run(seed)),
    },
    Figure {
        name: "fig14",
        about: "QTCP: flows that come and go, and DCTCP that interferes (E8, Figure 14)",
        run: |seed| Ok(fig14::run(seed)),
    },
    Figure {
        name: "fig15",
        about: "DCTCP, D2TCP and QTCP: transfers that miss their deadlines (E9, Figure 15b)",
        run: |seed| Ok(fig15::run(seed)),
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
}

/// Models that run on a user's scenario.
#[derive(Debug, clap::Subcommand)]
enum Model {
    /// The discrete-time model of QTCP on one link: window, Q, throughput, queue and latency of
    /// each class over time.
    Dtm(dtm::Args),
}

/// Makes a figure and prints it, or lists all figures.
///
/// # Errors
///
/// There is no such figure, or a scenario cannot be run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let text = match (&args.model, &args.figure) {
        (Some(Model::Dtm(args)), _) => dtm::run(args)?,
        (None, Some(name)) => figure(name, args.seed)?,
        (None, None) => list(),
    };
    print!("{text}");
    Ok(())
}

fn figure(name: &str, seed: u64) -> anyhow::Result<String> {
    let found = FIGURES.iter().find(|figure| figure.name == name);
    let figure = found.with_context(|| {
        let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        format!("there is no figure `{name}`: choose one of {}", names.join(", "))
    })?;
    (figure.run)(seed)
}

fn list() -> String {
    let figures = FIGURES.iter().map(|figure| format!("{:8} {}\n", figure.name, figure.about));
    figures.collect::<String>() + "\n`sluice sim dtm SCENARIO.toml` runs a scenario of your own.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_not_there_names_those_that_are() {
        let error = figure("fig0", 1).unwrap_err().to_string();
        assert!(FIGURES.iter().all(|figure| error.contains(figure.name)), "{error}");
        assert!(FIGURES.iter().all(|figure| list().contains(figure.about)));
    }
}
