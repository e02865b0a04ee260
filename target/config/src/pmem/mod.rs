//! `[pmem]` and `[[region]]`: regions of persistent memory that clients use by one-sided RDMA, and
//! the I/Os per second that are divided among them.

mod check;
mod general;
mod region;
mod settings;
#[cfg(test)]
mod tests;
pub mod values;

use std::path::Path;

use super::fields::Problems;
use super::listener::Listener;
use super::subsystem::Subsystem;

pub(crate) use check::collision;
pub use check::{refused, shared_with_regions, wrong};
pub use general::Pmem;
pub use region::RegionConfig;
pub(crate) use region::region;
pub use settings::PmemConfig;
pub(crate) use settings::{Parsed, lines, parse};

/// Checks that the settings fit together, and with the listeners and subsystems of the file.
/// `state` is the state file.
pub(crate) fn finish(
    parsed: Parsed,
    state: Option<&Path>,
    listeners: &[Listener],
    subsystems: &[Subsystem],
    problems: &Problems,
) -> PmemConfig {
    check::across(&parsed, state, listeners, subsystems, problems);
    let Parsed { general, regions, .. } = parsed;
    let regions = regions.into_iter().map(|parsed| parsed.region).collect();
    PmemConfig { general, regions }
}
