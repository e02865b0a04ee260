//! Settings of a monitor at its start.

use core::time::Duration;

use thiserror::Error;

use crate::one_sided::Address;
use crate::token::{Iops, Tokens};

/// The reason why a monitor cannot work with some settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("checks each {interval:?} in a period of {period:?}: give 1 ns up to the period")]
pub struct BadInterval {
    /// The check interval asked for.
    pub interval: Duration,
    /// The period.
    pub period: Duration,
}

/// The settings of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// T: length of a period.
    pub period: Duration,
    /// Time between two checks of the pool and the reports.
    pub interval: Duration,
    /// C_L: the I/Os per second that one client can do by itself.
    pub local: Iops,
    /// B: tokens that a client takes from the pool at once.
    pub batch: Tokens,
    /// Whether unused reservation tokens become global ones. Without it this is the "Basic Haechi"
    /// of the paper's Fig. 10 and 11.
    pub conversion: bool,
    /// Checks without news after which a client's tokens are given back; 0 counts as 1.
    pub silence: u32,
    /// Periods in a row with unused reservation after which a client is named; 0 counts as 1.
    pub alert_after: u32,
    /// Address of the pool's word.
    pub pool: Address,
}

impl Settings {
    /// Creates the paper's settings, periods of 1 s, checks each 1 ms and batches of 1000 tokens. For values that the paper
    /// does not state: tokens are returned after 10 ms of silence, and clients named after 5
    /// periods.
    #[must_use]
    pub const fn new(local: Iops, pool: Address) -> Self {
        Self {
            period: Duration::from_secs(1),
            interval: Duration::from_millis(1),
            local,
            batch: Tokens(1000),
            conversion: true,
            silence: 10,
            alert_after: 5,
            pool,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`BadInterval`] where the interval is zero or longer than the period.
    pub fn check(&self) -> Result<(), BadInterval> {
        let (interval, period) = (self.interval, self.period);
        let bad = interval.is_zero() || interval > period;
        if bad { Err(BadInterval { interval, period }) } else { Ok(()) }
    }
}
