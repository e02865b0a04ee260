//! The table of metric families in docs/reference/metrics.md.

use std::collections::BTreeSet;

const DOCS: &str = include_str!("../../../../../docs/reference/metrics.md");

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// The name without `sluicegate_`.
    pub(super) name: &'static str,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub(super) kind: &'static str,
    pub(super) labels: BTreeSet<&'static str>,
}

/// Returns the rows in their order.
pub(super) fn families() -> Vec<Family> {
    let rows = DOCS.lines().filter_map(|line| line.strip_prefix("| `sluicegate_"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let labels = cells[2].split(", ").map(|label| label.trim_matches('`'));
        Family {
            name: cells[0].trim_matches('`'),
            kind: cells[1],
            labels: labels.filter(|label| !label.is_empty()).collect(),
        }
    })
    .collect()
}
