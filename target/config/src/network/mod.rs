//! `[network]` and `[[link]]`: the goals of classes on the network (stage S6).
//!
//! Rates must fit into a configured capacity, and leave something for shares. No class needs a
//! share: without one, the kernel's congestion control decides what classes have beyond their
//! goals, as with `free`. One link may have latencies and shares; the class with the latency should
//! be the more urgent one, but the other way round is no error, since each class is controlled by
//! itself.

mod check;
mod goal;
mod settings;
#[cfg(test)]
mod tests;
pub mod values;

use super::fields::Problems;
use super::listener::ParsedListener;

pub use check::{known, unknown, wrong};
pub use goal::{DEFAULT_LINK, Goal};
pub use settings::*;

/// Checks that the settings fit together and with the listeners of the file.
pub(crate) fn finish(parsed: Parsed, listeners: &[ParsedListener], problems: &Problems) -> Network {
    check::across(&parsed.links, listeners, problems);
    let links = parsed.links.into_iter().map(|parsed| parsed.link).collect();
    Network { links, ..parsed.network }
}
