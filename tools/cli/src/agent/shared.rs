//! The state that the threads of all subsystems share.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::cgroups::ControlGroups;

/// The longest sleep, so that a signal ends the agent soon.
pub(super) const NAP: Duration = Duration::from_millis(100);

/// The state that the threads of all subsystems share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) sysfs: PathBuf,
    pub(super) credits: PathBuf,
    pub(super) groups: Option<Mutex<ControlGroups>>,
}

impl Shared {
    /// Sleeps for `time`, or until the agent ends.
    pub(super) fn sleep(&self, time: Duration) {
        let until = std::time::Instant::now() + time;
        while !self.is_stopping() {
            let left = until.saturating_duration_since(std::time::Instant::now());
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
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
