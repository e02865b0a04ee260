//! The commands of `sluice-sim`, which planners run.
//!
//! - [`mod@run`]: a scenario of a user's own, on the target that ships.
//! - `predict`: a load on a configured target; `profile`: the measured times of its devices, both by
//!   a running `daemon` and its `counts`.
//! - `promises`: service levels beside random antagonists.
//! - [`Made`]: the output of a command; [`Options`]: how to reach the daemon.

mod counts;
mod daemon;
mod made;
mod options;
mod predict;
mod profile;
mod promises;
pub mod run;

pub use made::{Made, conclude};
pub use options::Options;

/// A command.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run a scenario of your own: hosts, a network and devices around the target that ships.
    Run(run::Args),
    /// Predict the results of a load on a configured target, by class, host and session, beside the daemon's
    /// measurements.
    Predict(predict::Args),
    /// Measure the device of a running target's namespace by load on it, for predictions.
    Profile(profile::Args),
    /// Measure the target's promises to its tenants beside random antagonists. Each number is printed with its bound,
    /// in the worst of several seeds.
    Promises(promises::Args),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, a scenario cannot be run, or the daemon cannot be reached.
    pub fn run(&self, options: &Options) -> anyhow::Result<Made> {
        match self {
            Self::Run(args) => run::run(args, options.json),
            Self::Predict(args) => predict::run(args, options),
            Self::Profile(args) => profile::run(args, options),
            Self::Promises(args) => promises::run(args, options.json),
        }
    }
}
