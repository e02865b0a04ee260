//! Counters: whose commands are counted where. A reactor writes them, and any thread reads them.

pub(crate) mod accounts;
pub(crate) mod charge;
pub(crate) mod counters;
pub(crate) mod tally;
pub(crate) mod workloads;

pub use counters::{
    BUCKETS, Histogram, HistogramSnapshot, IoSnapshot, IoStats, OpSnapshot, OpStats, PerReactor,
    QueueStats, bucket_end_ns,
};
