//! `sluice sim haechi`: Haechi on the paper's data node with other clients, exponents and periods.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use pmem::experiments::{Outcome, System, Testbed, Variation, variation};

use super::show::by_client;
use crate::bench::time;
use crate::sim::figure::Made;

/// Arguments of `sluice sim haechi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of clients.
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// The exponent of Zipf's law, by which the reservations of five groups of clients differ; 0 for
    /// equal ones.
    #[arg(long, default_value_t = 0.6)]
    exponent: f64,
    /// The part of the data node's 1570 K I/Os per second that is reserved, in percent.
    #[arg(long, default_value_t = 90)]
    reserved: u64,
    /// Length of a period.
    #[arg(long, default_value = "1s", value_parser = time)]
    period: Duration,
    /// Make requests at a constant rate, not in bursts.
    #[arg(long)]
    constant: bool,
    /// The system.
    #[arg(long, value_enum, default_value_t = Which::Haechi)]
    system: Which,
    /// The number of periods that are measured, behind one that is not.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    periods: u16,
    /// Random seed: the same seed gives the same numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divide the capacities by this, which takes as much less time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=16))]
    scale: u64,
    /// Write a plot of what each client reserved and got (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// The systems to choose from.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// Clients without engines.
    Bare,
    /// Haechi without token conversion.
    Basic,
    /// Haechi.
    Haechi,
    /// Haechi where I/Os with global tokens have a window of 1.
    LowPriority,
}

impl Args {
    /// Returns the folder for the plot.
    pub(crate) fn plot(&self) -> Option<&Path> {
        self.plot.as_deref()
    }
}

/// Runs the variation. A client of Haechi that misses its reservation, and that the monitor does not
/// name as one that cannot have it, is not as expected.
///
/// # Errors
///
/// Settings are out of range, or a reservation is not admitted.
pub(crate) fn run(args: &Args) -> anyhow::Result<Made> {
    let wanted = Variation {
        clients: args.clients,
        exponent: args.exponent,
        percent: args.reserved,
        period: args.period,
        constant: args.constant,
    };
    let system = match args.system {
        Which::Bare => System::Bare,
        Which::Basic => System::Basic,
        Which::Haechi => System::Haechi,
        Which::LowPriority => System::LowPriority,
    };
    let testbed = Testbed { scale: args.scale, seed: args.seed };
    let outcome = variation(testbed, &wanted, system, args.periods.into())?;
    Ok(show(&wanted, &outcome))
}

fn show(wanted: &Variation, outcome: &Outcome) -> Made {
    let (missed, named) = (outcome.missed(), outcome.out_of_reach());
    let mut text = format!(
        "{} clients, {} % reserved with exponent {}, periods of {:?}, {}; I/Os of a period\n\n\
         client   reserved       mean      least\n",
        wanted.clients,
        wanted.percent,
        wanted.exponent,
        wanted.period,
        if wanted.constant { "constant rate" } else { "bursts" },
    );
    let mut off = Vec::new();
    let rows = outcome.reserved.iter().zip(outcome.means.iter().zip(&outcome.least)).enumerate();
    for (client, (reserved, (mean, least))) in rows {
        let name = format!("C{}", client + 1);
        let verdict = match (missed.contains(&client), named.contains(&client)) {
            (false, _) => "met",
            (true, true) => "missed; the monitor names it: out of its reach",
            (true, false) => "missed",
        };
        _ = writeln!(text, "{name:6} {reserved:>10.0} {mean:>10.0} {least:>10.0}  {verdict}");
        if verdict == "missed" && outcome.system != System::Bare {
            off.push(format!("{name} had {least:.0} of {reserved:.0} I/Os and is not named"));
        }
    }
    let seconds = wanted.period.as_secs_f64();
    _ = writeln!(
        text,
        "\n{:.1} K I/Os per second in all; {} of {} reservations met",
        outcome.total / seconds / 1e3,
        wanted.clients.saturating_sub(missed.len()),
        wanted.clients,
    );
    let plot = by_client(
        "thousand I/Os in a period",
        &[("reserved", outcome.reserved.clone()), ("completed", outcome.means.clone())],
    );
    Made { text, plots: vec![("haechi".to_owned(), plot)], off, ..Made::default() }
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

    fn made(line: &str) -> anyhow::Result<Made> {
        let words = ["sim"].into_iter().chain(line.split_whitespace());
        run(&Command::parse_from(words).args)
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
        let low = made(&format!("{skewed} --system low-priority")).unwrap();
        assert!(low.text.contains("10 of 10 reservations met"), "{}", low.text);
        let bare = made(&format!("{skewed} --system bare")).unwrap();
        assert!(bare.text.contains("8 of 10 reservations met") && bare.off.is_empty());
    }

    #[test]
    fn a_client_that_is_short_and_not_named_is_not_as_expected() {
        let line = "--exponent 0.9 --reserved 60 --period 500ms --periods 1 --scale 16";
        let args = Command::parse_from(["sim"].into_iter().chain(line.split(' '))).args;
        let wanted = Variation {
            clients: args.clients,
            exponent: args.exponent,
            percent: args.reserved,
            period: args.period,
            constant: false,
        };
        let testbed = Testbed { scale: args.scale, seed: 1 };
        let mut outcome = variation(testbed, &wanted, System::Haechi, 1).unwrap();
        outcome.record.findings.clear();
        let made = show(&wanted, &outcome);
        assert_eq!(made.off.len(), 2, "{:?}", made.off);
    }

    #[test]
    fn what_is_not_admitted_is_refused() {
        let error = made("--exponent 3 --clients 5").unwrap_err().to_string();
        assert!(error.contains("C1 is not admitted"), "{error}");
    }
}
