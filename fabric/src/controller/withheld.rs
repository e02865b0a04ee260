//! Namespaces whose NSID was another disk's before. A host that comes back may still send commands
//! for the disk that it knows: Linux does so before it compares the identifiers. The commands of
//! each controller's host are therefore not executed until it has asked for the size of the present
//! namespace. Linux does so once the identifiers match, or the disk is new to it.
//!
//! Linux ends a reconnect only when the earlier commands have ended, and identifies namespaces
//! after that. So the commands of a returning host must not wait: if it has identified the disk
//! before, its commands are executed, and if it knows another disk, they are refused. Only if
//! neither is known, the host is asked to retry.
//!
//! A host that finds changed identifiers under an NSID drops its disk. Linux takes the new disk
//! only at the next look at its namespaces. Therefore the host is notified once more that the
//! namespace has changed.

use std::sync::Arc;

use super::instance::{Controller, Withheld};
use super::{BackendId, ControllerId, Namespace, NamespaceTable, Readiness, Service};

/// The UUID of a namespace whose identifiers are not known yet.
const UNKNOWN: [u8; 16] = [0; 16];

impl Namespace {
    /// Returns the namespace for hosts that have not identified it.
    fn withheld(&self, shown: Readiness) -> Self {
        let readiness = match self.readiness {
            Readiness::Ready => shown,
            other => other,
        };
        Self { readiness, backend: BackendId::NONE, ..self.clone() }
    }
}

impl Controller {
    /// Returns whether the namespace has to be withheld from the host.
    fn withholds(&self, namespace: &Namespace) -> bool {
        namespace.replaces && self.identified.get(&namespace.nsid) != Some(&namespace.uuid)
    }

    /// Shows the host of a new controller the namespaces of `table`. `knows_other` says of a namespace
    /// that the host has not identified whether it knows an earlier disk by the NSID.
    pub(super) fn show_first(
        &mut self,
        table: Arc<NamespaceTable>,
        knows_other: impl Fn(&Namespace) -> bool,
    ) {
        let shown = |namespace: &Namespace| match knows_other(namespace) {
            true => Readiness::KnownAsOther,
            false => Readiness::Unidentified,
        };
        let withheld = table.iter().filter(|namespace| self.withholds(namespace));
        let withheld = withheld.map(|namespace| (namespace.nsid, Withheld::new(shown(namespace))));
        self.withheld = withheld.collect();
        self.show(table, []);
    }

    /// Shows the host the namespaces of `table`. A namespace of `changed` that replaces another
    /// disk is withheld from a host that has not identified it.
    pub(super) fn show(
        &mut self,
        table: Arc<NamespaceTable>,
        changed: impl IntoIterator<Item = u32>,
    ) {
        for nsid in changed {
            let before = self.table.get(nsid).map(|before| before.uuid);
            match table.get(nsid).filter(|now| self.withholds(now)) {
                None => drop(self.withheld.remove(&nsid)),
                Some(now) if before == Some(now.uuid) => {}
                // The disk that was there at Connect has been identified by the target.
                Some(_) if before == Some(UNKNOWN) => {
                    self.withheld.entry(nsid).or_insert(Withheld::new(Readiness::Unidentified));
                }
                Some(_) => {
                    self.withheld.insert(nsid, Withheld::new(Readiness::Unidentified));
                }
            }
        }
        self.table = match self.withheld.is_empty() {
            true => table,
            false => {
                let withheld = self.withheld.iter();
                let withheld =
                    withheld.filter_map(|(nsid, known)| Some((table.get(*nsid)?, known.shown)));
                let own =
                    withheld.fold(NamespaceTable::clone(&table), |own, (namespace, shown)| {
                        own.with(namespace.nsid, Some(Arc::new(namespace.withheld(shown))))
                    });
                Arc::new(own)
            }
        };
    }
}

impl Service {
    /// Returns whether a connected or lost host may have identified a namespace with this UUID
    /// under an NSID of a subsystem.
    #[must_use]
    pub fn is_identified(&self, nqn: &str, nsid: u32, uuid: [u8; 16]) -> bool {
        let is_known = |c: &Controller| c.identified.get(&nsid) == Some(&uuid);
        let mut of_subsystem = self.controllers.values().filter(|c| c.subsystem() == nqn);
        of_subsystem.any(is_known) || self.users.is_identified(nqn, nsid, &uuid)
    }

    /// Notes that a controller's host has read a namespace's identifiers, and finds out whether it
    /// knows another disk by the NSID. A host leaves a namespace that is not ready alone, and is
    /// notified when it becomes ready.
    pub(super) fn note_compared(&mut self, id: ControllerId, nsid: u32) {
        let Some(controller) = self.controllers.get_mut(&id) else { return };
        let is_ready = controller.table.get(nsid).is_some_and(|namespace| namespace.is_ready());
        let Some(withheld) = controller.withheld.get_mut(&nsid).filter(|_| is_ready) else {
            return;
        };
        if !std::mem::replace(&mut withheld.is_compared, true) {
            controller.announce(nsid);
            controller.pump_events(&mut self.actions);
        }
    }

    /// Announces a namespace again to the other controllers of a host that has attached it by one of them. Linux does
    /// not attach a disk by one controller while it knows another one by the NSID through another controller.
    fn announce_to_others(&mut self, id: ControllerId, nsid: u32) {
        let Some(first) = self.controllers.get(&id) else { return };
        let host = (first.host().to_owned(), first.host_id);
        let of_subsystem = self.controllers_of(first.subsystem());
        for other in of_subsystem.into_iter().filter(|other| *other != id) {
            let Some(other) = self.controllers.get_mut(&other) else { continue };
            let waits = other.withheld.get(&nsid).is_some_and(|withheld| withheld.is_compared);
            if waits && (other.host(), other.host_id) == (host.0.as_str(), host.1) {
                other.announce(nsid);
                other.pump_events(&mut self.actions);
            }
        }
    }

    /// Notes that a controller's host has identified a namespace: its commands are executed from now on.
    pub(super) fn note_identified(&mut self, id: ControllerId, nsid: u32) {
        let Some(controller) = self.controllers.get_mut(&id) else { return };
        if controller.withheld.remove(&nsid).is_none() {
            return;
        }
        let Some(subsystem) = self.subsystems.get(controller.subsystem()) else { return };
        let table = subsystem.table_for(controller.host(), &controller.rights);
        if let Some(uuid) = table.get(nsid).map(|namespace| namespace.uuid) {
            controller.identified.insert(nsid, uuid);
            self.users.identified(id, nsid, uuid);
        }
        controller.show(table, []);
        // A queue that has refused a command has the table in which the namespace was withheld.
        controller.namespaces_changed([]);
        self.tables_changed.insert(id);
        self.announce_to_others(id, nsid);
    }
}
