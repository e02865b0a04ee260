//! The operations of hosts: of each host that is known by its name, and of all others together.
//!
//! If any host is allowed, a peer can connect under any name. So the number of known names is bounded, and with it
//! memory and the length of the metrics. If there is no room for a new host, the host that has been gone for
//! longest is forgotten with its operations, as are hosts that have been gone for an hour. Hosts without room count
//! together as others. Their counters only increase by new operations, so that rates are right.

use std::collections::BTreeMap;
use std::time::Duration;

use fabric::Nanos;

use sluice_core::stats::IoSnapshot;

/// The NQNs of a host and of a subsystem.
pub type HostKey = (String, String);

/// The time for which a host without a connection is known.
pub const KEEP: Duration = Duration::from_secs(3600);
/// The most hosts in subsystems that are known by their names, connected or not.
pub const HOSTS_MAX: usize = 1024;
/// The name under which the operations of all other hosts are shown.
pub const OTHERS: &str = "others";

/// The hosts, and their operations on connections that have ended.
#[derive(Debug, Default)]
pub struct Ended {
    hosts: BTreeMap<HostKey, Past>,
    /// The operations of hosts that are not known by their names, by subsystem.
    others: BTreeMap<String, IoSnapshot>,
}

/// A host that is known by its name.
#[derive(Debug, Default)]
struct Past {
    /// The operations on the host's connections that have ended; `None` where none has ended.
    io: Option<Box<IoSnapshot>>,
    /// The number of the host's present connections.
    connections: usize,
    /// The time at which a connection of the host ended last.
    seen: Nanos,
}

impl Ended {
    /// Notes a connection of a host. Returns the name under which the connection's operations count
    /// until it ends.
    pub fn came(&mut self, host: HostKey) -> HostKey {
        if !self.hosts.contains_key(&host) && self.hosts.len() >= HOSTS_MAX {
            let gone = self.hosts.iter().filter(|(_, past)| past.connections == 0);
            let oldest = gone.min_by_key(|(_, past)| past.seen).map(|(host, _)| host.clone());
            match oldest {
                Some(oldest) => drop(self.hosts.remove(&oldest)),
                None => return (OTHERS.to_owned(), host.1),
            }
        }
        self.hosts.entry(host.clone()).or_default().connections += 1;
        host
    }

    /// Adds the operations on a connection that has ended now; `host` is what [`Self::came`]
    /// returned.
    pub fn went(&mut self, now: Nanos, host: &HostKey, io: &IoSnapshot) {
        match self.hosts.get_mut(host) {
            Some(past) => {
                past.connections = past.connections.saturating_sub(1);
                past.seen = now;
                past.io.get_or_insert_default().merge(io);
            }
            None => self.others.entry(host.1.clone()).or_default().merge(io),
        }
    }

    /// Returns a copy of each host's operations.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<HostKey, IoSnapshot> {
        let others = self.others.iter();
        let mut all: BTreeMap<HostKey, IoSnapshot> = others
            .map(|(subsystem, io)| ((OTHERS.to_owned(), subsystem.clone()), io.clone()))
            .collect();
        for (host, past) in &self.hosts {
            if let Some(io) = &past.io {
                all.entry(host.clone()).or_default().merge(io);
            }
        }
        all
    }

    /// Forgets hosts that have been gone for [`KEEP`].
    pub fn forget(&mut self, now: Nanos) {
        self.hosts.retain(|_, past| past.connections > 0 || now.since(past.seen) < KEEP);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;
    const SUBSYSTEM: &str = "nqn.2026-01.io.x:a";

    fn host(number: usize) -> HostKey {
        (format!("nqn.2026-01.io.x:h{number}"), SUBSYSTEM.into())
    }

    fn io(reads: u64) -> IoSnapshot {
        let mut io = IoSnapshot::default();
        io.read.ops = reads;
        io
    }

    /// Returns the number of reads of each host.
    fn counts(ended: &Ended) -> BTreeMap<HostKey, u64> {
        ended.snapshot().into_iter().map(|(host, io)| (host, io.read.ops)).collect()
    }

    fn reads(ended: &Ended, number: usize) -> Option<u64> {
        counts(ended).get(&host(number)).copied()
    }

    fn visit(ended: &mut Ended, now: u64, number: usize, reads: u64) {
        let name = ended.came(host(number));
        ended.went(Nanos(now), &name, &io(reads));
    }

    #[test]
    fn a_host_that_has_been_gone_for_an_hour_is_forgotten_and_counts_for_no_other() {
        let mut ended = Ended::default();
        visit(&mut ended, SECOND, 1, 5);
        visit(&mut ended, HOUR / 2, 2, 7);
        ended.forget(Nanos(HOUR));
        assert_eq!([1, 2].map(|n| reads(&ended, n)), [Some(5), Some(7)]);
        ended.forget(Nanos(HOUR + SECOND));
        assert_eq!([1, 2].map(|n| reads(&ended, n)), [None, Some(7)]);
        ended.forget(Nanos(2 * HOUR));
        assert_eq!(ended.snapshot(), BTreeMap::new(), "the others' counter has not jumped");
        visit(&mut ended, 2 * HOUR, 1, 3);
        assert_eq!(reads(&ended, 1), Some(3), "it begins at 0");
    }

    #[test]
    fn a_host_that_comes_back_in_time_goes_on_counting() {
        let mut ended = Ended::default();
        visit(&mut ended, 0, 1, 5);
        let name = ended.came(host(1));
        ended.forget(Nanos(24 * HOUR));
        assert_eq!(reads(&ended, 1), Some(5), "it is connected for a day");
        ended.went(Nanos(24 * HOUR), &name, &io(7));
        ended.forget(Nanos(25 * HOUR - SECOND));
        assert_eq!(reads(&ended, 1), Some(12));
    }

    #[test]
    fn names_without_end_take_the_place_of_hosts_that_are_gone_and_of_no_other() {
        let mut ended = Ended::default();
        let here = ended.came(host(0));
        for number in 1..4 * HOSTS_MAX {
            visit(&mut ended, number as u64, number, 1);
        }
        ended.went(Nanos(HOUR), &here, &io(3));
        assert_eq!(reads(&ended, 0), Some(3), "it was connected all the time");
        assert_eq!(ended.hosts.len(), HOSTS_MAX);
        assert_eq!(ended.snapshot().len(), HOSTS_MAX, "there are no others");
        assert_eq!(reads(&ended, 1), None, "it was gone for longest");
        assert_eq!(reads(&ended, 4 * HOSTS_MAX - 1), Some(1));
    }

    #[test]
    fn more_hosts_at_once_than_are_known_count_together() {
        let mut ended = Ended::default();
        let names: Vec<HostKey> = (0..HOSTS_MAX + 5).map(|n| ended.came(host(n))).collect();
        assert_eq!(names.iter().filter(|(name, _)| name == OTHERS).count(), 5);
        for name in &names {
            ended.went(Nanos(SECOND), name, &io(1));
        }
        assert_eq!(counts(&ended)[&(OTHERS.into(), SUBSYSTEM.into())], 5);
        assert_eq!(ended.came(host(HOSTS_MAX)).0, host(HOSTS_MAX).0, "there is room again");
    }

    proptest! {
        #[test]
        fn counters_go_up_by_what_was_done_and_by_nothing_else(
            steps in prop::collection::vec((0usize..6, any::<bool>(), 0u64..HOUR), 1..200)
        ) {
            let mut ended = Ended::default();
            let (mut now, mut open, mut before) = (0, Vec::new(), BTreeMap::new());
            for (number, comes, pause) in steps {
                now += pause;
                let mut done = 0;
                if comes {
                    open.push(ended.came(host(number)));
                } else if let Some(name) = open.pop() {
                    ended.went(Nanos(now), &name, &io(1));
                    done = 1;
                }
                ended.forget(Nanos(now));
                let after = counts(&ended);
                let up = |(host, count): (&HostKey, &u64)| {
                    count - before.get(host).copied().unwrap_or(0)
                };
                prop_assert_eq!(after.iter().map(up).sum::<u64>(), done);
                before = after;
            }
        }
    }
}
