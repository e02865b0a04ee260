//! The running target: its parts, its start and its end.
//!
//! - `threads`: the threads; `keeper`: the thread that opens namespaces' devices, with `helpers` for devices that
//!   may not answer.
//! - `engine`: the methods for the control plane.
//! - `listeners`, `subsystems`, `namespaces`: the objects that come and go; `table`: the state of each namespace;
//!   `shown`: its image for hosts; `recovery`: devices that go away and come back.
//! - `settings`: the configuration, translated for the service and the arbiter; `hurt`: the hosts that would lose
//!   something by a change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use fabric::Nanos;
use fabric::controller::Service;
use sluice_config::{Backend, Config, Namespace, Subsystem, derived_uuid, format_size};

use crate::control::store::{Place, Remembered, Seen, Unstored};
use crate::control::unproved;
use crate::disks::backings::{Backings, Occasion};
use crate::serve::engine::{Engine, Loss};
use crate::serve::gauges::ReactorGauges;
use crate::serve::host_keys::HostKeys;
use crate::serve::shared::Shared;

use listeners::Listeners;
use namespaces::Namespaces;
use recovery::Recovery;
use threads::Threads;

mod engine;
mod helpers;
mod host_keeper;
mod hurt;
mod keeper;
mod listeners;
mod namespaces;
mod recovery;
mod settings;
mod shown;
mod subsystems;
mod table;
mod threads;

/// A running target.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
    listeners: Listeners,
    namespaces: Arc<Namespaces>,
    recovery: Arc<Recovery>,
    threads: Threads,
    /// The secrets of hosts.
    host_keys: Mutex<HostKeys>,
    /// Whether the hosts that use subsystems could not be stored.
    unstored_hosts: Arc<Unstored>,
    /// Whether the target was asked to end.
    ending: AtomicBool,
}

impl Runtime {
    /// Starts the reactors and everything that the configuration names. A namespace whose device does not open is
    /// shown as not ready: hosts must retry, and the device is tried until it opens, as is the RDMA device of a
    /// listener. `remembered` is the state of the namespaces' files and devices when they were open last, their
    /// identities, and the hosts that may come back.
    ///
    /// # Errors
    /// The kernel lacks a feature that a reactor needs, an address cannot be listened on, a subsystem is refused,
    /// or the secrets of hosts cannot be read.
    pub fn start(config: &Config, remembered: Remembered) -> anyhow::Result<Arc<Self>> {
        let Remembered { seen, identities, mut hosts } = remembered;
        let backings = Backings::new(&config.target, seen, identities);
        let service = Service::new(settings::service(config))?;
        let shared = Arc::new(Shared::new(config, service)?);
        let (now, kept) = (shared.clock.now(), hosts.take_kept());
        shared.with_service(|service| service.restore_hosts(now, kept));
        let namespaces = Arc::new(Namespaces::new(Arc::clone(&shared), backings)?);
        let runtime = Arc::new(Self {
            recovery: Arc::new(Recovery::new(Arc::clone(&namespaces))),
            namespaces,
            shared,
            listeners: Listeners::default(),
            threads: Threads::default(),
            host_keys: Mutex::default(),
            unstored_hosts: Arc::default(),
            ending: AtomicBool::default(),
        });
        let started = runtime.threads.start(&runtime.shared).and_then(|()| {
            runtime.populate(config)?;
            runtime.threads.start_host_keeper(&runtime.shared, hosts, &runtime.unstored_hosts)?;
            runtime.threads.start_data_node(&runtime.shared)?;
            runtime.threads.start_keeper(&runtime.recovery)
        });
        if let Err(error) = started {
            runtime.shutdown(true);
            runtime.wait();
            return Err(error);
        }
        Ok(runtime)
    }

    fn populate(&self, config: &Config) -> anyhow::Result<()> {
        // Before the first host comes: a host with a secret must not get in without it.
        let keys = self.read_host_keys().context("secrets of hosts")?;
        for warning in unproved::at_start(config, &keys) {
            tracing::warn!("{warning}");
        }
        self.set_host_keys(keys);
        for subsystem in &config.subsystems {
            let nqn = &subsystem.nqn;
            subsystems::add_bare(&self.namespaces, subsystem, Occasion::Configured)
                .with_context(|| format!("subsystem {nqn}"))?;
            for namespace in &subsystem.namespaces {
                self.namespaces.add_configured(nqn, namespace)?;
            }
        }
        self.shared.pmem.begin(&self.namespaces, &config.pmem.regions);
        self.namespaces.survey(true);
        self.report_lost_disks(config);
        self.report_keyless_hosts(config);
        // The identities and states are kept before the first host comes.
        let backings = &self.namespaces.backings;
        backings.keep_or_warn();
        backings.forget_others(config);
        if !backings.identities().durable() {
            tell_earlier_uuids(config);
        }
        for listener in &config.listeners {
            self.listeners.add_at_start(&self.shared, listener)?;
        }
        Ok(())
    }

    /// Logs the disks that are smaller or not served since the last run, of hosts that did not shut down and may come
    /// back. A live change and a reload refuse this; a start cannot ask.
    fn report_lost_disks(&self, config: &Config) {
        let lost = self.lost_hosts();
        for LostDisk { nqn, nsid, what } in losses(&self.namespaces.backings.all_seen(), config) {
            let hosts = lost.iter().filter(|(subsystem, _)| *subsystem == nqn);
            let hosts: BTreeSet<&str> = hosts.map(|(_, host)| host.host.as_str()).collect();
            if !hosts.is_empty() {
                tracing::error!(
                    subsystem = nqn,
                    nsid,
                    ?hosts,
                    "{what}: hosts that did not shut down may come back to it, and lose data; to keep it, restore \
                     its entry in the configuration file, and restart"
                );
            }
        }
    }

    /// Logs the hosts that did not shut down, and can no longer connect because they must authenticate and have no key. A
    /// reload refuses this; a start cannot ask.
    fn report_keyless_hosts(&self, config: &Config) {
        // The hosts with keys in a keyring are not known.
        let subsystems = config.subsystems.iter().filter(|_| config.target.keyring.is_none());
        let required =
            subsystems.filter(|subsystem| unproved::requires_authentication(config, subsystem));
        for Subsystem { nqn, .. } in required {
            let lost = self.hosts_hurt(&Loss::Authentication(nqn)).lost;
            let hosts: BTreeSet<&str> = lost.iter().map(|lost| lost.host.as_str()).collect();
            if !hosts.is_empty() {
                tracing::error!(
                    subsystem = nqn,
                    ?hosts,
                    "authentication is required, and these hosts have neither a secret nor a TLS key: they did not shut \
                     down, and lose their disks when they connect again; store their secrets (sluice host key set) and \
                     reload, or take require_authentication out and restart"
                );
            }
        }
    }

    /// Logs how classes share the network, where the configuration says how they do.
    pub fn announce_network(&self) {
        self.shared.network.announce();
    }

    /// Waits until the target has ended.
    pub fn wait(&self) {
        self.threads.wait(&self.recovery);
    }

    /// Returns whether all reactors have turned within `limit` (they do so every 100 ms).
    #[must_use]
    pub fn is_alive(&self, limit: Duration) -> bool {
        let now = self.shared.clock.now();
        let seen = |gauges: &ReactorGauges| Nanos(gauges.seen.load(Ordering::Relaxed));
        self.shared.gauges.iter().all(|gauges| now.since(seen(gauges)) < limit)
    }
}

/// A disk that hosts may know as it was.
struct LostDisk {
    nqn: String,
    nsid: u32,
    what: String,
}

/// Finds the namespaces that were `seen` and are smaller or missing in a configuration.
fn losses(seen: &[(Place, Seen)], config: &Config) -> Vec<LostDisk> {
    let find = |nqn: &str, nsid: u32| {
        let subsystem = config.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)?;
        subsystem.namespaces.iter().find(|namespace| namespace.id() == nsid)
    };
    let size = |namespace: &Namespace| match namespace.backend {
        Backend::File { size, .. } | Backend::Pmem { size, .. } => size,
        _ => None,
    };
    let loss = |((nqn, nsid), seen): &(Place, Seen)| {
        let what = match find(nqn, *nsid).map(size) {
            None => "the configuration no longer has the namespace".to_owned(),
            Some(Some(size)) if size < seen.size => format!(
                "the configuration shrinks the namespace from {} to {}",
                format_size(seen.size),
                format_size(size)
            ),
            Some(_) => return None,
        };
        Some(LostDisk { nqn: nqn.clone(), nsid: *nsid, what })
    };
    seen.iter().filter_map(loss).collect()
}

/// Logs the UUIDs that namespaces on files and devices had in daemons before 0.2, which derived them
/// from the NQN and the NSID: an operator whose hosts shall keep their disks across the upgrade writes
/// them into the configuration.
fn tell_earlier_uuids(config: &Config) {
    for subsystem in &config.subsystems {
        let nqn = &subsystem.nqn;
        let namespaces = subsystem.namespaces.iter();
        for namespace in namespaces.filter(|n| n.uuid.is_none() && n.backend.path().is_some()) {
            let nsid = namespace.id();
            tracing::info!(
                subsystem = nqn,
                nsid,
                "the namespace's UUID follows from its file or device, since there is neither \
                 `state` nor `uuid`; uuid = \"{}\" keeps the UUID of earlier versions",
                derived_uuid(nqn, nsid)
            );
        }
    }
}

#[cfg(test)]
mod tests;
