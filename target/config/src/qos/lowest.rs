//! The lowest limits with which a Linux host can work.

use arbitration::overload::{HOST_TRIES, WAIT_MAX};

use crate::TargetConfig;

/// Entries of a Linux host's queue by default (`nvme connect --queue-size`).
pub(super) const LINUX_DEPTH: u16 = 128;

/// The lowest limits of a session for which a host can wait: the target sends a command back after
/// [`WAIT_MAX`], and a Linux host fails a command that was sent back too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowestRates {
    /// Commands per second.
    pub commands: u64,
    /// Bytes per second.
    pub bytes: u64,
}

impl LowestRates {
    /// Computes the rates at which a full queue of a Linux host passes in time.
    pub fn of(target: &TargetConfig) -> Self {
        let commands = u64::from(target.queue_depth.min(LINUX_DEPTH));
        let within = patience_of(target);
        let least = |amount: u64| {
            let rate = (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(within.max(1)));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let bytes = commands.saturating_mul(target.max_transfer.into());
        Self { commands: least(commands), bytes: least(bytes) }
    }
}

/// Returns the time in ns for which a Linux host waits for a command that is sent back as often as
/// the host submits it again.
pub(super) fn patience_of(target: &TargetConfig) -> u64 {
    let tries = u64::from(HOST_TRIES);
    tries * WAIT_MAX + (tries - 1) * target.retry_delays.longest()
}
