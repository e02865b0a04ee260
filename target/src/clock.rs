//! The daemon's clock.

use fabric::Nanos;

/// The daemon's clock: nanoseconds since its start.
///
/// It reads the CPU's time stamp counter where that is invariant. A reactor asks for the time in
/// every turn, and where the kernel's clock takes a system call (user-mode kernels, some
/// hypervisors) that call would cost more than the turn.
#[derive(Clone, Debug)]
pub struct Clock {
    clock: quanta::Clock,
    start: u64,
}

impl Clock {
    /// Starts a clock at zero.
    #[must_use]
    pub fn start() -> Self {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Self { clock, start }
    }

    /// Returns the time since the start.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}
