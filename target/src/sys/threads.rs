//! The CPUs on which threads run, and the guard against their panics.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// Returns the CPUs that the calling thread may run on.
///
/// # Errors
/// The kernel does not tell them.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// Pins the calling thread to a CPU.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(())
}

/// A guard that ends the process if its thread panics, so that it is started again. A daemon without
/// one of its reactors would take connections and serve none of them; and the kernel may hold that
/// reactor's memory.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Returns the CPU time of the calling thread in nanoseconds; zero where the kernel does not tell
/// it.
pub(crate) fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(std::time::Duration::from);
    u64::try_from(time.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
