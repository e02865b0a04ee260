//! The version of the daemon, and the commit of its source.

/// The version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, in 12 hexadecimal digits; `unknown` where the build did not know it.
pub const COMMIT: &str = env!("SLUICEGATE_COMMIT");

/// The version with the commit, for people.
pub const VERSION_AND_COMMIT: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("SLUICEGATE_COMMIT"), ")");
