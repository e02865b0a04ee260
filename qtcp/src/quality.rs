//! The quality factor of a flow (docs/research/sources.md, E1; Eq. 1, 2).

use core::time::Duration;

use crate::Rate;

/// The largest quality factor: a flow that gets nothing would have an infinite one.
pub const MAX_QUALITY: f64 = 1000.0;

/// Computes the quality factor of a throughput (Eq. 1): the target divided by the smoothed rate.
#[must_use]
#[inline]
pub fn of_throughput(target: Rate, rate: Rate) -> f64 {
    ratio(target.bytes(), rate.bytes())
}

/// Computes the quality factor of a latency (Eq. 2): the smoothed round-trip time, in seconds,
/// divided by the target.
#[must_use]
#[inline]
pub fn of_latency(latency: f64, target: Duration) -> f64 {
    ratio(latency, target.as_secs_f64())
}

/// Divides, up to [`MAX_QUALITY`]; zero by zero is 1.
#[inline]
fn ratio(over: f64, under: f64) -> f64 {
    if under > 0.0 {
        (over / under).min(MAX_QUALITY)
    } else if over > 0.0 {
        MAX_QUALITY
    } else {
        1.0
    }
}
