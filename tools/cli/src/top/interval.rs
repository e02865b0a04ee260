//! The interval between two looks at the daemon.

use std::time::Duration;

/// The shortest and the longest interval.
pub(super) const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Parses the interval of the command line.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let time = crate::bench::time(text)?;
    if INTERVALS.contains(&time) { Ok(time) } else { Err("from 100ms to 1h".to_owned()) }
}
