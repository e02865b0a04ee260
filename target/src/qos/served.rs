//! The present subsystems and namespaces, as quality of service knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitration::Class;
use arbitration::device::Device;
use fabric::controller::BackendId;

use crate::config::DeviceQos;

/// A namespace, as quality of service knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownNamespace {
    pub(super) class: Option<Class>,
    pub(super) settings: DeviceQos,
    pub(super) backend: BackendId,
    pub(super) device: Arc<Device>,
    /// Whether commands may wait for the device.
    pub(super) queued: bool,
}

/// The subsystems with their namespaces.
#[derive(Debug, Default)]
pub(super) struct Served(pub(super) BTreeMap<String, BTreeMap<u32, KnownNamespace>>);

impl Served {
    /// Adds a subsystem.
    pub(super) fn add_subsystem(&mut self, nqn: &str) {
        self.0.entry(nqn.to_owned()).or_default();
    }

    /// Removes a subsystem, and returns the NSIDs of its namespaces.
    pub(super) fn remove_subsystem(&mut self, nqn: &str) -> Vec<u32> {
        self.0.remove(nqn).unwrap_or_default().into_keys().collect()
    }

    /// Adds a namespace. Returns whether it replaces one.
    pub(super) fn add(&mut self, nqn: &str, nsid: u32, known: KnownNamespace) -> bool {
        self.0.entry(nqn.to_owned()).or_default().insert(nsid, known).is_some()
    }

    /// Removes a namespace.
    pub(super) fn remove(&mut self, nqn: &str, nsid: u32) {
        if let Some(namespaces) = self.0.get_mut(nqn) {
            namespaces.remove(&nsid);
        }
    }

    /// Finds a namespace.
    pub(super) fn get(&self, nqn: &str, nsid: u32) -> Option<&KnownNamespace> {
        self.0.get(nqn)?.get(&nsid)
    }

    /// Finds a namespace for a change.
    pub(super) fn get_mut(&mut self, nqn: &str, nsid: u32) -> Option<&mut KnownNamespace> {
        self.0.get_mut(nqn)?.get_mut(&nsid)
    }

    /// Finds the namespace `NQN/NSID`.
    pub(super) fn named(&self, name: &str) -> Option<&KnownNamespace> {
        let (nqn, nsid) = split(name)?;
        self.get(nqn, nsid)
    }

    /// Says whether there is a subsystem of this name.
    pub(super) fn has_subsystem(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Says whether there is a subsystem or a namespace of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.has_subsystem(name) || self.named(name).is_some()
    }

    /// Returns all namespaces.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &KnownNamespace> {
        self.0.values().flat_map(BTreeMap::values)
    }
}

/// Writes `NQN/NSID`: the name of a namespace's own session.
pub(super) fn namespace_name(nqn: &str, nsid: u32) -> String {
    format!("{nqn}/{nsid}")
}

/// Reads NQN and NSID from what may be the name of a namespace's session.
pub(super) fn split(name: &str) -> Option<(&str, u32)> {
    let (nqn, nsid) = name.rsplit_once('/')?;
    Some((nqn, nsid.parse().ok()?))
}
