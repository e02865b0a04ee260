//! Settings of a monitor at its start.

use core::time::Duration;

use thiserror::Error;
use units::nanos;

use crate::one_sided::Address;
use crate::token::{Iops, Tokens};

/// I/Os of a client that can be under way at a period's start and at its end.
const UNDER_WAY: Tokens = Tokens(128);
/// Operations on words that an engine posts in a check interval at most: a report, a grant, a failed
/// fetch, and one of the interval before.
const WORDS: u64 = 4;

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

    /// Returns the I/Os by which a client's packets may exceed its report: its clock and its report's
    /// age, and the I/Os under way at both ends of the period.
    pub(super) fn unreported_margin(&self) -> Tokens {
        let most = self.local.in_time(self.period);
        Tokens(most.0 / 16) + self.local.in_time(self.interval.saturating_mul(3)) + UNDER_WAY
    }

    /// Returns the most packets of operations on words of a client that has done so many I/Os.
    pub(super) fn packets_of_words(&self, completed: Tokens) -> u64 {
        let intervals = nanos(self.period) / nanos(self.interval).max(1);
        let fetches = completed.0 / self.batch.0.max(1);
        intervals.saturating_add(1).saturating_mul(WORDS).saturating_add(fetches)
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
