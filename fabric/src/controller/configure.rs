//! Changes of the configuration, each all or nothing, and the events by which hosts learn of them.

use core::sync::atomic::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::config::check_nqn;
use super::instance::{Controller, ControllerKind};
use super::service::Subsystem;
use super::{
    AllowedHost, CloseReason, ConfigError, ControllerId, ForgottenKeys, ListenerId, ListenerSpec,
    Namespace, Service, SubsystemSpec,
};
use crate::Nanos;
use crate::nvme::identify::OptionalEvents;

impl Service {
    /// Adds a subsystem without namespaces.
    ///
    /// # Errors
    /// The NQN, a host's NQN, serial or model number is not well formed; the subsystem exists, or
    /// another one has the serial number.
    pub fn add_subsystem(&mut self, _now: Nanos, spec: SubsystemSpec) -> Result<(), ConfigError> {
        spec.check()?;
        if self.subsystems.contains_key(&spec.nqn) {
            return Err(ConfigError::SubsystemExists(spec.nqn));
        }
        if let Some(other) = self.subsystems.values().find(|s| s.spec.serial == spec.serial) {
            let (nqn, other) = (spec.nqn, other.spec.nqn.clone());
            return Err(ConfigError::DuplicateSerial { nqn, other, serial: spec.serial });
        }
        let nqn = spec.nqn.clone();
        let subsystem = Subsystem {
            spec,
            namespaces: Arc::default(),
            protected: OnceLock::new(),
            restricted: 0,
            uuids: HashMap::new(),
            nguids: HashMap::new(),
            controllers: BTreeSet::new(),
        };
        self.subsystems.insert(nqn.clone(), subsystem);
        self.subsystem_listed(&nqn);
        Ok(())
    }

    /// Removes a subsystem; its controllers end. Returns its namespaces.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn remove_subsystem(
        &mut self,
        now: Nanos,
        nqn: &str,
    ) -> Result<Vec<Arc<Namespace>>, ConfigError> {
        self.must_exist(nqn)?;
        for id in self.controllers_of(nqn) {
            self.end_controller(now, id, CloseReason::SubsystemRemoved);
        }
        self.subsystem_listed(nqn);
        let removed = self.subsystems.remove(nqn);
        Ok(removed.iter().flat_map(|s| s.namespaces.iter().cloned()).collect())
    }

    /// Adds a namespace. Returns its NSID.
    ///
    /// # Errors
    /// There is no such subsystem, the NSID is taken or beyond the limit, the UUID is zero, UUID or
    /// NGUID are used by another namespace of the subsystem, the block size is neither 512 nor
    /// 4096, or a host's NQN is not well formed.
    pub fn add_namespace(
        &mut self,
        _now: Nanos,
        nqn: &str,
        mut namespace: Namespace,
    ) -> Result<u32, ConfigError> {
        let limit = self.config.max_namespaces;
        let subsystem = self.must_exist(nqn)?;
        let nsid = subsystem.choose_nsid(namespace.nsid, limit)?;
        namespace.nsid = nsid;
        subsystem.check_identifiers(&namespace)?;
        self.put_namespace(nqn, nsid, Some(Arc::new(namespace.settled())));
        Ok(nsid)
    }

    /// Removes a namespace and returns it.
    ///
    /// # Errors
    /// There is no such subsystem or namespace.
    pub fn remove_namespace(
        &mut self,
        _now: Nanos,
        nqn: &str,
        nsid: u32,
    ) -> Result<Arc<Namespace>, ConfigError> {
        let old = self.must_exist(nqn)?.must_have(nsid)?;
        self.put_namespace(nqn, nsid, None);
        Ok(old)
    }

    /// Changes the size of a namespace, in blocks.
    ///
    /// # Errors
    /// There is no such subsystem or namespace.
    pub fn resize_namespace(
        &mut self,
        now: Nanos,
        nqn: &str,
        nsid: u32,
        blocks: u64,
    ) -> Result<(), ConfigError> {
        let mut namespace = Namespace::clone(&*self.must_exist(nqn)?.must_have(nsid)?);
        namespace.geometry.blocks = blocks;
        self.replace_namespace(now, nqn, namespace).map(|_| ())
    }

    /// Replaces the namespace with the same NSID. Returns the old one. Readiness of a namespace
    /// changes by this method, too; hosts are notified of both.
    ///
    /// # Errors
    /// There is no such subsystem or namespace; an identifier is used by a third namespace.
    pub fn replace_namespace(
        &mut self,
        _now: Nanos,
        nqn: &str,
        namespace: Namespace,
    ) -> Result<Arc<Namespace>, ConfigError> {
        let nsid = namespace.nsid;
        let subsystem = self.must_exist(nqn)?;
        let old = subsystem.must_have(nsid)?;
        subsystem.check_identifiers(&namespace)?;
        self.put_namespace(nqn, nsid, Some(Arc::new(namespace.settled())));
        Ok(old)
    }

    /// Permits a host to connect.
    ///
    /// # Errors
    /// There is no such subsystem, the host's NQN is not well formed, or the host is in the list.
    pub fn add_host(
        &mut self,
        now: Nanos,
        nqn: &str,
        host: impl Into<AllowedHost>,
    ) -> Result<(), ConfigError> {
        let host = host.into();
        check_nqn(&host.nqn)?;
        if self.host_of(nqn, &host.nqn)?.is_some() {
            return Err(ConfigError::HostExists { nqn: nqn.to_owned(), host: host.nqn });
        }
        let bound = !host.sources.is_any();
        self.change_access(now, nqn, bound, |spec| spec.hosts.push(host));
        Ok(())
    }

    /// Changes the rights and addresses of a host. Its controllers end if one of their connections comes from another
    /// address.
    ///
    /// # Errors
    /// There is no such subsystem, or the host is not in its list.
    pub fn set_host(
        &mut self,
        now: Nanos,
        nqn: &str,
        host: AllowedHost,
    ) -> Result<(), ConfigError> {
        let at = self.must_list(nqn, &host.nqn)?;
        self.change_access(now, nqn, true, |spec| {
            if let Some(known) = spec.hosts.get_mut(at) {
                *known = host;
            }
        });
        Ok(())
    }

    /// Refuses a host from now on. Its controllers end, unless any host is allowed: then it has
    /// default rights. TLS keys that it negotiated for the subsystem are forgotten.
    ///
    /// # Errors
    /// There is no such subsystem, or the host is not in its list.
    pub fn remove_host(&mut self, now: Nanos, nqn: &str, host: &str) -> Result<(), ConfigError> {
        let at = self.must_list(nqn, host)?;
        let listed = self.must_exist(nqn)?.spec.hosts.get(at);
        let bound = listed.is_some_and(|known| !known.sources.is_any());
        self.gate.forget_keys(host, ForgottenKeys::Subsystem(nqn));
        self.change_access(now, nqn, bound, |spec| drop(spec.hosts.remove(at)));
        Ok(())
    }

    /// Sets whether any host may connect. With `false`, controllers of hosts that are not in the
    /// list end.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn set_allow_any_host(
        &mut self,
        now: Nanos,
        nqn: &str,
        allow: bool,
    ) -> Result<(), ConfigError> {
        if self.must_exist(nqn)?.spec.allow_any_host != allow {
            self.change_access(now, nqn, true, |spec| spec.allow_any_host = allow);
        }
        Ok(())
    }

    /// Sets whether hosts of a subsystem must authenticate. It holds for queues that connect from now
    /// on; queues that are connected stay.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn set_require_authentication(
        &mut self,
        nqn: &str,
        required: bool,
    ) -> Result<(), ConfigError> {
        let subsystem = self.subsystems.get_mut(nqn);
        let subsystem = subsystem.ok_or_else(|| ConfigError::NoSubsystem(nqn.to_owned()))?;
        subsystem.spec.require_authentication = required;
        Ok(())
    }

    /// Adds a listener.
    ///
    /// # Errors
    /// The number is taken, or a subsystem's NQN is not well formed.
    pub fn add_listener(&mut self, _now: Nanos, spec: ListenerSpec) -> Result<(), ConfigError> {
        spec.check()?;
        if self.listeners.contains_key(&spec.id) {
            return Err(ConfigError::ListenerExists(spec.id.0));
        }
        self.listeners.insert(spec.id, spec);
        self.discovery_changed(|_| true);
        Ok(())
    }

    /// Removes a listener; controllers whose admin queue came through it end.
    ///
    /// # Errors
    /// There is no such listener.
    pub fn remove_listener(
        &mut self,
        now: Nanos,
        id: ListenerId,
    ) -> Result<ListenerSpec, ConfigError> {
        let spec = self.listeners.remove(&id).ok_or(ConfigError::NoListener(id.0))?;
        let ended: Vec<ControllerId> =
            self.controllers.values().filter(|c| c.listener == id).map(|c| c.id).collect();
        for controller in ended {
            self.end_controller(now, controller, CloseReason::ListenerRemoved);
        }
        self.discovery_changed(|_| true);
        Ok(spec)
    }

    fn must_exist(&self, nqn: &str) -> Result<&Subsystem, ConfigError> {
        self.subsystems.get(nqn).ok_or_else(|| ConfigError::NoSubsystem(nqn.to_owned()))
    }

    /// Returns the place of a host in a subsystem's list.
    fn host_of(&self, nqn: &str, host: &str) -> Result<Option<usize>, ConfigError> {
        Ok(self.must_exist(nqn)?.spec.hosts.iter().position(|known| known.nqn == host))
    }

    fn must_list(&self, nqn: &str, host: &str) -> Result<usize, ConfigError> {
        let missing = || ConfigError::NoHost { nqn: nqn.to_owned(), host: host.to_owned() };
        self.host_of(nqn, host)?.ok_or_else(missing)
    }

    /// Changes the hosts that may use a subsystem, and their rights. Controllers without access
    /// end, and discovery controllers are notified if the subsystem appears or disappears for their
    /// hosts. `bound`: the change may end controllers though any host may connect.
    fn change_access(
        &mut self,
        now: Nanos,
        nqn: &str,
        bound: bool,
        change: impl FnOnce(&mut SubsystemSpec),
    ) {
        let seen = |service: &Self| -> BTreeSet<ControllerId> {
            let Some(subsystem) = service.subsystems.get(nqn) else { return BTreeSet::new() };
            let discovery = |c: &&Controller| c.kind == ControllerKind::Discovery;
            let controllers = service.controllers.values().filter(discovery);
            controllers.filter(|c| subsystem.shows_itself_to(c)).map(|c| c.id).collect()
        };
        let before = seen(self);
        let Some(subsystem) = self.subsystems.get_mut(nqn) else { return };
        let visible = bound || !subsystem.spec.allow_any_host;
        change(&mut subsystem.spec);
        if visible {
            self.end_refused_hosts(now, nqn);
            let after = seen(self);
            self.discovery_changed(|c| before.contains(&c.id) != after.contains(&c.id));
        }
        self.settle_rights(nqn);
    }

    /// Sets or clears a namespace and tells the controllers whose host saw or sees it.
    fn put_namespace(&mut self, nqn: &str, nsid: u32, namespace: Option<Arc<Namespace>>) {
        let Some(subsystem) = self.subsystems.get_mut(nqn) else { return };
        subsystem.set_namespace(nsid, namespace.as_ref());
        self.ana_changes += 1;
        for id in &subsystem.controllers {
            let Some(controller) = self.controllers.get_mut(id) else { continue };
            let (host, before) = (controller.host(), &controller.table);
            let table = subsystem.table_after(nsid, host, &controller.rights, before);
            let Some(table) = table else { continue };
            let group = |controller: &Controller| Some(controller.table.get(nsid)?.ana_group());
            let before = group(controller);
            controller.show(table, [nsid]);
            controller.namespaces_changed([nsid]);
            // Hosts learn by the other event that a namespace has come or is removed.
            let after = group(controller);
            if before.is_some() && after.is_some() && before != after {
                controller.events.raise(OptionalEvents::ANA_CHANGE);
            }
            controller.pump_events(&mut self.actions);
            self.tables_changed.insert(controller.id);
        }
    }

    /// Ends controllers whose host may not use the subsystem any more.
    fn end_refused_hosts(&mut self, now: Nanos, nqn: &str) {
        let Some(SubsystemSpec { allow_any_host, hosts, .. }) =
            self.subsystems.get(nqn).map(|subsystem| &subsystem.spec)
        else {
            return;
        };
        for id in self.refused_by(nqn, *allow_any_host, hosts) {
            self.end_controller(now, id, CloseReason::HostRemoved);
        }
    }

    /// Notes that a subsystem enters or leaves the discovery log pages of the hosts that may use
    /// it.
    fn subsystem_listed(&mut self, nqn: &str) {
        let Some(subsystem) = self.subsystems.get(nqn) else { return };
        let served = self.listeners.values().any(|l| l.serves(nqn));
        let allowed: Vec<ControllerId> = self
            .controllers
            .values()
            .filter(|c| served && c.kind == ControllerKind::Discovery)
            .filter(|c| subsystem.shows_itself_to(c))
            .map(|c| c.id)
            .collect();
        self.discovery_changed(|c| allowed.contains(&c.id));
    }
}

impl Controller {
    /// Notifies the host that a namespace has changed.
    pub(super) fn announce(&mut self, nsid: u32) {
        self.changed.insert(nsid);
        self.events.raise(OptionalEvents::NAMESPACE_ATTRIBUTE);
    }

    /// Notes that the host sees these namespaces otherwise than before, or has other rights.
    pub(super) fn namespaces_changed(&mut self, nsids: impl IntoIterator<Item = u32>) {
        for nsid in nsids {
            self.announce(nsid);
        }
        self.shared.table_version.fetch_add(1, Ordering::AcqRel);
    }
}

impl Subsystem {
    /// Sets or clears a namespace.
    fn set_namespace(&mut self, nsid: u32, namespace: Option<&Arc<Namespace>>) {
        if let Some(old) = self.namespaces.get(nsid) {
            self.restricted -= usize::from(old.hosts.is_some());
            self.uuids.remove(&old.uuid);
            self.nguids.remove(&old.nguid);
        }
        if let Some(new) = namespace {
            self.restricted += usize::from(new.hosts.is_some());
            if new.uuid != [0; 16] {
                self.uuids.insert(new.uuid, nsid);
            }
            if new.nguid != [0; 16] {
                self.nguids.insert(new.nguid, nsid);
            }
        }
        self.set_in_tables(nsid, namespace);
    }

    fn must_have(&self, nsid: u32) -> Result<Arc<Namespace>, ConfigError> {
        let missing = || ConfigError::NoNamespace { nqn: self.spec.nqn.clone(), nsid };
        self.namespaces.get(nsid).cloned().ok_or_else(missing)
    }

    /// Returns `wanted`, or for 0 the lowest free NSID.
    fn choose_nsid(&self, wanted: u32, limit: u32) -> Result<u32, ConfigError> {
        if self.namespaces.get(wanted).is_some() {
            return Err(ConfigError::NamespaceExists { nqn: self.spec.nqn.clone(), nsid: wanted });
        }
        let full = ConfigError::NamespaceLimit { nsid: wanted, limit };
        match wanted {
            0 => Some(self.namespaces.lowest_free()).filter(|n| *n <= limit).ok_or(full),
            n if n <= limit => Ok(n),
            _ => Err(full),
        }
    }

    /// Checks that UUID and NGUID differ from all other namespaces: hosts treat namespaces with
    /// equal identifiers as one.
    fn check_identifiers(&self, namespace: &Namespace) -> Result<(), ConfigError> {
        namespace.check()?;
        let of = |known: &HashMap<[u8; 16], u32>, id: &[u8; 16]| known.get(id).copied();
        let same = [
            (of(&self.uuids, &namespace.uuid), "UUID"),
            (of(&self.nguids, &namespace.nguid), "NGUID"),
        ];
        let mut others = same.into_iter().filter_map(|(nsid, what)| Some((nsid?, what)));
        match others.find(|(nsid, _)| *nsid != namespace.nsid) {
            Some((nsid, what)) => Err(ConfigError::DuplicateIdentifier { nsid, what }),
            None => Ok(()),
        }
    }
}
