//! Counters and latency histograms: written by one reactor, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arbitration::{Class, PerClass};

/// Number of sub-buckets for each power of two: a bucket is at most 12.5 % wide.
const SUB: usize = 8;
/// Number of powers of two above the first: the buckets reach 2^36 ns (68 s).
const OCTAVES: usize = 33;
/// Number of buckets.
pub const BUCKETS: usize = SUB * (OCTAVES + 1);

/// A latency histogram in nanoseconds, log-linear. One thread writes, any thread reads.
#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; BUCKETS], sum_ns: AtomicU64::new(0) }
    }
}

/// Adds without a locked instruction: right because only the owning reactor writes.
#[inline]
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Returns the bucket of a value in nanoseconds.
#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < SUB as u64 {
        return usize::try_from(ns).unwrap_or(0);
    }
    let exponent = 63 - ns.leading_zeros() as usize;
    let sub = usize::try_from(ns >> (exponent - 3)).unwrap_or(0) & (SUB - 1);
    ((exponent - 2) * SUB + sub).min(BUCKETS - 1)
}

/// Returns the smallest value in nanoseconds that is above bucket `index`.
#[must_use]
pub fn bucket_end_ns(index: usize) -> u64 {
    if index < SUB {
        return index as u64 + 1;
    }
    let (octave, sub) = (index / SUB, index % SUB);
    (SUB as u64 + sub as u64 + 1) << (octave - 1)
}

/// A time in nanoseconds with its bucket, for an event that several histograms record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    ns: u64,
    bucket: usize,
}

impl Time {
    #[inline]
    pub(crate) fn new(ns: u64) -> Self {
        Self { ns, bucket: bucket_of(ns) }
    }
}

impl Histogram {
    /// Records `n` events of `ns` nanoseconds each.
    #[inline]
    pub fn record(&self, ns: u64, n: u64) {
        self.record_time(Time::new(ns), n);
    }

    /// Records `n` events that took a time each.
    #[inline]
    pub(crate) fn record_time(&self, time: Time, n: u64) {
        if let Some(cell) = self.counts.get(time.bucket) {
            add(cell, n);
        }
        add(&self.sum_ns, time.ns.wrapping_mul(n));
    }

    /// Copies the histogram, for reading.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: self.counts.iter().map(|c| c.load(Relaxed)).collect(),
            sum_ns: self.sum_ns.load(Relaxed),
        }
    }
}

/// A histogram's state at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Events in each bucket; bucket `i` holds values below [`bucket_end_ns`]`(i)`.
    pub counts: Vec<u64>,
    /// The sum of all values in nanoseconds.
    pub sum_ns: u64,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum_ns: 0 }
    }
}

impl HistogramSnapshot {
    /// Returns the number of events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the events of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// Returns the value in nanoseconds that `q` (0.0 to 1.0) of the events do not exceed, to a
    /// bucket's width; 0 where there are no events.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a count of events is a count of events"
    )]
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let total = self.count();
        let rank = ((total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_end_ns(index);
            }
        }
        0
    }
}

/// Statistics of a connection's commands, which take memory once the connection is an I/O queue.
pub type QueueStats = OnceLock<Arc<IoStats>>;

/// Statistics in one part for each reactor that writes them. A part takes memory when its reactor
/// first writes it, since there may be many thousands and most rest.
#[derive(Debug)]
pub struct PerReactor(Vec<OnceLock<Box<IoStats>>>);

impl PerReactor {
    /// Makes the statistics of `reactors` reactors.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        Self((0..reactors).map(|_| OnceLock::new()).collect())
    }

    /// Returns the number of reactors that count.
    #[must_use]
    pub fn reactors(&self) -> usize {
        self.0.len()
    }

    /// Returns the statistics that a reactor writes.
    #[inline]
    #[must_use]
    pub fn get(&self, reactor: usize) -> Option<&IoStats> {
        Some(self.0.get(reactor)?.get_or_init(Box::default))
    }

    /// Iterates over the statistics that reactors have written.
    pub fn iter(&self) -> impl Iterator<Item = &IoStats> {
        self.0.iter().filter_map(|stats| stats.get().map(|stats| &**stats))
    }
}

/// Operations of one kind: their number, bytes and latency.
#[derive(Debug, Default)]
pub struct OpStats {
    ops: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    latency: Histogram,
}

impl OpStats {
    /// Records `n` operations that together moved `bytes` bytes and took `ns` nanoseconds each.
    #[inline]
    pub fn record(&self, n: u64, bytes: u64, ns: u64) {
        self.record_time(n, bytes, Time::new(ns));
    }

    /// Records `n` operations as [`Self::record`] does, which took a time each.
    #[inline]
    pub(crate) fn record_time(&self, n: u64, bytes: u64, time: Time) {
        add(&self.ops, n);
        add(&self.bytes, bytes);
        self.latency.record_time(time, n);
    }

    /// Counts `n` operations that failed; they count in [`Self::record`] too.
    #[inline]
    pub fn errors(&self, n: u64) {
        add(&self.errors, n);
    }

    /// Copies the counters, for reading.
    #[must_use]
    pub fn snapshot(&self) -> OpSnapshot {
        OpSnapshot {
            ops: self.ops.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            latency: self.latency.snapshot(),
        }
    }
}

/// The three kinds of operations that are counted apart.
#[derive(Debug, Default)]
pub struct IoStats {
    /// Reads.
    pub read: OpStats,
    /// Writes.
    pub write: OpStats,
    /// Everything else: flush, deallocate, write zeroes, compare, verify.
    pub other: OpStats,
    /// Time from the arrival of commands until they were handed to their device.
    pub queueing: Histogram,
    /// Time that commands were in the device. With the time before it makes up their latency.
    pub service: Histogram,
    refused: AtomicU64,
    /// Commands of a lower class than they asked for, by the class that they asked for.
    lowered: PerClass<AtomicU64>,
}

impl IoStats {
    /// Counts a command that was refused with a retry delay.
    pub fn refuse(&self) {
        add(&self.refused, 1);
    }

    /// Returns the number of commands that were refused with a retry delay.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a command of a lower class than `asked`, since the host may not have that.
    pub fn lower(&self, asked: Class) {
        add(&self.lowered[asked], 1);
    }

    /// Counts the commands that were completed.
    #[must_use]
    pub fn operations(&self) -> u64 {
        [&self.read, &self.write, &self.other].map(|kind| kind.ops.load(Relaxed)).iter().sum()
    }

    /// Copies the counters, for reading.
    #[must_use]
    pub fn snapshot(&self) -> IoSnapshot {
        IoSnapshot {
            read: self.read.snapshot(),
            write: self.write.snapshot(),
            other: self.other.snapshot(),
            queueing: self.queueing.snapshot(),
            service: self.service.snapshot(),
            lowered: PerClass::from_fn(|asked| self.lowered[asked].load(Relaxed)),
        }
    }
}

/// [`OpStats`] at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpSnapshot {
    /// Operations that ended, failed ones included.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that ended with an error.
    pub errors: u64,
    /// Time from a command's arrival until its completion was queued for sending.
    pub latency: HistogramSnapshot,
}

impl OpSnapshot {
    /// Adds the operations of another snapshot.
    pub fn merge(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }
}

/// [`IoStats`] at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoSnapshot {
    /// Reads.
    pub read: OpSnapshot,
    /// Writes.
    pub write: OpSnapshot,
    /// Everything else.
    pub other: OpSnapshot,
    /// Time before the device.
    pub queueing: HistogramSnapshot,
    /// Time in the device.
    pub service: HistogramSnapshot,
    /// Commands of a lower class than they asked for, by the class that they asked for.
    pub lowered: PerClass<u64>,
}

impl IoSnapshot {
    /// Returns the number of operations of all kinds.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.read.ops + self.write.ops + self.other.ops
    }

    /// Adds the operations of another snapshot.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.other.merge(&other.other);
        self.queueing.merge(&other.queueing);
        self.service.merge(&other.service);
        for (mine, theirs) in self.lowered.values_mut().zip(other.lowered.values()) {
            *mine += theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for shift in 0..40u32 {
            for offset in [0, 1, 3] {
                let ns = (1u64 << shift) + offset;
                let index = bucket_of(ns);
                assert!(ns < bucket_end_ns(index) || index == BUCKETS - 1, "{ns}");
                assert!(index == 0 || ns >= bucket_end_ns(index - 1), "{ns}");
            }
        }
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.record(us * 1000, 1));
        let seen = histogram.snapshot();
        for (q, want) in [(0.5, 500_000.0), (0.99, 990_000.0)] {
            let got = seen.quantile_ns(q) as f64;
            assert!(got >= want && got <= want * 1.13, "{q}: {got}");
        }
    }

    #[test]
    fn what_is_merged_is_what_all_reactors_have_counted() {
        let (parts, whole) = (PerReactor::new(3), IoStats::default());
        for reactor in [0, 2] {
            for stats in [parts.get(reactor).unwrap(), &whole] {
                for (n, kind) in [(1, &stats.read), (2, &stats.write), (3, &stats.other)] {
                    kind.record(n, n * 4096, 1000 << reactor);
                    kind.errors(n);
                }
                stats.queueing.record(50, 1);
                stats.service.record(9000, 2);
                stats.lower(Class::High);
            }
        }
        let mut merged = IoSnapshot::default();
        parts.iter().for_each(|part| merged.merge(&part.snapshot()));
        assert_eq!(merged, whole.snapshot());
        assert_eq!((parts.reactors(), parts.iter().count()), (3, 2), "one has counted nothing");
    }
}
