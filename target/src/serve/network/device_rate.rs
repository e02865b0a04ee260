//! The limit on a queue pair's sending rate, kept by its device if the device can: a bound behind the tokens of the
//! target ([`qtcp::device_limit`]).

use std::fmt;
use std::num::NonZeroU32;

use qtcp::Rate;
use qtcp::device_limit::DeviceLimit;

/// Sets the limit of a queue pair, by a system call.
pub(crate) trait SetRate: fmt::Debug + Send {
    /// Sets the limit, in kbit/s on the wire; `None` lifts it.
    ///
    /// # Errors
    /// The device refuses it, or the queue pair has ended; in words.
    fn set(&self, rate: Option<NonZeroU32>) -> Result<(), String>;
}

impl SetRate for fabric_verbs::RateLimit {
    fn set(&self, rate: Option<NonZeroU32>) -> Result<(), String> {
        Self::set(self, rate).map_err(|error| error.to_string())
    }
}

/// The limit of a queue pair whose device can keep one.
#[derive(Debug)]
pub(crate) struct DeviceRate {
    limit: DeviceLimit,
    set: Box<dyn SetRate>,
}

impl DeviceRate {
    /// Makes the limit of a queue pair that has none yet.
    pub(super) fn new(limit: DeviceLimit, set: Box<dyn SetRate>) -> Self {
        Self { limit, set }
    }

    /// Takes the rate of data at which tokens are spent; `None` means no limit. Returns whether the device accepts
    /// the new limit. If not, its limit is lifted, as far as the device does that.
    pub(super) fn follow(&mut self, tokens: Option<Rate>) -> bool {
        let Some(change) = self.limit.change(tokens) else { return true };
        let Err(error) = self.set.set(change) else { return true };
        tracing::debug!(error, "the RDMA device does not hold a queue pair back");
        let _ = self.set.set(None);
        false
    }

    /// Returns the rate of data at which the device sends now; `None`: as fast as it can.
    pub(super) fn data_rate(&self) -> Option<Rate> {
        self.limit.data_rate()
    }
}
