//! `reproduce haechi`: Haechi on the paper's data node with other clients, exponents and periods.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::models::experiments::{
    Client, Distribution, Experiment, Outcome, System, Testbed, measure,
};
use sluice_config::amounts::parse_fio_duration as time;

use super::scenario::SystemName;
use super::show::{by_client, verdicts};
use crate::figure::Made;

/// Arguments of `reproduce haechi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of clients.
    #[arg(long, default_value_t = 10)]
    clients: u16,
    /// The exponent of Zipf's law, by which the reservations of five groups of clients differ; 0 for
    /// equal ones.
    #[arg(long, default_value_t = 0.6)]
    exponent: f64,
    /// The part of the data node's 1570 K I/Os per second that is reserved, in percent.
    #[arg(long, default_value_t = 90)]
    reserved: u32,
    /// Length of a period.
    #[arg(long, default_value = "1s", value_parser = time)]
    period: Duration,
    /// Make requests at a constant rate, not in bursts.
    #[arg(long)]
    constant: bool,
    /// The system.
    #[arg(long, value_enum, default_value_t = SystemName::Haechi)]
    system: SystemName,
    /// The number of periods that are measured, after an unmeasured one.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    periods: u16,
    /// Random seed: the same seed gives the same numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divide the capacities by this, which takes as much less time. [default: 8, or 1 for
    /// low-priority, whose window of 1 cannot be divided]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=16))]
    scale: Option<u64>,
    /// Write a plot of each client's reservation and throughput (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

impl Args {
    /// Returns the folder for the plot.
    pub(crate) fn plot(&self) -> Option<&Path> {
        self.plot.as_deref()
    }

    /// Makes the set-up: the paper's Experiment 2A with the requested changes.
    fn experiment(&self) -> Experiment {
        let client = Client { constant: self.constant, ..Client::EAGER };
        Experiment {
            system: self.system.into(),
            clients: vec![client; self.clients.into()],
            reserved: f64::from(self.reserved) / 100.0,
            distribution: Distribution::Zipf(self.exponent),
            period: self.period,
            periods: self.periods.into(),
            ..Experiment::default()
        }
    }

    fn testbed(&self) -> Testbed {
        let usual = if matches!(self.system, SystemName::LowPriority) { 1 } else { 8 };
        Testbed { scale: self.scale.unwrap_or(usual), seed: self.seed }
    }
}

/// Runs it. A client of Haechi that misses its reservation is unexpected, unless the monitor names it as unable to
/// complete it.
///
/// # Errors
///
/// Settings are out of range, or a reservation is not admitted.
pub(crate) fn run(args: &Args) -> anyhow::Result<Made> {
    Ok(show(args, &measure(&args.experiment(), args.testbed())?))
}

fn show(args: &Args, outcome: &Outcome) -> Made {
    let mut text = format!(
        "{} clients, {} % reserved with exponent {}, periods of {:?}, {}; I/Os of a period\n\n\
         client   reserved       mean      least\n",
        args.clients,
        args.reserved,
        args.exponent,
        args.period,
        if args.constant { "constant rate" } else { "bursts" },
    );
    let mut off = Vec::new();
    let rows = outcome.reserved.iter().zip(outcome.means.iter().zip(&outcome.least));
    for (client, ((reserved, (mean, least)), verdict)) in (1..).zip(rows.zip(verdicts(outcome))) {
        let name = format!("C{client}");
        _ = writeln!(text, "{name:6} {reserved:>10.0} {mean:>10.0} {least:>10.0}  {verdict}");
        if verdict == "missed" && outcome.experiment.system != System::Bare {
            off.push(format!("{name} had {least:.0} of {reserved:.0} I/Os and is not named"));
        }
    }
    let seconds = args.period.as_secs_f64();
    _ = writeln!(
        text,
        "\n{:.1} K I/Os per second in all; {} of {} reservations met",
        outcome.total / seconds / 1e3,
        outcome.reserved.len().saturating_sub(outcome.missed().len()),
        args.clients,
    );
    let plot = by_client(
        "thousand I/Os in a period",
        &[("reserved", outcome.reserved.clone()), ("completed", outcome.means.clone())],
    );
    Made { text, plots: vec![("haechi", plot)], off, ..Made::default() }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Args {
        Command::parse_from(["sim"].into_iter().chain(line.split_whitespace())).args
    }

    fn made(line: &str) -> anyhow::Result<Made> {
        run(&parsed(line))
    }

    #[test]
    fn h5_a_system_of_ones_own_says_who_has_its_reservation() {
        let small =
            "--clients 7 --exponent 0.3 --reserved 80 --period 250ms --periods 2 --scale 16";
        let met = made(small).unwrap();
        assert!(met.text.contains("7 of 7 reservations met") && met.off.is_empty(), "{}", met.text);
        let skewed = "--exponent 0.9 --reserved 60 --period 500ms --periods 2 --scale 16";
        let printed = made(skewed).unwrap();
        assert!(printed.text.contains("8 of 10 reservations met"), "{}", printed.text);
        assert!(printed.text.contains("missed; the monitor names it"), "{}", printed.text);
        assert_eq!(printed.off, [] as [&str; 0]);
        let low = format!("{skewed} --system low-priority");
        let error = made(&low).unwrap_err().to_string();
        assert!(error.contains("`scale` is 16: a window for global tokens of 1"), "{error}");
        let low = made(&low.replace("--scale 16", "")).unwrap();
        assert!(low.text.contains("10 of 10 reservations met"), "{}", low.text);
        let bare = made(&format!("{skewed} --system bare")).unwrap();
        assert!(bare.text.contains("8 of 10 reservations met") && bare.off.is_empty());
    }

    #[test]
    fn a_client_that_is_short_and_not_named_is_not_as_expected() {
        let args = parsed("--exponent 0.9 --reserved 60 --period 500ms --periods 1 --scale 16");
        let mut outcome = measure(&args.experiment(), args.testbed()).unwrap();
        outcome.record.findings.clear();
        let made = show(&args, &outcome);
        assert_eq!(made.off.len(), 2, "{:?}", made.off);
    }
}
