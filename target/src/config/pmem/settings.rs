//! The settings of `[pmem]` and its list.

use super::general::Pmem;
use super::region::RegionConfig;

/// Everything of the configuration that concerns regions of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmemConfig {
    /// `[pmem]`: read at the start.
    pub general: Pmem,
    /// `[[region]]`: may change while the daemon runs.
    pub regions: Vec<RegionConfig>,
}
