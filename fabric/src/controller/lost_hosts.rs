//! The daemon's interface to lost hosts, and to their state that has to outlive the daemon.

use super::{AllowedHost, HostChange, HostPath, KeptHost, LostHost, Service};
use crate::Nanos;

impl Service {
    /// Restores the hosts that used subsystems before the target started, as [`Self::unsaved_hosts`] returned them.
    /// Called at most once, before hosts connect.
    pub fn restore_hosts(&mut self, now: Nanos, hosts: Vec<(HostPath, KeptHost)>) {
        for (path, kept) in hosts.iter().filter(|(_, kept)| kept.queues_without_acre > 0) {
            self.without_acre.connected(&path.host, false, kept.queues_without_acre);
        }
        self.users.restore(now, hosts);
    }

    /// Returns whether [`Self::unsaved_hosts`] may return something.
    #[must_use]
    pub fn has_unsaved_hosts(&self) -> bool {
        !self.users.unsaved.is_empty()
    }

    /// Returns the changes that have to be kept, so that they outlive the target, and have not been
    /// [saved](Self::hosts_saved). A host that comes and goes in order in between makes none.
    pub fn unsaved_hosts(&mut self) -> Vec<HostChange> {
        let changes: Vec<HostChange> =
            self.users.unsaved.iter().filter_map(|path| self.users.is_unsaved(path)).collect();
        self.users.unsaved = changes.iter().map(|(path, _)| path.clone()).collect();
        changes
    }

    /// Notes that changes were kept.
    pub fn hosts_saved(&mut self, changes: Vec<HostChange>) {
        for (path, change) in changes {
            match change {
                Some(kept) => drop(self.users.saved.insert(path.clone(), kept)),
                None => drop(self.users.saved.remove(&path)),
            }
            if self.users.is_unsaved(&path).is_none() {
                self.users.unsaved.remove(&path);
            }
        }
    }

    /// Returns the lost hosts that may come back: their subsystem exists and allows them.
    #[must_use]
    pub fn lost_hosts(&self, now: Nanos) -> Vec<LostHost> {
        let may_return = |lost: &LostHost| {
            let subsystem = self.subsystems.get(&lost.path.subsystem);
            subsystem.is_some_and(|s| s.refusal(&lost.path.host, lost.address).is_none())
        };
        self.users.lost(now).filter(may_return).collect()
    }

    /// Returns whether a lost host sees a namespace once it is back.
    #[must_use]
    pub fn lost_host_sees(&self, lost: &LostHost, nsid: u32) -> bool {
        self.subsystems.get(&lost.path.subsystem).is_some_and(|s| s.sees(&lost.path.host, nsid))
    }

    /// Returns whether a lost host would lose something if its subsystem had these hosts, as
    /// [`Self::hurt_by`] does of controllers.
    #[must_use]
    pub fn lost_host_hurt_by(&self, lost: &LostHost, any: bool, hosts: &[AllowedHost]) -> bool {
        let subsystem = self.subsystems.get(&lost.path.subsystem);
        subsystem.is_some_and(|s| s.host_hurt_by(&lost.path.host, lost.address, any, hosts))
    }
}
