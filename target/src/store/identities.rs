//! The identities of namespaces and subsystems that the configuration gives none: each belongs to
//! data, so that a host never finds another disk under an identity that it knows.
//!
//! A namespace's UUID counts for one file or device. It stays while the configuration changes (another
//! file in the same place gets another one), and is forgotten with a namespace that is removed. The
//! store keeps the identities beside the live changes. They are not part of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::tables::fresh_uuid;
use super::{Change, Key, Kind, MemoryStore, Place, Store, StoreError};
use crate::config::{Config, derived_serial, derived_uuid, serial_of};
use crate::sync::lock;

/// The UUID of a namespace's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// The kind and path of the file or device, as the configuration names it.
    data: String,
    uuid: Uuid,
    /// Whether another disk had the NSID before.
    #[serde(default)]
    replaces: bool,
}

/// The identities of all namespaces and subsystems.
#[derive(Debug)]
pub struct Identities {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The namespaces; `None` for one that was removed, whose NSID is not given to another one.
    namespaces: BTreeMap<Place, Option<Known>>,
    /// The serial numbers of subsystems by their NQNs.
    serials: BTreeMap<String, String>,
    /// The earlier identities of places that have other data now, until the change is complete. A
    /// change that fails is undone, and the data is back.
    replaced: Vec<(Place, Known)>,
    /// The subsystems that were removed since the start.
    removed: BTreeSet<String>,
    /// The changes that the store does not have yet; `None` removes an object.
    pending: BTreeMap<Key, Option<String>>,
}

impl Default for Identities {
    /// Makes an empty table, whose identities end with the process.
    fn default() -> Self {
        Self { store: Arc::new(MemoryStore::default()), state: Mutex::default() }
    }
}

impl Identities {
    /// Reads the identities of this machine. Returns the table, and warnings about identities that
    /// cannot be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let (mut state, mut warnings) = (State::default(), Vec::new());
        let machine = store.machine().to_string();
        for object in store.objects()? {
            if object.key.kind != Kind::Identity {
                continue;
            }
            let rest = object.key.id.strip_prefix(&machine);
            // NQNs contain no spaces.
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix(' ')) else { continue };
            let read = match rest.split_once(' ') {
                None => serde_json::from_str(&object.value)
                    .map(|serial| drop(state.serials.insert(rest.to_owned(), serial))),
                Some((nqn, nsid)) => {
                    let Ok(nsid) = nsid.parse() else { continue };
                    serde_json::from_str(&object.value)
                        .map(|known| drop(state.namespaces.insert((nqn.to_owned(), nsid), known)))
                }
            };
            if let Err(error) = read {
                warnings.push(format!("{} cannot be read: {error}", object.key));
            }
        }
        Ok((Self { store, state: Mutex::new(state) }, warnings))
    }

    /// Says whether identities outlive the process.
    #[must_use]
    pub fn durable(&self) -> bool {
        self.store.durable()
    }

    /// Returns the UUID of a namespace with this data; `None` where the namespace has none yet, or
    /// other data.
    #[must_use]
    pub fn uuid(&self, nqn: &str, nsid: u32, data: &str) -> Option<Uuid> {
        let place = (nqn.to_owned(), nsid);
        let state = self.state();
        let now = state.namespaces.get(&place).and_then(Option::as_ref);
        let before = state.replaced.iter().rev().filter(|(of, _)| *of == place);
        let mut all = now.into_iter().chain(before.map(|(_, known)| known));
        all.find(|known| known.data == data).map(|known| known.uuid)
    }

    /// Makes the UUID of a namespace that has none: a random one. `at_start` says that the
    /// configuration had the namespace when the daemon started: where the store has no identities
    /// yet, the UUID is the one that an earlier daemon derived, so that hosts keep their disk.
    ///
    /// # Errors
    /// The kernel has no random UUID.
    pub fn new_uuid(&self, nqn: &str, nsid: u32, at_start: bool) -> std::io::Result<Uuid> {
        match at_start && !self.store.has_identities() {
            true => Ok(derived_uuid(nqn, nsid)),
            false => fresh_uuid(),
        }
    }

    /// Returns the serial number of a subsystem, or makes one. `at_start` as for
    /// [`Identities::new_uuid`]. Where identities end with the process, a subsystem that comes for
    /// the first time has one that follows from its NQN, which a restart does not change.
    ///
    /// # Errors
    /// The kernel has no random UUID.
    pub fn serial(&self, nqn: &str, at_start: bool) -> std::io::Result<String> {
        let state = self.state();
        if let Some(serial) = state.serials.get(nqn) {
            return Ok(serial.clone());
        }
        let inherited = at_start && !self.store.has_identities();
        match inherited || !self.store.durable() && !state.removed.contains(nqn) {
            true => Ok(derived_serial(nqn)),
            false => fresh_uuid().map(serial_of),
        }
    }

    /// Says whether a namespace with this UUID is another disk than hosts may know by its NSID.
    #[must_use]
    pub fn replaces(&self, nqn: &str, nsid: u32, uuid: Uuid) -> bool {
        let state = self.state();
        match state.namespaces.get(&(nqn.to_owned(), nsid)) {
            Some(Some(known)) => known.replaces || known.uuid != uuid,
            Some(None) => true,
            None => state.removed.contains(nqn),
        }
    }

    /// Notes the UUID of a namespace that is served now. [`Identities::keep`] stores it.
    pub fn set_uuid(&self, nqn: &str, nsid: u32, data: &str, uuid: Uuid) {
        let place = (nqn.to_owned(), nsid);
        let replaces = self.replaces(nqn, nsid, uuid);
        let known = Known { data: data.to_owned(), uuid, replaces };
        let mut state = self.state();
        let before = state.namespaces.get(&place).cloned().flatten();
        if before.as_ref() == Some(&known) {
            return;
        }
        let Ok(text) = serde_json::to_string(&known) else { return };
        state.replaced.extend(before.map(|before| (place.clone(), before)));
        state.pending.insert(self.key_of(&place), Some(text));
        state.namespaces.insert(place, Some(known));
    }

    /// Notes the serial number of a subsystem. [`Identities::keep`] stores it.
    pub fn set_serial(&self, nqn: &str, serial: &str) {
        let mut state = self.state();
        if state.serials.get(nqn).is_some_and(|known| known == serial) {
            return;
        }
        let Ok(text) = serde_json::to_string(serial) else { return };
        state.pending.insert(self.key(nqn), Some(text));
        state.serials.insert(nqn.to_owned(), serial.to_owned());
    }

    /// Stores what is new, all in one write.
    ///
    /// # Errors
    /// The store cannot be written; the next call tries again.
    pub fn keep(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        let changes: Vec<Change> = state
            .pending
            .iter()
            .map(|(key, text)| match text {
                Some(text) => Change::Put(key.clone(), text.clone()),
                None => Change::Delete(key.clone()),
            })
            .collect();
        if !changes.is_empty() {
            self.store.apply(&changes)?;
            state.pending.clear();
        }
        Ok(())
    }

    /// Drops the UUID that was noted for a namespace that is not served after all, as if it had
    /// never been there.
    pub fn discard(&self, nqn: &str, nsid: u32) {
        let place = (nqn.to_owned(), nsid);
        let key = self.key_of(&place);
        let mut state = self.state();
        if state.pending.remove(&key).is_some() {
            let at = state.replaced.iter().rposition(|(of, _)| *of == place);
            match at.map(|at| state.replaced.remove(at).1) {
                Some(before) => drop(state.namespaces.insert(place, Some(before))),
                None => drop(state.namespaces.remove(&place)),
            }
        }
    }

    /// Forgets the UUID of a namespace that was removed. Its NSID stays known.
    pub fn forget_namespace(&self, nqn: &str, nsid: u32) {
        let place = (nqn.to_owned(), nsid);
        let mut state = self.state();
        state.replaced.retain(|(of, _)| *of != place);
        self.retire(&mut state, place);
    }

    /// Forgets a subsystem that was removed, and its namespaces.
    pub fn forget_subsystem(&self, nqn: &str) {
        let mut state = self.state();
        state.replaced.retain(|((of, _), _)| of != nqn);
        self.drop_subsystem(&mut state, nqn);
    }

    /// Forgets all that a configuration does not have.
    pub fn forget_others(&self, config: &Config) {
        let subsystems: BTreeSet<&str> = config.subsystems.iter().map(|s| s.nqn.as_str()).collect();
        let places: BTreeSet<(&str, u32)> = config
            .subsystems
            .iter()
            .flat_map(|s| s.namespaces.iter().map(|namespace| (s.nqn.as_str(), namespace.id())))
            .collect();
        let mut state = self.state();
        state.replaced.clear();
        let known = state.namespaces.keys().map(|(nqn, _)| nqn).chain(state.serials.keys());
        let gone: BTreeSet<String> =
            known.filter(|nqn| !subsystems.contains(nqn.as_str())).cloned().collect();
        for nqn in &gone {
            self.drop_subsystem(&mut state, nqn);
        }
        let has = |(nqn, nsid): &Place| places.contains(&(nqn.as_str(), *nsid));
        let gone: Vec<Place> = state
            .namespaces
            .iter()
            .filter(|(place, known)| known.is_some() && !has(place))
            .map(|(place, _)| place.clone())
            .collect();
        for place in gone {
            self.retire(&mut state, place);
        }
    }

    /// Returns the NSIDs of namespaces of a subsystem that were removed.
    #[must_use]
    pub fn removed_nsids(&self, nqn: &str) -> BTreeSet<u32> {
        let all = (nqn.to_owned(), 0)..=(nqn.to_owned(), u32::MAX);
        let state = self.state();
        let removed = state.namespaces.range(all).filter(|(_, known)| known.is_none());
        removed.map(|((_, nsid), _)| *nsid).collect()
    }

    fn retire(&self, state: &mut State, place: Place) {
        if let Some(known) = state.namespaces.get_mut(&place)
            && known.take().is_some()
        {
            state.pending.insert(self.key_of(&place), Some("null".to_owned()));
        }
    }

    fn drop_subsystem(&self, state: &mut State, nqn: &str) {
        let all = (nqn.to_owned(), 0)..=(nqn.to_owned(), u32::MAX);
        let places: Vec<Place> = state.namespaces.range(all).map(|(p, _)| p.clone()).collect();
        for place in places {
            state.pending.insert(self.key_of(&place), None);
            state.namespaces.remove(&place);
        }
        if state.serials.remove(nqn).is_some() {
            state.pending.insert(self.key(nqn), None);
        }
        state.removed.insert(nqn.to_owned());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn key_of(&self, (nqn, nsid): &Place) -> Key {
        self.key(&format!("{nqn} {nsid}"))
    }

    fn key(&self, rest: &str) -> Key {
        Key { kind: Kind::Identity, id: format!("{} {rest}", self.store.machine()) }
    }
}

#[cfg(test)]
#[path = "identities_tests.rs"]
mod tests;
