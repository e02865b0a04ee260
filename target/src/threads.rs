//! Where threads run.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

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
