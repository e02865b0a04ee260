//! The table of metric families in docs/reference/metrics.md.

use std::collections::{BTreeMap, BTreeSet};

const DOCS: &str = include_str!("../../../../../docs/reference/metrics.md");

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// The name without `sluicegate_`.
    pub(super) name: &'static str,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub(super) kind: &'static str,
    pub(super) labels: BTreeSet<&'static str>,
    pub(super) meaning: &'static str,
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
            meaning: cells[3],
        }
    })
    .collect()
}

impl Family {
    /// Returns the names of the family's series, as Prometheus stores them.
    pub(super) fn series(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            "counter" => &["_total"],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "gauge" => &[""],
            other => panic!("{other}"),
        };
        suffixes.iter().map(|suffix| format!("sluicegate_{}{suffix}", self.name)).collect()
    }
}

/// Returns the families by the names of their series.
pub(super) fn by_series() -> BTreeMap<String, Family> {
    let all = families().into_iter();
    all.flat_map(|family| family.series().into_iter().map(move |name| (name, family.clone())))
        .collect()
}
