//! The thread that keeps namespaces: it opens devices when they appear, notices when they are
//! gone, and tells of their errors.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::Nanos;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Runtime;
use crate::uevents::Uevents;

/// How often files and devices are looked at that give no sign themselves.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The bell is heard so often at most: a device whose every command fails keeps nobody busy.
const HEAR_EVERY: Duration = Duration::from_millis(100);
/// The end of the thread is waited for so long; a device that does not answer may hold it.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Starts the thread.
pub(super) fn start(runtime: &Arc<Runtime>) -> std::io::Result<JoinHandle<()>> {
    let runtime = Arc::clone(runtime);
    let uevents = Uevents::listen();
    if let Err(error) = &uevents {
        tracing::info!(
            %error,
            "no messages of devices here: one that appears is found within a minute"
        );
    }
    let name = "namespaces".to_owned();
    std::thread::Builder::new().name(name).spawn(move || keep(&runtime, uevents.ok().as_ref()))
}

/// Waits for the end of the thread, but not for a device that does not answer.
pub(super) fn join(runtime: &Runtime, thread: JoinHandle<()>) {
    runtime.namespaces.bell.ring();
    let start = std::time::Instant::now();
    while !thread.is_finished() && start.elapsed() < END_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
    if thread.is_finished() {
        let _ = thread.join();
    } else {
        tracing::warn!("a device that is being opened does not answer: it is left");
    }
}

fn keep(runtime: &Runtime, uevents: Option<&Uevents>) {
    let clock = &runtime.shared.clock;
    let bell = &runtime.namespaces.bell;
    let (mut look_at, mut hear_at) = (clock.now() + LOOK_EVERY, Nanos(0));
    while !runtime.stopping.load(Ordering::Relaxed) {
        let now = clock.now();
        if now >= hear_at {
            bell.hear();
            hear_at = now + HEAR_EVERY;
        }
        let sign = uevents.is_some_and(Uevents::any);
        if sign {
            runtime.nudge_all();
        }
        let look = sign || now >= look_at;
        if look {
            look_at = now + LOOK_EVERY;
        }
        let next = runtime.tend(look).unwrap_or(look_at).min(look_at);
        wait(runtime, uevents, next.since(clock.now()), hear_at);
    }
}

/// Waits until there is something to do, `limit` at the longest.
fn wait(runtime: &Runtime, uevents: Option<&Uevents>, limit: Duration, hear_at: Nanos) {
    let bell = runtime.namespaces.bell.descriptor();
    let mut watched = vec![PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
    watched.extend(uevents.map(|uevents| PollFd::new(uevents.as_fd(), PollFlags::POLLIN)));
    let millis = u16::try_from(limit.as_millis().saturating_add(1)).unwrap_or(u16::MAX);
    let _ = poll(&mut watched, PollTimeout::from(millis));
    // The bell stays where it is until it is heard.
    let rest = hear_at.since(runtime.shared.clock.now());
    if !runtime.stopping.load(Ordering::Relaxed) {
        std::thread::sleep(rest);
    }
}
