//! The present subsystems and namespaces, as quality of service knows them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arbitration::Class;
use arbitration::device::Device;
use fabric::controller::BackendId;
use sluice_config::DeviceQos;

/// A namespace, as quality of service knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownNamespace {
    pub(super) class: Option<Class>,
    pub(super) settings: DeviceQos,
    pub(super) backend: BackendId,
    pub(super) device: Arc<Device>,
    /// Whether commands may wait for the device.
    pub(super) queued: bool,
    /// The size in bytes.
    pub(super) size: u64,
}

/// The subsystems with their namespaces.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) subsystems: BTreeMap<String, BTreeMap<u32, KnownNamespace>>,
    /// The size in bytes of each subsystem's namespaces together, so that a change of one namespace
    /// does not sum up all of them.
    sizes: HashMap<String, u128>,
}

impl Served {
    pub(super) fn add_subsystem(&mut self, nqn: &str) {
        self.subsystems.entry(nqn.to_owned()).or_default();
    }

    /// Removes a subsystem, and returns the NSIDs of its namespaces.
    pub(super) fn remove_subsystem(&mut self, nqn: &str) -> Vec<u32> {
        self.sizes.remove(nqn);
        self.subsystems.remove(nqn).unwrap_or_default().into_keys().collect()
    }

    /// Adds a namespace. Returns whether it replaces one.
    pub(super) fn add(&mut self, nqn: &str, nsid: u32, known: KnownNamespace) -> bool {
        let size = known.size;
        let before = self.subsystems.entry(nqn.to_owned()).or_default().insert(nsid, known);
        self.count_size(nqn, before.as_ref().map_or(0, |known| known.size), size);
        before.is_some()
    }

    /// Counts a namespace of another size than before in its subsystem's.
    fn count_size(&mut self, nqn: &str, before: u64, after: u64) {
        let sum = self.sizes.entry(nqn.to_owned()).or_default();
        *sum = sum.saturating_sub(before.into()).saturating_add(after.into());
    }

    /// Sets a namespace's size in bytes. Returns whether it has changed.
    pub(super) fn resize(&mut self, nqn: &str, nsid: u32, size: u64) -> bool {
        let Some(known) = self.get_mut(nqn, nsid) else { return false };
        let before = std::mem::replace(&mut known.size, size);
        self.count_size(nqn, before, size);
        before != size
    }

    /// Returns the size in bytes of the namespace that a session is of, or of all namespaces of its
    /// subsystem; `None` where there is no namespace.
    pub(super) fn size_of(&self, session: &str) -> Option<u64> {
        let Some(namespaces) = self.subsystems.get(session) else {
            return self.named(session).map(|known| known.size);
        };
        if namespaces.is_empty() {
            return None;
        }
        let sum = self.sizes.get(session).copied().unwrap_or_default();
        Some(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// Removes a namespace.
    pub(super) fn remove(&mut self, nqn: &str, nsid: u32) {
        let namespaces = self.subsystems.get_mut(nqn);
        if let Some(known) = namespaces.and_then(|namespaces| namespaces.remove(&nsid)) {
            self.count_size(nqn, known.size, 0);
        }
    }

    pub(super) fn get(&self, nqn: &str, nsid: u32) -> Option<&KnownNamespace> {
        self.subsystems.get(nqn)?.get(&nsid)
    }

    /// Finds a namespace for a change.
    pub(super) fn get_mut(&mut self, nqn: &str, nsid: u32) -> Option<&mut KnownNamespace> {
        self.subsystems.get_mut(nqn)?.get_mut(&nsid)
    }

    /// Finds the namespace `NQN/NSID`.
    pub(super) fn named(&self, name: &str) -> Option<&KnownNamespace> {
        let (nqn, nsid) = split(name)?;
        self.get(nqn, nsid)
    }

    /// Returns whether there is a subsystem of this name.
    pub(super) fn has_subsystem(&self, name: &str) -> bool {
        self.subsystems.contains_key(name)
    }

    /// Returns whether there is a subsystem or a namespace of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.has_subsystem(name) || self.named(name).is_some()
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &KnownNamespace> {
        self.subsystems.values().flat_map(BTreeMap::values)
    }
}

/// Writes `NQN/NSID`: the name of a namespace's own session.
pub(super) fn namespace_name(nqn: &str, nsid: u32) -> String {
    format!("{nqn}/{nsid}")
}

/// Reads NQN and NSID from a text that may be the name of a namespace's session.
pub(super) fn split(name: &str) -> Option<(&str, u32)> {
    let (nqn, nsid) = name.rsplit_once('/')?;
    Some((nqn, nsid.parse().ok()?))
}
