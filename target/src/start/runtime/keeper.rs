//! The keeper of namespaces, a thread: it opens devices when they appear, notices when they are
//! gone, and logs their errors.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::Nanos;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::recovery::Recovery;
use crate::disks::backend::WakeUp;
use crate::disks::uevents::Uevents;

/// The time between two looks at files and devices, which do not report their faults themselves.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The least time from one wake-up that is cleared to the next: a device whose every command fails
/// does not keep the thread busy.
const CLEAR_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for devices that do not answer.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Starts the thread.
pub(super) fn start(
    recovery: Arc<Recovery>,
    stopping: Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<()>> {
    let uevents = Uevents::listen();
    if let Err(error) = &uevents {
        tracing::info!(
            %error,
            "the kernel's messages about devices cannot be received: a device that appears is \
             found within a minute"
        );
    }
    let name = "namespaces".to_owned();
    std::thread::Builder::new()
        .name(name)
        .spawn(move || keep(&recovery, uevents.ok().as_ref(), &stopping))
}

/// Waits for the end of the thread, and of its work at devices, unless one does not answer.
pub(super) fn join(recovery: &Recovery, thread: JoinHandle<()>) {
    recovery.namespaces.wake_up.wake();
    let start = std::time::Instant::now();
    let is_over = || thread.is_finished() && !recovery.waits();
    while !is_over() && start.elapsed() < END_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
    if is_over() {
        let _ = thread.join();
    } else {
        tracing::warn!(
            "a device that is being opened does not answer: the daemon ends without waiting for it"
        );
    }
}

fn keep(recovery: &Arc<Recovery>, uevents: Option<&Uevents>, stopping: &AtomicBool) {
    let namespaces = &recovery.namespaces;
    let (clock, wake_up) = (&namespaces.shared.clock, &namespaces.wake_up);
    let (mut look_at, mut clear_at) = (clock.now() + LOOK_EVERY, Nanos(0));
    while !stopping.load(Ordering::Relaxed) {
        let now = clock.now();
        if now >= clear_at {
            wake_up.clear();
            clear_at = now + CLEAR_EVERY;
        }
        let event = uevents.is_some_and(Uevents::any);
        if event {
            namespaces.table.nudge_all(now);
        }
        let look = event || now >= look_at;
        if look {
            look_at = now + LOOK_EVERY;
        }
        let next = recovery.tend(look).unwrap_or(look_at).min(look_at);
        wait(wake_up, uevents, next.since(clock.now()));
        // A wake-up that comes during this sleep stays pending until it is cleared.
        if !stopping.load(Ordering::Relaxed) {
            std::thread::sleep(clear_at.since(clock.now()));
        }
    }
}

/// Waits until there is something to do, `limit` at the longest.
fn wait(wake_up: &WakeUp, uevents: Option<&Uevents>, limit: Duration) {
    let mut watched = vec![PollFd::new(wake_up.descriptor().as_fd(), PollFlags::POLLIN)];
    watched.extend(uevents.map(|uevents| PollFd::new(uevents.as_fd(), PollFlags::POLLIN)));
    let millis = u16::try_from(limit.as_millis().saturating_add(1)).unwrap_or(u16::MAX);
    let _ = poll(&mut watched, PollTimeout::from(millis));
}
