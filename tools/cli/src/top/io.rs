//! Counts and times of the commands that were carried out.

use serde_json::Value;

use super::answer::number;
use super::histogram::Histogram;

/// The commands that were carried out since the daemon started.
#[derive(Clone, Debug, Default)]
pub(super) struct Io {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    /// The number of commands that were rejected, to be retried later.
    pub(super) refused: u64,
    /// The times from a command's arrival to its answer.
    pub(super) latency: Times,
    pub(super) queueing: Times,
    pub(super) service: Times,
}

/// The times of commands since the daemon started, in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) mean: u64,
    pub(super) p99: u64,
    /// The sum over all commands, if the daemon says; it wraps at 2^64.
    pub(super) sum: Option<u64>,
    /// The histogram, if the daemon says.
    pub(super) counts: Option<Histogram>,
}

impl Io {
    /// Adds up reads, writes and others of a row's `io`.
    pub(super) fn of(row: &Value) -> Self {
        let io = row.get("io").unwrap_or(&Value::Null);
        let all = || ["read", "write", "other"].into_iter().filter_map(|kind| io.get(kind));
        let sum = |key: &str| all().map(|kind| number(kind, key)).fold(0, u64::saturating_add);
        Self {
            operations: sum("operations"),
            bytes: sum("bytes"),
            errors: sum("errors"),
            refused: number(row, "refused"),
            latency: latency(all()),
            queueing: times(io, "queueing"),
            service: times(io, "service"),
        }
    }
}

/// Adds up the latencies of several kinds of operations; p99 is the highest p99 of a kind.
fn latency<'a>(kinds: impl Iterator<Item = &'a Value>) -> Times {
    let (mut count, mut total) = (0u64, 0u128);
    let start = Times { sum: Some(0), counts: Some(Histogram::default()), ..Times::default() };
    let all = kinds.fold(start, |mut all, kind| {
        let (done, times) = (number(kind, "operations"), times(kind, "latency"));
        count = count.saturating_add(done);
        total += u128::from(done) * u128::from(times.mean);
        all.p99 = all.p99.max(times.p99);
        all.sum = all.sum.zip(times.sum).map(|(all, sum)| all.wrapping_add(sum));
        all.counts = all.counts.zip(times.counts).map(|(mut all, counts)| {
            all.merge(&counts);
            all
        });
        all
    });
    let mean = total.checked_div(u128::from(count)).unwrap_or(0);
    Times { mean: u64::try_from(mean).unwrap_or(u64::MAX), ..all }
}

/// Reads times under `key`, or under `key` with its unit.
fn times(io: &Value, key: &str) -> Times {
    let with_unit = format!("{key}_ns");
    let times = io.get(key).or_else(|| io.get(with_unit.as_str())).unwrap_or(&Value::Null);
    Times {
        mean: number(times, "mean"),
        p99: number(times, "p99"),
        sum: times.get("sum").and_then(Value::as_u64),
        counts: times.get("buckets").and_then(Histogram::of),
    }
}
