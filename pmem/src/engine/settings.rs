//! Settings that an engine receives when it connects.

use core::time::Duration;

use thiserror::Error;

use crate::one_sided::Address;
use crate::token::Tokens;

/// The window of clients for I/Os with global tokens, unless they ask for another one.
///
/// A data node serves in order of arrival, so that clients with equal windows have equal parts. A
/// client whose reservation exceeds an equal part misses it while others keep as many I/Os beyond
/// theirs under way (docs/research/sources.md, H5). The price of 1: a client beyond its reservation does one
/// I/O in each round trip.
pub const BEST_EFFORT_WINDOW: u16 = 1;

/// The reason why an engine cannot work with some settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The interval is zero, or longer than the period.
    #[error("an interval of {interval:?} in a period of {period:?}: give 1 ns up to the period")]
    Interval {
        /// The interval asked for.
        interval: Duration,
        /// The period.
        period: Duration,
    },
    /// No I/O could ever go.
    #[error("a window of 0 I/Os: give at least 1")]
    NoWindow,
    /// No token could ever be fetched.
    #[error("a batch of {0} tokens: give 1 to 2^31 - 1")]
    Batch(Tokens),
}

/// The words that an engine shares with its data node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Address of the pool of global tokens ([`crate::word::PoolWord`]).
    pub pool: Address,
    /// Address of the client's grant ([`crate::word::GrantWord`]), which it only reads.
    pub grant: Address,
    /// Address of the client's report ([`crate::word::ReportWord`]), which it only writes.
    pub report: Address,
}

/// The settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// T: length of a period, as the data node has it.
    pub period: Duration,
    /// delta: time between two updates of X, and between two reports.
    pub interval: Duration,
    /// B: tokens that a fetch-and-add takes from the pool.
    pub batch: Tokens,
    /// The most I/Os under way at once.
    pub window: u32,
    /// The most I/Os under way at once when the next one takes a global token. With as many as
    /// `window` this is the paper's protocol. With fewer, I/Os beyond the reservation have less of
    /// a data node that serves in order of arrival: the paper's model gives them "lower priority",
    /// but no mechanism (docs/research/sources.md, H5). Clients use [`BEST_EFFORT_WINDOW`].
    pub best_effort_window: u32,
    /// L_i: the most I/Os in a period.
    pub limit: Option<Tokens>,
    /// The shared words.
    pub words: Words,
}

impl Settings {
    /// Makes the paper's settings: periods of 1 s, intervals of 1 ms, batches of 1000 tokens, 64
    /// I/Os at once with any token, no limit.
    #[must_use]
    pub const fn new(words: Words) -> Self {
        Self {
            period: Duration::from_secs(1),
            interval: Duration::from_millis(1),
            batch: Tokens(1000),
            window: 64,
            best_effort_window: 64,
            limit: None,
            words,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for the first setting out of its range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let (interval, period) = (self.interval, self.period);
        if interval.is_zero() || interval > period {
            Err(SettingsError::Interval { interval, period })
        } else if self.window == 0 || self.best_effort_window == 0 {
            Err(SettingsError::NoWindow)
        } else if self.batch.is_zero() || i32::try_from(self.batch.0).is_err() {
            Err(SettingsError::Batch(self.batch))
        } else {
            Ok(())
        }
    }
}
