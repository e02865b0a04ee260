//! The identities of namespaces and subsystems that the configuration gives none: each belongs to
//! data, so that a host never finds another disk under an identity that it knows.
//!
//! A namespace's UUID counts for one file or device. It stays while the configuration changes (another
//! file in the same place gets another one), and is forgotten with a namespace that is removed. The
//! store keeps the identities beside the live changes. They are not part of the configuration.
//!
//! The identity of a removed object that the configuration file still has is put aside, since a revert of
//! the live change brings the same disk back.
//!
//! The NSIDs of a removed subsystem stay known, across restarts too: a host that is away may still have a file system
//! on a disk under one of them, and comes back to another disk if a subsystem with the same NQN is added.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use sluice_config::{Config, derived_serial, derived_uuid, serial_of};
use uuid::Uuid;

use super::tables::fresh_uuid;
use super::{Change, Key, Kind, MemoryStore, Place, Seen, Store, StoreError};
use crate::sys::sync::lock;

/// The UUID of a namespace's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// The kind and path of the file or device, as the configuration names it.
    data: String,
    uuid: Uuid,
    /// Whether another disk had the NSID before.
    #[serde(default)]
    replaces: bool,
    /// A text that distinguishes the data from other data at the same path; `None` if there is no such text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

impl Known {
    /// Returns whether the data is still there after the namespace was removed: it has a path.
    fn outlives_removal(&self) -> bool {
        self.data.contains(' ')
    }
}

/// A namespace that was removed, as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Removed {
    known: Known,
    /// The state of its file or device when it was open last.
    seen: Option<Seen>,
}

/// A subsystem that was removed: the NSIDs that hosts may know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Retired {
    /// Subsystems are numbered in the order of their removal.
    number: u64,
    /// For each NSID the UUID of the only disk that had it; `None`: there were several, or the UUID is not known.
    nsids: BTreeMap<u32, Option<Uuid>>,
}

impl Retired {
    /// Returns the number of entries that count towards [`RETIRED_MAX`].
    fn size(&self) -> usize {
        1 + self.nsids.len()
    }
}

/// Returns the creation time in the origin of a file, as `target/src/disks/backend/origin.rs` writes it.
fn creation_time(origin: &str) -> Option<&str> {
    origin.split_once(" made ").map(|(_, when)| when)
}

/// The most removed subsystems and NSIDs of them, counted together, that stay known. Beyond that, the subsystems that
/// were removed first are forgotten, except for subsystems that exist again, and the last one.
const RETIRED_MAX: usize = 16384;

/// The identities of all namespaces and subsystems.
#[derive(Debug)]
pub struct Identities {
    store: Arc<dyn Store>,
    state: Mutex<State>,
    /// Held while identities are stored, so that the store gets them in their order. They can be used meanwhile.
    storing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The namespaces; `None` for a removed namespace, whose NSID is not given to another one.
    namespaces: BTreeMap<Place, Option<Known>>,
    /// The serial numbers of subsystems by their NQNs.
    serials: BTreeMap<String, String>,
    /// The earlier identities of places that have other data now, until the change is complete. A
    /// change that fails is undone, and the data is back.
    replaced: Vec<(Place, Known)>,
    /// The subsystems that were removed, by their NQNs. A subsystem that exists again stays among them.
    retired: BTreeMap<String, Retired>,
    /// The states of namespaces whose removal is not complete.
    last_seen: BTreeMap<Place, Seen>,
    /// The previous identity of each place whose last identity is not stored yet: `None` means no namespace,
    /// `Some(None)` a removed one.
    before: BTreeMap<Place, Option<Option<Known>>>,
    /// The removed namespaces that a revert brings back.
    removed_namespaces: BTreeMap<Place, Removed>,
    /// The serial numbers of removed subsystems that a revert brings back, by their NQNs.
    removed_serials: BTreeMap<String, String>,
    /// Whether a revert is under way.
    is_reverting: bool,
    /// The changes that the store does not have yet; `None` removes an object.
    pending: BTreeMap<Key, Option<String>>,
}

impl State {
    /// Returns the identity and state of a removed namespace; `None` unless a revert is under way.
    fn restorable(&self, place: &Place) -> Option<&Removed> {
        self.removed_namespaces.get(place).filter(|_| self.is_reverting)
    }

    /// Takes an object of the store whose key is the machine's UUID, a space and `rest`.
    fn take(&mut self, kind: Kind, rest: &str, value: &str) -> serde_json::Result<()> {
        // NQNs contain no spaces.
        let place =
            match rest.split_once(' ').map(|(nqn, nsid)| (nqn.to_owned(), nsid.parse::<u32>())) {
                None => None,
                Some((nqn, Ok(nsid))) => Some((nqn, nsid)),
                // No version has written such a key.
                Some((_, Err(_))) => return Ok(()),
            };
        match (kind, place) {
            (Kind::Identity, None) => {
                self.serials.insert(rest.to_owned(), serde_json::from_str(value)?);
            }
            (Kind::Identity, Some(place)) => {
                self.namespaces.insert(place, serde_json::from_str(value)?);
            }
            (Kind::Retired, None) => {
                self.retired.insert(rest.to_owned(), serde_json::from_str(value)?);
            }
            (Kind::Removed, None) => {
                self.removed_serials.insert(rest.to_owned(), serde_json::from_str(value)?);
            }
            (Kind::Removed, Some(place)) => {
                self.removed_namespaces.insert(place, serde_json::from_str(value)?);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Default for Identities {
    /// Makes an empty table, whose identities end with the process.
    fn default() -> Self {
        Self::of(Arc::new(MemoryStore::default()), State::default())
    }
}

impl Identities {
    fn of(store: Arc<dyn Store>, state: State) -> Self {
        Self { store, state: Mutex::new(state), storing: Mutex::default() }
    }

    /// Reads the identities of this machine. Returns the table, and warnings about identities that
    /// cannot be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let (mut state, mut warnings) = (State::default(), Vec::new());
        let machine = store.machine().to_string();
        for object in store.objects()? {
            let rest = object.key.id.strip_prefix(&machine);
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix(' ')) else { continue };
            if let Err(error) = state.take(object.key.kind, rest, &object.value) {
                warnings.push(format!("{} cannot be read: {error}", object.key));
            }
        }
        Ok((Self::of(store, state), warnings))
    }

    /// Returns whether identities outlive the process.
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
        let removed = state.restorable(&place).map(|removed| &removed.known);
        let mut all = now.into_iter().chain(before.map(|(_, known)| known)).chain(removed);
        all.find(|known| known.data == data).map(|known| known.uuid)
    }

    /// Makes the UUID of a namespace that has none: a random one. `at_start` means that the configuration had the
    /// namespace when the daemon started: if the store has no identities yet, the UUID is derived as an earlier
    /// daemon did, so that hosts keep their disk.
    ///
    /// # Errors
    /// The kernel has no random UUID.
    pub fn new_uuid(&self, nqn: &str, nsid: u32, at_start: bool) -> std::io::Result<Uuid> {
        match at_start && !self.store.has_identities() {
            true => Ok(derived_uuid(nqn, nsid)),
            false => fresh_uuid(),
        }
    }

    /// Returns the serial number of a subsystem, or makes one. `at_start` as for [`Identities::new_uuid`]. If
    /// identities end with the process, a new subsystem's is derived from its NQN, so that a restart does not
    /// change it.
    ///
    /// # Errors
    /// The kernel has no random UUID.
    pub fn serial(&self, nqn: &str, at_start: bool) -> std::io::Result<String> {
        let state = self.state();
        let removed = state.removed_serials.get(nqn).filter(|_| state.is_reverting);
        if let Some(serial) = state.serials.get(nqn).or(removed) {
            return Ok(serial.clone());
        }
        let inherited = at_start && !self.store.has_identities();
        match inherited || !self.store.durable() && !state.retired.contains_key(nqn) {
            true => Ok(derived_serial(nqn)),
            false => fresh_uuid().map(serial_of),
        }
    }

    /// Returns whether a namespace with this UUID is another disk than hosts may know by its NSID. A disk that is
    /// back because a change is undone is not, unless `is_identified` reports that a host has identified one of the
    /// disks that had the NSID meanwhile.
    #[must_use]
    pub fn replaces(
        &self,
        nqn: &str,
        nsid: u32,
        uuid: Uuid,
        is_identified: impl Fn(Uuid) -> bool,
    ) -> bool {
        let place = (nqn.to_owned(), nsid);
        let state = self.state();
        let removed = state.restorable(&place).filter(|removed| removed.known.uuid == uuid);
        let meanwhile: Vec<Uuid> = match (state.namespaces.get(&place), removed) {
            (Some(Some(known)), _) if known.uuid == uuid => return known.replaces,
            (Some(Some(known)), _) => {
                let here = state.replaced.iter().filter(|(of, _)| *of == place);
                let mut later = here.map(|(_, known)| known).skip_while(|known| known.uuid != uuid);
                if later.next().is_none_or(|before| before.replaces) {
                    return true;
                }
                later.chain([known]).map(|known| known.uuid).collect()
            }
            (_, Some(removed)) => return removed.known.replaces,
            (Some(None), None) => return true,
            (None, None) => {
                let known = state.retired.get(nqn).and_then(|retired| retired.nsids.get(&nsid));
                return known.is_some_and(|only| *only != Some(uuid));
            }
        };
        drop(state);
        meanwhile.into_iter().any(|other| other != uuid && is_identified(other))
    }

    /// Returns the last state of the file or device of a removed namespace with this UUID; `None`
    /// unless its removal is not complete (it is part of a change that adds the namespace again, or is
    /// undone), or a revert is under way.
    #[must_use]
    pub fn seen(&self, nqn: &str, nsid: u32, uuid: Uuid) -> Option<Seen> {
        let state = self.state();
        let place = (nqn.to_owned(), nsid);
        let removed = || state.restorable(&place).and_then(|removed| removed.seen.as_ref());
        let is_its = |seen: &&Seen| seen.uuid == uuid;
        state.last_seen.get(&place).filter(is_its).or_else(|| removed().filter(is_its)).cloned()
    }

    /// Returns whether the path of a namespace with this UUID leads to other data than before. Of a namespace that was
    /// removed, and that a revert brings back, this is so if its data has another origin. For other namespaces only the
    /// creation time of the file counts: some file systems number their files anew at each mount.
    #[must_use]
    pub fn is_other_data(&self, nqn: &str, nsid: u32, uuid: Uuid, origin: Option<&str>) -> bool {
        let place = (nqn.to_owned(), nsid);
        let state = self.state();
        let is_its = |known: &&Known| known.uuid == uuid;
        let differ = |then: Option<&str>, now: Option<&str>| {
            then.zip(now).is_some_and(|(then, now)| then != now)
        };
        if let Some(known) = state.namespaces.get(&place).and_then(Option::as_ref).filter(is_its) {
            let then = known.origin.as_deref();
            return differ(then.and_then(creation_time), origin.and_then(creation_time));
        }
        let removed = state.restorable(&place).map(|removed| &removed.known).filter(is_its);
        differ(removed.and_then(|known| known.origin.as_deref()), origin)
    }

    /// Notes the UUID of a namespace that is served now, whether it [replaces](Self::replaces) another disk, and the
    /// origin of its data (`None` where it is not known). [`Identities::keep`] stores all of this.
    pub fn set_uuid(
        &self,
        (nqn, nsid): (&str, u32),
        data: &str,
        (uuid, replaces): (Uuid, bool),
        origin: Option<String>,
    ) {
        let place = (nqn.to_owned(), nsid);
        let mut state = self.state();
        state.before.remove(&place);
        let there = state.namespaces.get(&place).cloned();
        let before = there.clone().flatten();
        let same = before.as_ref().filter(|before| before.data == data && before.uuid == uuid);
        let origin = origin.or_else(|| same.and_then(|before| before.origin.clone()));
        let known = Known { data: data.to_owned(), uuid, replaces, origin };
        if before.as_ref() == Some(&known) {
            return;
        }
        let Ok(text) = serde_json::to_string(&known) else { return };
        state.replaced.extend(before.map(|before| (place.clone(), before)));
        state.pending.insert(self.key_of(&place), Some(text));
        state.before.insert(place.clone(), there);
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

    /// Stores all pending changes in one write.
    ///
    /// # Errors
    /// The store cannot be written; the next call tries again.
    pub fn keep(&self) -> Result<(), StoreError> {
        let _one = lock(&self.storing);
        let new = self.state().pending.clone();
        let change = |(key, text): (&Key, &Option<String>)| match text {
            Some(text) => Change::Put(key.clone(), text.clone()),
            None => Change::Delete(key.clone()),
        };
        let changes: Vec<Change> = new.iter().map(change).collect();
        if changes.is_empty() {
            return Ok(());
        }
        self.store.apply(&changes)?;
        let mut state = self.state();
        let State { pending, before, .. } = &mut *state;
        pending.retain(|key, text| new.get(key) != Some(text));
        before.retain(|place, _| pending.contains_key(&self.key_of(place)));
        Ok(())
    }

    /// Returns whether something is not stored.
    #[must_use]
    pub fn has_unstored(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// Drops the UUID that was noted last for a namespace that is not served after all, and restores the previous
    /// identity, unless the UUID is stored.
    pub fn discard(&self, nqn: &str, nsid: u32) {
        let place = (nqn.to_owned(), nsid);
        let mut state = self.state();
        let Some(before) = state.before.remove(&place) else { return };
        if let Some(Some(_)) = &before {
            let at = state.replaced.iter().rposition(|(of, _)| *of == place);
            at.map(|at| state.replaced.remove(at));
        }
        // The previous identity may not be stored either.
        let text = before.as_ref().map(serde_json::to_string);
        let Ok(text) = text.transpose() else { return };
        state.pending.insert(self.key_of(&place), text);
        match before {
            Some(before) => drop(state.namespaces.insert(place, before)),
            None => drop(state.namespaces.remove(&place)),
        }
    }

    /// Notes the last state of a namespace that was removed, until its removal is complete.
    pub fn note_removed(&self, place: Place, seen: Seen) {
        self.state().last_seen.insert(place, seen);
    }

    /// Forgets the UUID of a namespace that was removed. Its NSID stays known. With `keep`, a revert
    /// brings the UUID back.
    pub fn forget_namespace(&self, nqn: &str, nsid: u32, keep: bool) {
        let place = (nqn.to_owned(), nsid);
        let mut state = self.state();
        state.replaced.retain(|(of, _)| *of != place);
        self.retire(&mut state, place, keep);
    }

    /// Forgets a subsystem that was removed, and its namespaces, but for the NSIDs that they had. With `keep`, a revert
    /// brings their identities back.
    pub fn forget_subsystem(&self, nqn: &str, keep: bool) {
        let mut state = self.state();
        state.replaced.retain(|((of, _), _)| of != nqn);
        self.drop_subsystem(&mut state, nqn, keep);
    }

    /// Begins a revert: until [`Identities::forget_others`], namespaces and subsystems that are added
    /// have the identities that they had when they were removed.
    pub fn restore_removed(&self) {
        self.state().is_reverting = true;
    }

    /// Forgets the identities of removed namespaces (by place and data) and subsystems (by NQN) that no
    /// revert brings back. [`Identities::keep`] stores this.
    pub fn forget_removed(
        &self,
        is_namespace_kept: impl Fn(&Place, &str) -> bool,
        is_subsystem_kept: impl Fn(&str) -> bool,
    ) {
        let mut state = self.state();
        let namespaces = state.removed_namespaces.iter();
        let gone: Vec<Place> = namespaces
            .filter(|(place, removed)| !is_namespace_kept(place, &removed.known.data))
            .map(|(place, _)| place.clone())
            .collect();
        for place in gone {
            state.removed_namespaces.remove(&place);
            state.pending.insert(self.removed_key_of(&place), None);
        }
        let serials = state.removed_serials.keys();
        let gone: Vec<String> = serials.filter(|nqn| !is_subsystem_kept(nqn)).cloned().collect();
        for nqn in gone {
            state.removed_serials.remove(&nqn);
            state.pending.insert(self.removed_key(&nqn), None);
        }
    }

    /// Forgets everything outside a configuration, except for reverts ([`Identities::forget_removed`]). Ends a
    /// revert.
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
            self.drop_subsystem(&mut state, nqn, true);
        }
        let has = |(nqn, nsid): &Place| places.contains(&(nqn.as_str(), *nsid));
        let gone: Vec<Place> = state
            .namespaces
            .iter()
            .filter(|(place, known)| known.is_some() && !has(place))
            .map(|(place, _)| place.clone())
            .collect();
        for place in gone {
            self.retire(&mut state, place, true);
        }
        state.last_seen.clear();
        state.is_reverting = false;
    }

    /// Returns the NSIDs of namespaces of a subsystem that were removed.
    #[must_use]
    pub fn removed_nsids(&self, nqn: &str) -> BTreeSet<u32> {
        let all = (nqn.to_owned(), 0)..=(nqn.to_owned(), u32::MAX);
        let state = self.state();
        let removed = state.namespaces.range(all).filter(|(_, known)| known.is_none());
        removed.map(|((_, nsid), _)| *nsid).collect()
    }

    fn retire(&self, state: &mut State, place: Place, keep: bool) {
        let known = state.namespaces.get_mut(&place).and_then(Option::take);
        state.before.remove(&place);
        if let Some(known) = known {
            state.pending.insert(self.key_of(&place), Some("null".to_owned()));
            self.put_aside(state, place, known, keep);
        }
    }

    fn drop_subsystem(&self, state: &mut State, nqn: &str, keep: bool) {
        let all = (nqn.to_owned(), 0)..=(nqn.to_owned(), u32::MAX);
        let places: Vec<Place> = state.namespaces.range(all).map(|(p, _)| p.clone()).collect();
        let mut retired = state.retired.remove(nqn).unwrap_or_default();
        for place in places {
            state.pending.insert(self.key_of(&place), None);
            state.before.remove(&place);
            let known = state.namespaces.remove(&place).flatten();
            let only = known.as_ref().filter(|known| !known.replaces).map(|known| known.uuid);
            retired.nsids.insert(place.1, only);
            if let Some(known) = known {
                self.put_aside(state, place, known, keep);
            }
        }
        if let Some(serial) = state.serials.remove(nqn) {
            state.pending.insert(self.key(nqn), None);
            if let (true, Ok(text)) = (keep, serde_json::to_string(&serial)) {
                state.pending.insert(self.removed_key(nqn), Some(text));
                state.removed_serials.insert(nqn.to_owned(), serial);
            }
        }
        self.retire_subsystem(state, nqn, retired);
    }

    /// Notes the NSIDs of a removed subsystem. Forgets other subsystems' NSIDs if there are too many.
    fn retire_subsystem(&self, state: &mut State, nqn: &str, retired: Retired) {
        let last = state.retired.values().map(|other| other.number).max();
        let retired = Retired { number: last.map_or(0, |last| last.saturating_add(1)), ..retired };
        let Ok(text) = serde_json::to_string(&retired) else { return };
        state.pending.insert(self.retired_key(nqn), Some(text));
        state.retired.insert(nqn.to_owned(), retired);
        let mut size: usize = state.retired.values().map(Retired::size).sum();
        while size > RETIRED_MAX {
            let others = state.retired.iter().filter(|(other, _)| {
                other.as_str() != nqn && !state.serials.contains_key(other.as_str())
            });
            let first = others.min_by_key(|(_, other)| other.number).map(|(nqn, _)| nqn.clone());
            let Some(first) = first else { return };
            size -= state.retired.remove(&first).map_or(0, |other| other.size());
            state.pending.insert(self.retired_key(&first), None);
        }
    }

    /// Sets aside the identity of a removed namespace, with `keep`. Other data at the same place that was set aside
    /// before stays: it belongs to the configuration file, and replaces this one if a revert brings it back.
    fn put_aside(&self, state: &mut State, place: Place, known: Known, keep: bool) {
        let seen = state.last_seen.remove(&place).filter(|seen| seen.uuid == known.uuid);
        if let Some(before) = state.removed_namespaces.get_mut(&place)
            && before.known.data != known.data
        {
            before.known.replaces = true;
            if let Ok(text) = serde_json::to_string(before) {
                state.pending.insert(self.removed_key_of(&place), Some(text));
            }
            return;
        }
        if !keep || !known.outlives_removal() {
            return;
        }
        let removed = Removed { known, seen };
        if let Ok(text) = serde_json::to_string(&removed) {
            state.pending.insert(self.removed_key_of(&place), Some(text));
            state.removed_namespaces.insert(place, removed);
        }
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

    fn retired_key(&self, nqn: &str) -> Key {
        Key { kind: Kind::Retired, id: format!("{} {nqn}", self.store.machine()) }
    }

    fn removed_key_of(&self, (nqn, nsid): &Place) -> Key {
        self.removed_key(&format!("{nqn} {nsid}"))
    }

    fn removed_key(&self, rest: &str) -> Key {
        Key { kind: Kind::Removed, id: format!("{} {rest}", self.store.machine()) }
    }
}

#[cfg(test)]
#[path = "identities_tests.rs"]
mod tests;
