//! `sluice bench`: an NVMe/TCP initiator that drives load, checks data and reports latencies.
//!
//! - [`args`], [`units`]: the command line.
//! - [`link`]: one TCP connection in the host role; [`commands`], [`controller`]: what is said on
//!   the admin queue.
//! - [`lane`], [`source`], [`verify`]: one I/O queue under load; [`worker`]: the threads.
//! - [`mod@run`]: a whole run; [`stats`], [`report`]: what came of it.
//! - [`floor`]: the same bytes without NVMe; [`versus`]: two targets in turn.

mod args;
mod commands;
mod controller;
mod floor;
mod lane;
mod link;
mod report;
mod run;
mod source;
mod stats;
#[cfg(test)]
mod tests;
mod units;
mod verify;
mod versus;
mod worker;

pub(crate) use args::Args;
use args::Mode;

/// Does what the command line asks for.
///
/// # Errors
///
/// The target cannot be reached, refuses, breaks the protocol or returns wrong data; or the
/// arguments do not fit each other or the target.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.mode {
        Some(Mode::Floor(floor)) => floor::run(&floor),
        None if args.load.vs.is_some() => versus::run(&args.load),
        None => run::run(&args.load),
    }
}
