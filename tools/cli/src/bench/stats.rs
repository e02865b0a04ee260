//! Counters and latency histograms.

use std::collections::BTreeMap;

use anyhow::Context as _;
use fabric::nvme::Status;
use hdrhistogram::Histogram;

/// The longest latency in the histograms, in nanoseconds; longer ones count as this one.
const MAX_LATENCY: u64 = 100_000_000_000;

/// The reads or the writes of one job.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    pub(crate) latency: Histogram<u64>,
    pub(crate) bytes: u64,
}

/// The commands of one job in some time.
#[derive(Clone, Debug)]
pub(crate) struct JobStats {
    pub(crate) reads: Direction,
    pub(crate) writes: Direction,
    /// The number of commands that failed, by status.
    pub(crate) errors: BTreeMap<u16, u64>,
    /// The number of commands that were due at the end and not submitted.
    pub(crate) held_back: u64,
}

impl Direction {
    fn new() -> anyhow::Result<Self> {
        let latency = Histogram::new_with_bounds(1, MAX_LATENCY, 3)
            .context("a latency histogram cannot be made")?;
        Ok(Self { latency, bytes: 0 })
    }

    pub(crate) fn count(&self) -> u64 {
        self.latency.len()
    }

    /// Computes the latency in nanoseconds that `share` (0..=1) of the commands do not exceed.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        self.latency.value_at_quantile(share)
    }

    #[inline]
    fn record(&mut self, nanoseconds: u64, bytes: u32) {
        self.latency.saturating_record(nanoseconds.max(1));
        self.bytes += u64::from(bytes);
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.bytes += other.bytes;
        self.latency.add(&other.latency).context("latency histograms do not agree")
    }
}

impl JobStats {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (reads, writes) = (Direction::new()?, Direction::new()?);
        Ok(Self { reads, writes, errors: BTreeMap::new(), held_back: 0 })
    }

    #[inline]
    pub(crate) fn record(&mut self, write: bool, nanoseconds: u64, bytes: u32) {
        let direction = if write { &mut self.writes } else { &mut self.reads };
        direction.record(nanoseconds, bytes);
    }

    #[cold]
    pub(crate) fn record_error(&mut self, status: Status) {
        *self.errors.entry(status.bits()).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        for (status, count) in &other.errors {
            *self.errors.entry(*status).or_default() += count;
        }
        self.held_back += other.held_back;
        self.reads.add(&other.reads)?;
        self.writes.add(&other.writes)
    }

    pub(crate) fn clear(&mut self) {
        self.errors.clear();
        self.held_back = 0;
        for direction in [&mut self.reads, &mut self.writes] {
            direction.latency.reset();
            direction.bytes = 0;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    /// Adds up reads and writes.
    pub(crate) fn both(&self) -> anyhow::Result<Direction> {
        let mut both = self.reads.clone();
        both.add(&self.writes)?;
        Ok(both)
    }
}
