//! `sluice pmem`: regions of persistent memory from the client's side.
//!
//! - [`demo`]: what reservations are worth, without any device.

mod demo;

use clap::Subcommand;

/// Arguments of `sluice pmem`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

/// What can be done with regions.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show what reservations are worth: a data node and its clients within this process, on simulated
    /// time. The exit status says whether all reservations were met.
    Demo(demo::Args),
}

/// Runs a subcommand.
///
/// # Errors
///
/// As the subcommand says.
pub(crate) fn run(args: &Args, as_json: bool) -> anyhow::Result<()> {
    match &args.action {
        Action::Demo(demo) => demo::run(*demo, as_json),
    }
}
