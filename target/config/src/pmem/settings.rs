//! The settings of `[pmem]` and its list together, and how a file is read and written.

use super::super::fields::{At, Fields};
use super::super::lines::Lines;
use super::super::table;
use super::general::{Pmem, general};
use super::region::{ParsedRegion, RegionConfig, region};

/// Everything of the configuration that concerns regions of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmemConfig {
    /// `[pmem]`: read at the start.
    pub general: Pmem,
    /// `[[region]]`: may change while the daemon runs.
    pub regions: Vec<RegionConfig>,
}

/// The tables as they are read, before listeners and subsystems are known.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(super) general: Pmem,
    /// The place of `address`.
    pub(super) address: Option<At<()>>,
    pub(super) regions: Vec<ParsedRegion>,
}

/// Reads both tables of a file.
pub(crate) fn parse(fields: &mut Fields<'_>) -> Parsed {
    let table = fields.table("pmem", "[pmem]");
    let (general, address) = table.map(general).unwrap_or_default();
    let (tables, fresh) = (fields.tables("region", "[[region]]"), RegionConfig::default());
    let regions = tables.into_iter().filter_map(|table| region(table, &fresh)).collect();
    Parsed { general, address, regions }
}

/// Writes `[pmem]` and `[[region]]` with their titles.
pub(crate) fn lines(lines: &mut Lines, pmem: &PmemConfig) {
    lines.title("[pmem]");
    table::lines(lines, &pmem.general);
    for region in &pmem.regions {
        lines.title("[[region]]");
        table::lines(lines, region);
    }
}
