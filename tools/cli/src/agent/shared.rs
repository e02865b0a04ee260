//! The state that the threads of all subsystems share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::cgroups::ControlGroups;

/// The longest sleep, so that a signal ends the agent soon.
const NAP: Duration = Duration::from_millis(100);

/// The state that the threads of all subsystems share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Whether a signal has ended the agent.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) sysfs: PathBuf,
    pub(super) credits: PathBuf,
    pub(super) groups: Option<Mutex<ControlGroups>>,
}

impl Shared {
    /// Sleeps for `time`, or until the agent ends.
    pub(super) fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Locks, also after a thread has panicked: the next division replaces its state.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
