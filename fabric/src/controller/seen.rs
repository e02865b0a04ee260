//! The namespaces that a host sees of a subsystem, as it may see them: a table that hosts with the
//! same rights share where each sees all.

use std::net::IpAddr;
use std::sync::Arc;

use super::access::refusal;
use super::rights::HostRights;
use super::service::Subsystem;
use super::{
    AllowedHost, BackendId, ConnectionId, ControllerId, Namespace, NamespaceTable, Service,
};

impl Subsystem {
    /// Returns the rights of a host that may connect: the rights of its entry, or all.
    pub(super) fn rights_of(&self, host: &str) -> HostRights {
        rights_among(&self.spec.hosts, host)
    }

    /// Returns the namespaces that a host with these rights sees.
    pub(super) fn table_for(&self, host: &str, rights: &HostRights) -> Arc<NamespaceTable> {
        self.shared_table(rights).map_or_else(
            || {
                let all = self.tables(rights).iter();
                let seen = all.filter(|n| n.visible_to(host) && rights.show(n.nsid));
                Arc::new(NamespaceTable::new(seen.cloned()))
            },
            Arc::clone,
        )
    }

    /// Returns whether a host sees a namespace, or would if it were connected.
    pub(super) fn sees(&self, host: &str, nsid: u32) -> bool {
        let rights = self.rights_of(host);
        self.namespaces.get(nsid).is_some_and(|n| n.visible_to(host) && rights.show(nsid))
    }

    /// Returns whether a host that may connect from `address` would lose something if the subsystem
    /// had these hosts.
    pub(super) fn host_hurt_by(
        &self,
        host: &str,
        address: Option<IpAddr>,
        any: bool,
        hosts: &[AllowedHost],
    ) -> bool {
        let rights = self.rights_of(host);
        refusal(any, hosts, host, address).is_some()
            || loses(&rights, &self.table_for(host, &rights), &rights_among(hosts, host))
    }

    /// Returns the table of a host with these rights after a change of one namespace; `before` is
    /// its earlier state. `None` if the host saw nothing of the namespace, and sees nothing.
    pub(super) fn table_after(
        &self,
        nsid: u32,
        host: &str,
        rights: &HostRights,
        before: &NamespaceTable,
    ) -> Option<Arc<NamespaceTable>> {
        let seen = self.tables(rights).get(nsid);
        let seen = seen.filter(|n| n.visible_to(host) && rights.show(nsid));
        if seen.is_none() && before.get(nsid).is_none() {
            return None;
        }
        let shared = self.shared_table(rights).map(Arc::clone);
        Some(shared.unwrap_or_else(|| Arc::new(before.with(nsid, seen.cloned()))))
    }

    /// Sets or clears a namespace in the tables.
    pub(super) fn set_in_tables(&mut self, nsid: u32, namespace: Option<&Arc<Namespace>>) {
        if let Some(protected) = self.protected.get_mut() {
            let namespace = namespace.map(|namespace| Arc::new(namespace.protected()));
            *protected = Arc::new(protected.with(nsid, namespace));
        }
        self.namespaces = Arc::new(self.namespaces.with(nsid, namespace.cloned()));
    }

    /// Returns all namespaces, as a host with these rights may use them. The read-only copy is made
    /// when the first host needs it.
    fn tables(&self, rights: &HostRights) -> &Arc<NamespaceTable> {
        if !rights.read_only {
            return &self.namespaces;
        }
        self.protected.get_or_init(|| {
            let protected = self.namespaces.iter().map(|namespace| Arc::new(namespace.protected()));
            Arc::new(NamespaceTable::new(protected))
        })
    }

    /// Returns the table of all namespaces, where a host with these rights sees all.
    fn shared_table(&self, rights: &HostRights) -> Option<&Arc<NamespaceTable>> {
        let all = self.restricted == 0 && rights.namespaces.is_none();
        all.then(|| self.tables(rights))
    }
}

/// Returns the rights of a host that may connect where these hosts are listed.
fn rights_among(hosts: &[AllowedHost], host: &str) -> HostRights {
    let listed = hosts.iter().find(|known| known.nqn == host);
    listed.map(|known| known.rights.clone()).unwrap_or_default()
}

/// Returns whether a host that sees the namespaces of `table` loses one of them, or the right to
/// write to them, by other rights.
fn loses(from: &HostRights, table: &NamespaceTable, to: &HostRights) -> bool {
    let reads = to.read_only && !from.read_only;
    table.iter().any(|namespace| reads || !to.show(namespace.nsid))
}

impl Service {
    /// Lists the devices of the namespaces that the host of an admin queue sees; nothing for a connection
    /// that is none.
    #[must_use]
    pub fn devices_seen(&self, connection: ConnectionId) -> Vec<BackendId> {
        let controller = self.admin_queue_of(connection).and_then(|id| self.controllers.get(&id));
        let seen = controller.into_iter().flat_map(|controller| controller.table.iter());
        seen.map(|namespace| namespace.backend).filter(|id| *id != BackendId::NONE).collect()
    }

    /// Returns the controllers of a subsystem whose hosts would lose something if it had these
    /// hosts: controllers that [could not stay](Self::refused_by), or whose hosts would lose sight
    /// of a namespace, or the right to write to it.
    #[must_use]
    pub fn hurt_by(&self, nqn: &str, any: bool, hosts: &[AllowedHost]) -> Vec<ControllerId> {
        let refused = self.refused_by(nqn, any, hosts);
        let of = self.subsystems.get(nqn).into_iter().flat_map(|subsystem| &subsystem.controllers);
        let limited = |id: &ControllerId| {
            self.controllers.get(id).is_some_and(|controller| {
                let rights = rights_among(hosts, controller.host());
                loses(&controller.rights, &controller.table, &rights)
            })
        };
        of.copied().filter(|id| refused.contains(id) || limited(id)).collect()
    }

    /// Returns whether the target has a secret of a host.
    #[must_use]
    pub fn has_secret(&self, host: &str) -> bool {
        self.gate.secrets(host).is_some()
    }

    /// Returns whether the target has a TLS key of a host, apart from keys of the kernel's keyring.
    #[must_use]
    pub fn has_tls_key(&self, host: &str) -> bool {
        self.channels.has_key(host)
    }

    /// Returns whether a connection is over TLS.
    #[must_use]
    pub fn is_over_tls(&self, connection: ConnectionId) -> bool {
        self.channels.names(connection).is_some()
    }

    /// Applies the present rights of hosts to a subsystem's controllers, and notifies the hosts of namespaces that they
    /// see differently.
    pub(super) fn settle_rights(&mut self, nqn: &str) {
        let Some(subsystem) = self.subsystems.get(nqn) else { return };
        self.ana_changes += 1;
        for id in &subsystem.controllers {
            let Some(controller) = self.controllers.get_mut(id) else { continue };
            let rights = subsystem.rights_of(controller.host());
            if rights == controller.rights {
                continue;
            }
            let table = subsystem.table_for(controller.host(), &rights);
            let changed = controller.table.differing(&table);
            controller.shared.set_max_class(rights.highest_class());
            controller.rights = rights;
            controller.show(table, changed.iter().copied());
            controller.namespaces_changed(changed);
            controller.pump_events(&mut self.actions);
            self.tables_changed.insert(controller.id);
        }
    }
}
