//! Measurements of a running daemon, for a comparison with a prediction.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use sluice_config::answer::{Io, Statistics, WorkloadIo};

use super::super::daemon::{Daemon, Seen, since};
use super::scenario::Group;

/// All workloads of a daemon over a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    seconds: f64,
    workloads: Vec<(WorkloadIo, Seen)>,
}

/// Measures the daemon's load for this long.
///
/// # Errors
///
/// The daemon does not answer.
pub(super) fn watch(daemon: &mut Daemon, time: Duration) -> anyhow::Result<Watched> {
    let (before, began) = (daemon.statistics()?, Instant::now());
    thread::sleep(time);
    let (after, seconds) = (daemon.statistics()?, began.elapsed().as_secs_f64());
    Ok(watched(&before, after, seconds))
}

/// Computes the difference between two answers.
fn watched(before: &Statistics, after: Statistics, seconds: f64) -> Watched {
    let key = |of: &WorkloadIo| (of.host.clone(), of.subsystem.clone(), of.nsid, of.class.clone());
    let known: BTreeMap<_, &WorkloadIo> =
        before.workloads.iter().map(|workload| (key(workload), workload)).collect();
    let nothing = Io::default();
    let workloads = after.workloads.into_iter().map(|now| {
        let old = known.get(&key(&now)).map_or(&nothing, |old| &old.io);
        let seen = since(&now.io, old, seconds);
        (now, seen)
    });
    Watched { seconds, workloads: workloads.collect() }
}

impl Watched {
    /// Adds up the workloads of a group.
    pub(super) fn of(&self, group: &Group) -> Seen {
        let mut sum = Seen { seconds: self.seconds, ..Seen::default() };
        self.workloads
            .iter()
            .filter(|(of, _)| belongs(of, group))
            .for_each(|(_, one)| sum.add(one));
        sum
    }

    /// Computes the commands in a second that belong to none of the groups.
    pub(super) fn others(&self, groups: &[Group]) -> f64 {
        let other = |of: &WorkloadIo| !groups.iter().any(|group| belongs(of, group));
        let all = self.workloads.iter().filter(|(of, _)| other(of));
        all.map(|(_, seen)| seen.commands as f64).sum::<f64>() / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Returns whether a workload belongs to a group's hosts: NQN, or NQN-NUMBER if the group has several.
fn belongs(of: &WorkloadIo, group: &Group) -> bool {
    let numbered = || {
        let rest = of.host.strip_prefix(&group.host).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    let host = of.host == group.host || group.count > 1 && numbered();
    let namespace =
        group.namespaces.iter().any(|(nqn, nsid)| (nqn, *nsid) == (&of.subsystem, of.nsid));
    host && namespace && of.class == group.class.name()
}

#[cfg(test)]
mod tests {
    use sluice_config::answer::{Latency, Operations};

    use super::*;

    fn workload(host: &str, class: &str, operations: u64, buckets: &[u64]) -> WorkloadIo {
        let latency_ns = Latency { buckets: Some(buckets.to_vec()), ..Latency::default() };
        let read = Operations { operations, bytes: operations * 4096, errors: 0, latency_ns };
        let [host, subsystem, class] = [host, "nqn.x:disk", class].map(str::to_owned);
        WorkloadIo { host, subsystem, nsid: 1, class, io: Io { read, ..Io::default() } }
    }

    #[test]
    fn a_group_has_what_its_hosts_did_meanwhile() {
        let before = vec![workload("nqn.x:web", "high", 100, &[2048, 100])];
        let after = vec![
            workload("nqn.x:web", "high", 300, &[2048, 100, 4096, 200]),
            workload("nqn.x:web-2", "high", 50, &[4096, 50]),
            workload("nqn.x:web-b", "high", 7, &[4096, 7]),
            workload("nqn.x:web", "low", 9, &[4096, 9]),
        ];
        let [before, after] =
            [before, after].map(|workloads| Statistics { workloads, ..Statistics::default() });
        let watched = watched(&before, after, 2.0);
        let [host, session, entry] = ["nqn.x:web", "s", "web"].map(str::to_owned);
        let (class, transport) = (arbitration::Class::High, crate::model::Transport::Tcp);
        let namespaces = [("nqn.x:disk".to_owned(), 1)].into();
        let mut group = Group { host, count: 1, class, session, transport, namespaces, entry };
        let seen = watched.of(&group);
        assert_eq!((seen.commands, seen.bytes), (200, 200 * 4096));
        assert!(seen.times.quantile(0.01) > 3000.0, "what was before does not count");
        assert_eq!(watched.others(&[group.clone()]), 33.0);
        group.count = 2;
        assert_eq!(watched.of(&group).commands, 250, "hosts that are alike are numbered");
        assert_eq!(watched.others(&[group]), 8.0);
    }
}
