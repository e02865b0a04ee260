//! Rates and latencies of commands, and how a table shows them.

use std::fmt::Write as _;

use serde::Serialize;

use super::stats::Direction;
use super::units::{show_count, show_latency};

/// Rates and latencies.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) commands: u64,
    pub(crate) iops: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) mean_ns: f64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) p9999_ns: u64,
    pub(crate) max_ns: u64,
}

impl Figures {
    pub(crate) fn of(direction: &Direction, seconds: f64) -> Self {
        Self {
            commands: direction.count(),
            iops: direction.count() as f64 / seconds,
            bytes_per_second: direction.bytes as f64 / seconds,
            mean_ns: direction.latency.mean(),
            p50_ns: direction.quantile(0.5),
            p90_ns: direction.quantile(0.9),
            p99_ns: direction.quantile(0.99),
            p999_ns: direction.quantile(0.999),
            p9999_ns: direction.quantile(0.9999),
            max_ns: direction.latency.max(),
        }
    }

    pub(super) fn of_any(direction: &Direction, seconds: f64) -> Option<Self> {
        (direction.count() > 0).then(|| Self::of(direction, seconds))
    }

    /// Writes the columns of a table row.
    pub(crate) fn columns(&self) -> String {
        let latencies = [self.p50_ns, self.p90_ns, self.p99_ns, self.p999_ns, self.max_ns];
        let mut row = format!(
            "{:>8} {:>8.0} {:>8}",
            show_count(self.iops),
            self.bytes_per_second / 1e6,
            show_latency(self.mean_ns)
        );
        for latency in latencies {
            let _ = write!(row, " {:>8}", show_latency(latency as f64));
        }
        row
    }
}

/// The head of the columns that [`Figures::columns`] fills.
pub(crate) const COLUMNS: &str =
    "    IOPS     MB/s     mean      p50      p90      p99    p99.9      max";
