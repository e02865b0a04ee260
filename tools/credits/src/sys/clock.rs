//! The clock of expiries. It runs while the machine is suspended, and nobody can set it.

use nix::time::{ClockId, clock_gettime};
use units::Nanos;

/// Reads `CLOCK_BOOTTIME`, without a system call where the kernel maps the clock. Returns the end of
/// time where there is no such clock: every allowance has then expired.
#[inline]
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).ok();
    let ns = time.and_then(|time| {
        let seconds = u64::try_from(time.tv_sec()).ok()?.checked_mul(1_000_000_000)?;
        seconds.checked_add(u64::try_from(time.tv_nsec()).ok()?)
    });
    ns.map_or(Nanos::MAX, Nanos)
}
