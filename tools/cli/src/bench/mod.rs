//! `sluice bench`: an NVMe over Fabrics initiator that drives load, checks data and reports latencies.
//!
//! - [`args`], [`job`], [`units`]: the command line.
//! - [`content`]: what would be lost by a load that writes; [`users`]: the other hosts that would lose it.
//! - [`tenants`]: the controllers of all jobs, connections to which are in [`crate::host`].
//! - [`io_queue`], [`source`], [`pace`], [`verify`]: one I/O queue under load; [`worker`]: the
//!   threads.
//! - [`mod@run`]: a whole run; [`stats`], [`figures`], [`report`]: its results; [`fairness`]: the
//!   jobs' shares of it; [`windows`]: the same over time.
//! - [`floor`]: the same bytes without NVMe, over TCP ([`floor_streams`]) or RDMA
//!   ([`floor_queue_pairs`]); [`versus`]: two targets in turn.
//! - [`region`]: a region of persistent memory instead of a namespace, by one-sided RDMA
//!   ([`one_sided`]); [`region_load`]: the load; `region_periods`, [`region_report`]: its results.

mod args;
mod content;
mod fairness;
mod figures;
mod floor;
mod floor_queue_pairs;
mod floor_sizes;
mod floor_streams;
mod io_queue;
mod job;
mod one_sided;
mod pace;
mod region;
mod region_load;
mod region_periods;
mod region_report;
mod report;
mod run;
mod source;
mod stats;
mod tenants;
#[cfg(test)]
mod tests;
pub(crate) mod units;
mod users;
mod verify;
mod versus;
mod windows;
mod worker;

pub(crate) use args::Args;
use args::Mode;
pub(crate) use units::{show_count, show_latency, time};

/// Runs what the command line asks for.
///
/// # Errors
///
/// The target cannot be reached, refuses, breaks the protocol or returns wrong data; or the
/// arguments do not fit each other or the target.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.mode, args.load.pmem) {
        (Some(Mode::Floor(floor)), _) => floor::run(floor),
        (None, Some(name)) => region::run(&args.load, name),
        (None, None) if args.load.vs.is_some() => versus::run(&args.load),
        (None, None) => run::run(&args.load),
    }
}
