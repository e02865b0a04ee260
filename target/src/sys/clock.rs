//! The daemon's clock.

use fabric::Nanos;
use nix::time::{ClockId, clock_gettime};
use sluice_config::ClockSource;

/// The daemon's clock: nanoseconds since its start.
///
/// A reactor reads the time in every turn. If reading the kernel's clock takes a system call (user-mode kernels,
/// some hypervisors), that call would cost more than the turn, so the CPU's time stamp counter is read where it is
/// invariant. [`ClockSource::Monotonic`] reads the kernel's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    start: u64,
}

#[derive(Clone, Debug)]
enum Source {
    /// The CPU's time stamp counter where it is invariant, else the kernel's `CLOCK_MONOTONIC`.
    Counter(quanta::Clock),
    /// The kernel's `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic,
}

impl Clock {
    /// Starts a clock at zero.
    #[must_use]
    pub fn start(source: ClockSource) -> Self {
        match source {
            ClockSource::Auto => {
                let clock = quanta::Clock::new();
                let start = clock.raw();
                Self { source: Source::Counter(clock), start }
            }
            ClockSource::Monotonic => Self { source: Source::Monotonic, start: monotonic() },
        }
    }

    /// Returns the time since the start.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.source {
            Source::Counter(clock) => Nanos(clock.delta_as_nanos(self.start, clock.raw())),
            Source::Monotonic => Nanos(monotonic().saturating_sub(self.start)),
        }
    }
}

/// Reads `CLOCK_MONOTONIC` in nanoseconds. Linux always has this clock; zero is never returned there.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
    u64::try_from(time.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_clock_agrees_with_kernel_clock() {
        let before = monotonic();
        let clock = Clock::start(ClockSource::Monotonic);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let now = clock.now().0;
        assert!(now >= 2_000_000, "{now} ns after 2 ms");
        let counted = monotonic() - before;
        assert!(now <= counted, "{now} ns is more than the {counted} of the kernel's clock");
    }

    #[test]
    fn clocks_never_go_back() {
        for source in [ClockSource::Auto, ClockSource::Monotonic] {
            let clock = Clock::start(source);
            let times: Vec<Nanos> = (0..1000).map(|_| clock.now()).collect();
            assert!(times.is_sorted(), "{source:?}");
        }
    }
}
