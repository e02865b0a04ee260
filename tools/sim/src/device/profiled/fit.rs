//! Derives a device's times from measurements.

use thiserror::Error;

use super::settings::{SERVERS_MAX, Settings};
use super::times::{BASE_KIB, Times, TimesError};

/// Factors by which measured times may be off the rate for a rounded number of servers: the half of one
/// server.
const SCALES: std::ops::RangeInclusive<f64> = 0.66..=1.5;

/// Commands of 4 KiB that were alone in the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone {
    /// Mean time in ns.
    pub mean: f64,
    /// Times in ns by the part of commands that does not exceed them, as of [`Times`].
    pub points: Vec<(f64, f64)>,
}

/// Commands of one size of which as many waited as the device can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturated {
    /// Size in KiB.
    pub kib: f64,
    /// Commands that were completed in a second.
    pub per_second: f64,
}

/// Measurements of reads, or of writes.
#[derive(Clone, Debug, PartialEq)]
pub struct KindMeasured {
    /// Commands alone.
    pub alone: Alone,
    /// Commands of 4 KiB, as many as can be.
    pub small: Saturated,
    /// Larger commands, as many as can be; `None`: bytes take no time.
    pub large: Option<Saturated>,
}

/// Measurements that no device can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    /// Nothing was measured.
    #[error("no command was measured: put load on the device")]
    Nothing,
    /// A rate or a time is 0, or no number.
    #[error("a measured rate or time is 0: measure for longer")]
    Zero,
    /// More commands are in the device than a device takes.
    #[error("the device carries out more than {SERVERS_MAX} commands at once: measure it again")]
    Wide,
    /// The times are no distribution.
    #[error(transparent)]
    Times(#[from] TimesError),
}

/// Makes the device that has these times and rates: a kind that was not measured is like the other.
///
/// The number of servers is the rate in commands per second times the mean time of a command alone, rounded. Times are
/// stretched a little to keep the rate exact. The kind that needs more servers decides; a command of the other kind
/// keeps its server for longer than its own time, so that its rate is right as well.
///
/// # Errors
/// No device can have these measurements.
pub fn fit(
    read: Option<&KindMeasured>,
    write: Option<&KindMeasured>,
) -> Result<Settings, FitError> {
    let (read, write) = match (read.or(write), write.or(read)) {
        (Some(read), Some(write)) => (read, write),
        _ => return Err(FitError::Nothing),
    };
    let servers = servers(read)?.max(servers(write)?);
    if servers > f64::from(SERVERS_MAX) {
        return Err(FitError::Wide);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 4096")]
    let parallelism = servers as u32;
    Ok(Settings { parallelism, read: times(read, servers)?, write: times(write, servers)? })
}

/// Computes the whole number of servers that a kind needs.
fn servers(of: &KindMeasured) -> Result<f64, FitError> {
    let product = of.small.per_second * of.alone.mean / 1e9;
    match product.is_finite() && product > 0.0 {
        true => Ok(product.round().max(1.0)),
        false => Err(FitError::Zero),
    }
}

/// Makes the times of a kind on so many servers.
fn times(of: &KindMeasured, servers: f64) -> Result<Times, FitError> {
    let measured = Times::new(of.alone.points.clone(), 0.0, 0.0)?;
    // The service time of one command when every server is busy.
    let busy = |rate: f64| servers * 1e9 / rate;
    let holds = busy(of.small.per_second);
    let per_kib = match of.large {
        Some(large) if large.kib > BASE_KIB && large.per_second > 0.0 => {
            ((busy(large.per_second) - holds) / (large.kib - BASE_KIB)).max(0.0)
        }
        Some(_) => return Err(FitError::Zero),
        None => 0.0,
    };
    let stretch = holds / of.alone.mean;
    let shape = of.alone.mean / measured.mean();
    Ok(match SCALES.contains(&stretch) {
        true => Times::new(measured.scaled(shape * stretch), per_kib, 0.0)?,
        false => Times::new(measured.scaled(shape), per_kib, holds)?,
    })
}
