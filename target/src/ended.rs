//! The operations of hosts on connections that have ended: kept for a while, so that a host that
//! comes back goes on counting, and forgotten then, so that hosts that are gone do not fill the
//! monitoring.

use std::collections::BTreeMap;
use std::time::Duration;

use fabric::Nanos;

use sluice_core::stats::IoSnapshot;

/// The NQNs of a host and of a subsystem.
pub type HostKey = (String, String);

/// The time for which a host without a connection is remembered.
pub const KEEP: Duration = Duration::from_secs(3600);
/// The most hosts without a connection that are remembered.
pub const HOSTS_MAX: usize = 1024;

/// The operations of hosts on connections that have ended.
#[derive(Debug, Default)]
pub struct Ended {
    hosts: BTreeMap<HostKey, Past>,
}

/// The operations of one host.
#[derive(Debug, Default)]
struct Past {
    io: IoSnapshot,
    /// The time at which the host last had a connection.
    seen: Nanos,
}

impl Ended {
    /// Adds the operations on a connection that has ended now.
    pub fn add(&mut self, now: Nanos, host: HostKey, io: &IoSnapshot) {
        let past = self.hosts.entry(host).or_default();
        past.io.merge(io);
        past.seen = now;
    }

    /// Returns a copy of each host's operations.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<HostKey, IoSnapshot> {
        self.hosts.iter().map(|(host, past)| (host.clone(), past.io.clone())).collect()
    }

    /// Forgets hosts that have been gone for [`KEEP`], and beyond [`HOSTS_MAX`] those that have
    /// been gone for longest. A host that is connected is never forgotten: its counters would fall.
    pub fn forget(&mut self, now: Nanos, is_connected: impl Fn(&HostKey) -> bool) {
        let mut gone = Vec::new();
        self.hosts.retain(|host, past| {
            if is_connected(host) {
                past.seen = now;
                return true;
            }
            let keep = now.since(past.seen) < KEEP;
            if keep {
                gone.push((past.seen, host.clone()));
            }
            keep
        });
        gone.sort_unstable();
        for (_, host) in gone.iter().take(gone.len().saturating_sub(HOSTS_MAX)) {
            self.hosts.remove(host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;

    fn host(number: usize) -> HostKey {
        (format!("nqn.2026-01.io.x:h{number}"), "nqn.2026-01.io.x:a".into())
    }

    fn io(reads: u64) -> IoSnapshot {
        let mut io = IoSnapshot::default();
        io.read.ops = reads;
        io
    }

    fn reads(ended: &Ended, number: usize) -> Option<u64> {
        ended.snapshot().get(&host(number)).map(|io| io.read.ops)
    }

    #[test]
    fn a_host_that_is_gone_is_forgotten_after_an_hour() {
        let mut ended = Ended::default();
        ended.add(Nanos(SECOND), host(1), &io(5));
        ended.add(Nanos(HOUR / 2), host(2), &io(7));
        ended.forget(Nanos(HOUR), |_| false);
        assert_eq!((reads(&ended, 1), reads(&ended, 2)), (Some(5), Some(7)));
        ended.forget(Nanos(HOUR + SECOND), |_| false);
        assert_eq!((reads(&ended, 1), reads(&ended, 2)), (None, Some(7)));
        ended.forget(Nanos(2 * HOUR), |_| false);
        assert_eq!(reads(&ended, 2), None);
    }

    #[test]
    fn a_host_that_comes_back_in_time_goes_on_counting() {
        let mut ended = Ended::default();
        ended.add(Nanos(0), host(1), &io(5));
        ended.add(Nanos(HOUR - SECOND), host(1), &io(7));
        ended.forget(Nanos(HOUR + SECOND), |_| false);
        assert_eq!(reads(&ended, 1), Some(12));
    }

    #[test]
    fn what_is_counted_of_a_host_that_is_connected_never_falls() {
        let mut ended = Ended::default();
        for number in 0..HOSTS_MAX + 10 {
            ended.add(Nanos(number as u64), host(number), &io(5));
        }
        // One queue of host 0 has ended, another is there for a day.
        for hour in 1..24 {
            ended.forget(Nanos(hour * HOUR), |one| *one == host(0));
            assert_eq!(reads(&ended, 0), Some(5), "after {hour} hours");
        }
        // The hour begins when the last one ends.
        ended.forget(Nanos(24 * HOUR - SECOND), |_| false);
        assert_eq!(reads(&ended, 0), Some(5));
        ended.forget(Nanos(24 * HOUR), |_| false);
        assert_eq!(reads(&ended, 0), None);
    }

    #[test]
    fn of_too_many_hosts_those_that_left_first_are_forgotten() {
        let mut ended = Ended::default();
        for number in 0..HOSTS_MAX + 10 {
            ended.add(Nanos(number as u64), host(number), &io(5));
        }
        ended.forget(Nanos(HOUR / 2), |one| *one == host(3));
        assert_eq!(ended.snapshot().len(), HOSTS_MAX + 1);
        assert_eq!((reads(&ended, 3), reads(&ended, 9)), (Some(5), None));
        assert_eq!(reads(&ended, 10 + 1), Some(5));
    }
}
