//! The methods for the control plane. The lock of changes keeps them and the keeper apart; it is not held while a
//! file or device is opened, looked at or closed, since an unresponsive one would block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbitration::Class;
use fabric::Nanos;
use fabric::controller::ConnectionId;
use sluice_config::{
    AllowedHost, Config, Endpoint, Listener, Namespace, Network, PmemConfig, QosConfig,
    RegionConfig, Subsystem,
};
use sluice_core::TraceFilter;
use uuid::Uuid;

use super::{Runtime, hurt, settings, subsystems};
use crate::serve::connections::Done;
use crate::serve::engine::{
    ConnectionState, Engine, EngineError, FileSystem, HurtHosts, ListenerState, Loss, LostHost,
    NetworkState, PmemState, QosState, Statistics, SubsystemState,
};
use crate::serve::host_keys::{self, HostKeys};
use crate::serve::qos::LimitChange;
use crate::serve::reactor::mailbox::Message;
use crate::serve::traces::TracedCommands;
use crate::sys::sync::lock;

impl Engine for Runtime {
    fn add_subsystem(&self, subsystem: &Subsystem) -> Result<String, EngineError> {
        let added = subsystems::add(&self.namespaces, subsystem);
        self.namespaces.survey(true);
        added
    }

    fn remove_subsystem(&self, nqn: &str) -> Result<(), EngineError> {
        let removed = subsystems::remove(&self.namespaces, nqn);
        self.namespaces.survey(true);
        removed
    }

    fn add_namespace(&self, nqn: &str, namespace: &Namespace) -> Result<Uuid, EngineError> {
        let added = self.namespaces.add(nqn, namespace);
        self.namespaces.survey(true);
        added
    }

    fn remove_namespace(&self, nqn: &str, nsid: u32) -> Result<(), EngineError> {
        let removed = self.namespaces.remove(nqn, nsid);
        self.namespaces.survey(true);
        removed
    }

    fn forget_identity(&self, nqn: &str, nsid: Option<u32>, keep: bool) {
        let backings = &self.namespaces.backings;
        self.namespaces.settle(|(of, id)| of == nqn && nsid.is_none_or(|nsid| nsid == *id));
        match nsid {
            Some(nsid) => backings.identities().forget_namespace(nqn, nsid, keep),
            None => backings.identities().forget_subsystem(nqn, keep),
        }
        backings.keep_or_warn();
    }

    fn forget_other_identities(&self, config: &Config) {
        let backings = &self.namespaces.backings;
        self.namespaces.settle(|_| true);
        backings.identities().forget_others(config);
        backings.keep_or_warn();
    }

    fn restore_identities(&self) {
        self.namespaces.backings.identities().restore_removed();
    }

    fn forget_removed_identities(&self, file: &Config, running: &Config) {
        self.namespaces.backings.forget_removed(file, running);
    }

    fn removed_nsids(&self, nqn: &str) -> BTreeSet<u32> {
        self.namespaces.backings.identities().removed_nsids(nqn)
    }

    fn resize_namespace(
        &self,
        nqn: &str,
        nsid: u32,
        size: Option<u64>,
    ) -> Result<u64, EngineError> {
        let resized = self.namespaces.resize(nqn, nsid, size);
        self.namespaces.survey(true);
        resized
    }

    fn retry_namespaces(&self, nqn: Option<&str>, nsid: Option<u32>) {
        self.recovery.retry(nqn, nsid);
    }

    fn hosts_hurt(&self, loss: &Loss<'_>) -> HurtHosts {
        let present_blocks = |id| self.namespaces.present_blocks(id);
        hurt::hosts((&self.shared, &self.listeners), (&|| self.pmem(), &present_blocks), loss)
    }

    fn lost_hosts(&self) -> Vec<(String, LostHost)> {
        let now = self.shared.clock.now();
        let lost = self.shared.with_service(|service| service.lost_hosts(now));
        lost.iter().map(|host| (host.path.subsystem.clone(), hurt::shown(now, host))).collect()
    }

    fn add_listener(&self, listener: &Listener) -> Result<(), EngineError> {
        let _one = lock(&self.shared.change);
        self.listeners.add(&self.shared, listener)
    }

    fn remove_listener(&self, endpoint: Endpoint) -> Result<(), EngineError> {
        let _one = lock(&self.shared.change);
        self.listeners.remove(&self.shared, endpoint)
    }

    fn add_host(&self, nqn: &str, host: &AllowedHost) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        Ok(self.shared.with_service(|service| service.add_host(now, nqn, host.clone()))?)
    }

    fn set_host(&self, nqn: &str, host: &AllowedHost) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        Ok(self.shared.with_service(|service| service.set_host(now, nqn, host.clone()))?)
    }

    fn remove_host(&self, nqn: &str, host: &str) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        Ok(self.shared.with_service(|service| service.remove_host(now, nqn, host))?)
    }

    fn set_allow_any_host(&self, nqn: &str, allow: bool) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        Ok(self.shared.with_service(|service| service.set_allow_any_host(now, nqn, allow))?)
    }

    fn set_require_authentication(&self, nqn: &str, required: bool) -> Result<(), EngineError> {
        Ok(self.shared.with_service(|service| service.set_require_authentication(nqn, required))?)
    }

    fn set_listener_class(
        &self,
        endpoint: Endpoint,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        self.listeners.set_class(&self.shared, endpoint, class)
    }

    fn set_listener_link(&self, endpoint: Endpoint, link: Option<&str>) -> Result<(), EngineError> {
        self.listeners.set_link(&self.shared, endpoint, link)
    }

    fn set_namespace_class(
        &self,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        self.namespaces.set_class(nqn, nsid, class)
    }

    fn set_qos(&self, qos: &QosConfig) -> Result<(), EngineError> {
        let _one = lock(&self.shared.change);
        let now = self.shared.clock.now();
        if let Some(refusal) = self.shared.refusal(LimitChange::Settings(qos)) {
            return Err(EngineError::Invalid(refusal));
        }
        self.shared.qos.set(now, qos).map_err(EngineError::Invalid)?;
        let feature = settings::arbitration_feature(&qos.general.order);
        self.shared.with_service(|service| service.set_arbitration(feature));
        self.shared.refresh();
        Ok(())
    }

    fn qos_config(&self) -> QosConfig {
        self.shared.qos.config()
    }

    fn qos(&self) -> QosState {
        self.shared.qos.state(self.shared.clock.now())
    }

    fn reservations_not_in_force(&self) -> BTreeMap<String, String> {
        self.shared.qos.not_in_force()
    }

    fn read_host_keys(&self) -> Result<HostKeys, EngineError> {
        let folder = self.shared.settings.host_keys.as_deref();
        host_keys::read(folder).map_err(|error| EngineError::Invalid(error.to_string()))
    }

    fn set_host_keys(&self, keys: HostKeys) -> Vec<String> {
        let mut present = lock(&self.host_keys);
        let changes = host_keys::differing(&present, &keys);
        self.shared.with_service(|service| {
            for host in present.keys().filter(|host| !keys.contains_key(*host)) {
                service.set_host_secrets(host, None);
                service.set_tls_key(host, false);
                self.shared.tls.keys().set(host, &[]);
            }
            for (host, own) in &keys {
                if present.get(host) != Some(own) {
                    service.set_host_secrets(host, own.secrets.clone());
                    service.set_tls_key(host, !own.tls_keys.is_empty());
                    self.shared.tls.keys().set(host, &own.tls_keys);
                }
            }
        });
        *present = keys;
        changes
    }

    fn host_keys(&self) -> HostKeys {
        lock(&self.host_keys).clone()
    }

    fn hosts_of_keyring(&self) -> BTreeSet<String> {
        self.shared.tls.keys().hosts_of_keyring()
    }

    fn set_network(&self, network: &Network) -> Result<(), EngineError> {
        let _one = lock(&self.shared.change);
        self.shared.network.set(network).map_err(EngineError::Invalid)
    }

    fn network_config(&self) -> Network {
        self.shared.network.config()
    }

    fn network(&self) -> NetworkState {
        self.shared.network.state()
    }

    fn set_regions(&self, regions: &[RegionConfig]) -> Result<(), EngineError> {
        self.shared.pmem.set(&self.namespaces, regions)
    }

    fn pmem_config(&self) -> PmemConfig {
        self.shared.pmem.config()
    }

    fn pmem(&self) -> PmemState {
        self.shared.pmem.state()
    }

    fn begin_pmem_profile(&self, periods: u32) -> Result<(), EngineError> {
        self.shared.pmem.begin_profile(periods)
    }

    fn listeners(&self) -> Vec<ListenerState> {
        self.listeners.list(&self.shared)
    }

    fn subsystems(&self) -> Vec<SubsystemState> {
        subsystems::states(&self.namespaces)
    }

    fn file_systems(&self) -> Vec<FileSystem> {
        self.namespaces.file_systems()
    }

    fn unstored(&self) -> Vec<String> {
        let states = self.namespaces.backings.problem();
        let hosts = self.unstored_hosts.problem("hosts that use subsystems");
        states.into_iter().chain(hosts).collect()
    }

    fn namespace_warnings(&self, nqn: &str, nsid: u32) -> Vec<String> {
        self.namespaces.warnings(nqn, nsid)
    }

    fn connections(&self) -> Vec<ConnectionState> {
        let mut all = self.shared.connections.present();
        self.complete(&mut all);
        all.sort_by_key(|connection| connection.id);
        all
    }

    fn statistics(&self) -> Statistics {
        let Done { hosts, mut queues } = self.shared.connections.done();
        self.complete(queues.iter_mut().map(|(state, _)| state));
        queues.sort_by_key(|(state, _)| state.id);
        let events = &self.shared.events;
        Statistics {
            namespaces: self.namespaces.table.statistics(),
            hosts: hosts.into_iter().map(|((host, nqn), seen)| (host, nqn, seen)).collect(),
            queues,
            hosts_lost: self.lost_hosts().len(),
            workloads: self.shared.workloads.snapshot(),
            reactors: self.shared.gauges.iter().map(|gauges| gauges.state()).collect(),
            accepted: events.accepted.load(Ordering::Relaxed),
            protocol_errors: events.protocol_errors.load(Ordering::Relaxed),
            waiting_closed: events.waiting_closed.load(Ordering::Relaxed),
            tls_refused: events.tls_refused.load(Ordering::Relaxed),
            connects_refused: events.refusals(),
            lines_left_out: self.shared.lines_left_out(),
            keep_alive_expired: events.keep_alive_expired.load(Ordering::Relaxed),
        }
    }

    fn begin_trace(&self, filter: TraceFilter) -> Option<u64> {
        let trace = self.shared.traces.begin(self.shared.clock.now())?;
        self.set_trace(Some(filter));
        Some(trace)
    }

    fn take_traced(&self, trace: u64, ends: bool) -> Option<TracedCommands> {
        let taken = self.shared.traces.take(self.shared.clock.now(), trace, ends)?;
        if ends {
            self.set_trace(None);
        }
        Some(taken)
    }

    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    fn shutdown(&self, now: bool) {
        self.ending.store(true, Ordering::Relaxed);
        let time = self.shared.clock.now();
        self.shared.with_service(|service| service.begin_shutdown(time));
        self.shared.rdma.stop();
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Message::Stop { now });
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

impl Runtime {
    fn set_trace(&self, filter: Option<TraceFilter>) {
        let filter = filter.map(Arc::new);
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Message::Trace(filter.clone()));
        }
    }

    /// Adds the network's state to connections, and whether their hosts are authenticated. The lock of the
    /// connections, which reactors take, must not be held.
    fn complete<'a>(&self, states: impl IntoIterator<Item = &'a mut ConnectionState>) {
        let mut states: Vec<_> = states.into_iter().collect();
        for state in &mut states {
            state.network = self.shared.network.connection(ConnectionId(state.id));
        }
        self.shared.with_service(|service| {
            for state in &mut states {
                state.authenticated = service.has_proved(ConnectionId(state.id));
            }
        });
    }
}
