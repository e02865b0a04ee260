//! The thread that stores which hosts use subsystems.

use std::time::Duration;

use fabric::Nanos;

use crate::control::store::{HostPaths, Unstored};
use crate::serve::shared::Shared;

/// Stores which hosts use subsystems, until `over` holds: the body of a thread of its own, since a
/// write waits for the disk. A host's first I/O queue is stored at once, hosts that come in a row
/// together.
pub(super) fn keep_hosts(
    shared: &Shared,
    hosts: &HostPaths,
    unstored: &Unstored,
    over: impl Fn() -> bool,
) {
    /// The time between two writes.
    const REST: Duration = Duration::from_millis(100);
    /// The time between two writes, where the first failed.
    const RETRY: Duration = Duration::from_secs(10);
    /// The time within which the end of the daemon is noticed.
    const LONGEST: Duration = Duration::from_millis(200);
    let mut next = Nanos(0);
    loop {
        // The last connections' changes are stored before the end.
        let last = over();
        let now = shared.clock.now();
        if now < next && !last {
            std::thread::sleep(next.since(now).min(LONGEST));
            continue;
        }
        let changes = shared.service().unsaved_hosts(if last { Duration::ZERO } else { LONGEST });
        if !changes.is_empty() {
            let written = hosts.write(&changes);
            let is_news = unstored.note(&written);
            match &written {
                Ok(()) => shared.with_service(|service| service.hosts_saved(changes)),
                Err(error) if is_news => tracing::warn!(
                    %error,
                    "the hosts that use subsystems are not stored: after a restart, a host counts \
                     as a user of its namespaces only once it has connected again"
                ),
                Err(_) => {}
            }
            next = shared.clock.now() + if written.is_err() { RETRY } else { REST };
        }
        if last {
            return;
        }
    }
}
