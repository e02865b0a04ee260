//! Namespaces whose NSID was another disk's before. A host that comes back may still send commands for
//! the disk that it knows: Linux does so before it compares the identifiers. Each controller's host is
//! therefore told to retry until it has asked for the size of the namespace that is there now, which
//! Linux does once the identifiers are those that it knows, or the disk is new to it.

use std::sync::Arc;

use super::instance::Controller;
use super::{BackendId, ControllerId, Namespace, NamespaceTable, Readiness, Service};

impl Namespace {
    /// Returns the namespace for hosts that have not identified it.
    fn withheld(&self) -> Self {
        let readiness = match self.readiness {
            Readiness::Ready => Readiness::Unidentified,
            other => other,
        };
        Self { readiness, backend: BackendId::NONE, ..self.clone() }
    }
}

impl Controller {
    /// Shows the host the namespaces of `table`. Among those of `changed`, the ones that replace another
    /// disk are withheld from a host that has not identified them.
    pub(super) fn show(
        &mut self,
        table: Arc<NamespaceTable>,
        changed: impl IntoIterator<Item = u32>,
    ) {
        for nsid in changed {
            let (before, now) = (self.table.get(nsid), table.get(nsid));
            match now.filter(|now| now.replaces) {
                None => drop(self.withheld.remove(&nsid)),
                Some(now) if before.is_none_or(|before| before.uuid != now.uuid) => {
                    self.withheld.insert(nsid);
                }
                Some(_) => {}
            }
        }
        self.table = match self.withheld.is_empty() {
            true => table,
            false => {
                let withheld = self.withheld.iter().filter_map(|nsid| table.get(*nsid));
                let own = withheld.fold(NamespaceTable::clone(&table), |own, namespace| {
                    own.with(namespace.nsid, Some(Arc::new(namespace.withheld())))
                });
                Arc::new(own)
            }
        };
    }
}

impl Service {
    /// Notes that a controller's host has identified a namespace: its commands are executed from now on.
    pub(super) fn note_identified(&mut self, id: ControllerId, nsid: u32) {
        let Some(controller) = self.controllers.get_mut(&id) else { return };
        if !controller.withheld.remove(&nsid) {
            return;
        }
        let Some(subsystem) = self.subsystems.get(controller.subsystem()) else { return };
        let table = subsystem.table_for(controller.host(), &controller.rights);
        controller.show(table, []);
        // A queue that has refused a command has the table in which the namespace was withheld.
        controller.namespaces_changed([]);
        self.tables_changed.insert(id);
    }
}
