//! Hosts whose rights change: their commands do nothing forbidden, and everything permitted.

use std::collections::BTreeSet;
use std::rc::Rc;

use arbitration::Class;
use fabric::controller::{AllowedHost, HostRights};
use fabric::nvme::Status;

use super::World;
use super::kept::Held;
use crate::host::{NQN, Outstanding, Phase, Purpose};

impl World {
    /// Changes a host's rights. The last host keeps all.
    pub(super) fn change_rights(&mut self) {
        let others = self.hosts.len().saturating_sub(1);
        if others == 0 {
            return;
        }
        let index = self.rng.usize(0..others);
        self.check_above(index);
        let rights = match self.rng.u8(0..4) {
            0 => HostRights::default(),
            _ => HostRights {
                namespaces: self.rng.bool().then(|| self.some_nsids()),
                read_only: self.rng.bool(),
                max_class: Class::ALL.get(self.rng.usize(0..5)).copied(),
            },
        };
        let now = self.now;
        let nqn = self.hosts[index].nqn.clone();
        self.trace(|| format!("host {index} has {rights:?}"));
        let host = AllowedHost { rights: rights.clone(), ..nqn.into() };
        let shared = Rc::clone(&self.shared);
        let done = shared.with_service(|service| {
            let known = service.set_host(now, NQN, host.clone());
            known.or_else(|_| service.add_host(now, NQN, host))
        });
        debug_assert!(done.is_ok(), "{done:?}");
        let (before, host) = (&self.rights[index].rights, &mut self.hosts[index]);
        if host.phase == Phase::Up {
            let nsids = self.namespaces.iter().map(|known| known.nsid);
            host.untold.extend(nsids.filter(|nsid| before.show(*nsid) != rights.show(*nsid)));
        }
        self.rights[index] = Held { rights, since: now, above: None };
    }

    fn some_nsids(&mut self) -> BTreeSet<u32> {
        // One of them may come later.
        (1..=self.next_nsid).filter(|_| self.rng.bool()).collect()
    }

    /// Checks that the status of an answered command agrees with its host's rights, if these did not change in the
    /// command's time.
    pub(super) fn check_rights(&mut self, host: usize, answered: &Outstanding, status: Status) {
        if !self.scenario.ruled {
            return;
        }
        let Held { rights, since, .. } = &self.rights[host];
        if *since >= answered.asked {
            return;
        }
        let (nsid, writes) = match answered.purpose {
            Purpose::Read { nsid, .. } | Purpose::Other { nsid } => (nsid, false),
            Purpose::Write { nsid, .. } => (nsid, true),
            Purpose::Connect | Purpose::Admin | Purpose::Event => return,
        };
        let may = rights.show(nsid) && !(writes && rights.read_only);
        let refused = status.is(Status::WRITE_PROTECTED) || status.is(Status::INVALID_NAMESPACE);
        let known = self.namespaces.iter().any(|known| known.nsid == nsid);
        if may == refused && (!may || known) {
            let (may, purpose) = (if may { "may" } else { "may not" }, &answered.purpose);
            return self.breaks(format!("host {host} {may}, answered {status}: {purpose:?}"));
        }
        if let (false, Purpose::Write { nsid, lba, blocks, write }) = (may, &answered.purpose) {
            self.oracle.refuse(*nsid, *lba, *blocks, *write);
            self.outcome.forbidden += 1;
        }
        self.begin_above(host);
    }

    /// Notes how many commands of a host had a class above its highest, once each command was sent
    /// after the last change.
    fn begin_above(&mut self, host: usize) {
        let Held { rights, since, above: None } = &self.rights[host] else { return };
        let queues = self.hosts[host].queues.iter().flatten();
        let mut sent = queues.flat_map(|queue| queue.outstanding.iter().flatten());
        if sent.any(|one| one.asked <= *since) {
            return;
        }
        let count = self.count_above(host, rights.highest_class());
        self.rights[host].above = Some(count);
    }

    /// Checks that no command of a host had a class above its highest since that changed.
    pub(super) fn check_above(&mut self, host: usize) {
        let Held { rights, since, above: Some(above) } = &self.rights[host] else { return };
        let count = self.count_above(host, rights.highest_class());
        if count != *above {
            let (more, highest) = (count.saturating_sub(*above), rights.highest_class());
            self.breaks(format!("{more} of host {host} were above {highest:?} since {since:?}"));
        }
    }

    fn count_above(&self, host: usize, highest: Class) -> u64 {
        let nqn = &self.hosts[host].nqn;
        let classes = Class::ALL.into_iter().filter(|class| *class > highest);
        let workloads =
            classes.flat_map(|class| (1..self.next_nsid).map(move |nsid| (nsid, class)));
        workloads.map(|workload| self.shared.workload(nqn, workload).operations()).sum()
    }
}
