//! The state of each namespace's file or device when it was open last, so that a missing file, a
//! smaller device and another device are noticed, instead of served as the disk that hosts know.
//!
//! The store keeps these states beside the live changes. They are not part of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Change, Key, Kind, MemoryStore, Store, StoreError};
use crate::sys::sync::lock;

/// The state of a namespace's file or device when it was open last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The size of the namespace in bytes.
    pub size: u64,
    /// The logical block size in bytes.
    pub block_size: u32,
    /// `file`, `block` or `nvme`.
    pub kind: String,
    /// The path of the file or device.
    pub path: PathBuf,
    /// The names that the device reports: WWN, serial number; `None` where it reports nothing, and
    /// for files.
    pub device: Option<String>,
    /// The namespace's UUID. A namespace with another one is another disk to hosts.
    pub uuid: Uuid,
}

/// A namespace: its subsystem's NQN, and the NSID.
pub type Place = (String, u32);

/// The states of all namespaces that were seen. A state counts as soon as it is noted, and stays noted where it
/// cannot be stored: otherwise a file that has gone since could be made again, empty, for hosts that know it.
#[derive(Debug)]
pub struct SeenNamespaces {
    store: Arc<dyn Store>,
    /// Whether some of the earlier states are lost.
    lost: bool,
    states: Mutex<States>,
    /// Held while states are stored, so that the store gets them in their order. The states can be used meanwhile.
    storing: Mutex<()>,
}

#[derive(Debug, Default)]
struct States {
    known: BTreeMap<Place, Seen>,
    /// The places whose states may differ from those in the store.
    unstored: BTreeSet<Place>,
}

impl Default for SeenNamespaces {
    /// Makes an empty table, whose states end with the process.
    fn default() -> Self {
        Self::of(Arc::new(MemoryStore::default()), BTreeMap::new())
    }
}

impl SeenNamespaces {
    fn of(store: Arc<dyn Store>, known: BTreeMap<Place, Seen>) -> Self {
        let states = States { known, unstored: BTreeSet::new() };
        Self { store, lost: false, states: Mutex::new(states), storing: Mutex::default() }
    }

    /// Reads the states that this machine has seen. Returns the table, and warnings about states
    /// that cannot be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let (mut known, mut warnings) = (BTreeMap::new(), Vec::new());
        let machine = store.machine().to_string();
        for object in store.objects()? {
            let Some(place) = place(&object.key, &machine) else { continue };
            match serde_json::from_str(&object.value) {
                Ok(seen) => {
                    known.insert(place, seen);
                }
                Err(error) => warnings.push(format!("{} cannot be read: {error}", object.key)),
            }
        }
        Ok((Self::of(store, known), warnings))
    }

    /// Notes that some of the earlier states are lost: the state file was damaged.
    pub fn set_lost(&mut self) {
        self.lost = true;
    }

    /// Returns whether a namespace without a state was certainly never served: states outlive the process, and none
    /// is lost.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.store.durable() && !self.lost
    }

    /// Returns the state of a namespace that was seen.
    #[must_use]
    pub fn get(&self, nqn: &str, nsid: u32) -> Option<Seen> {
        self.states().known.get(&(nqn.to_owned(), nsid)).cloned()
    }

    /// Returns the states of all namespaces that were seen.
    #[must_use]
    pub fn all(&self) -> Vec<(Place, Seen)> {
        let states = self.states();
        states.known.iter().map(|(place, seen)| (place.clone(), seen.clone())).collect()
    }

    /// Notes the states of namespaces. [`SeenNamespaces::keep`] stores them.
    pub fn note(&self, all: impl IntoIterator<Item = (Place, Seen)>) {
        let mut states = self.states();
        for (place, seen) in all {
            if states.known.get(&place) != Some(&seen) {
                states.unstored.insert(place.clone());
                states.known.insert(place, seen);
            }
        }
    }

    /// Forgets the namespaces of which `gone` is true, and returns their states. [`SeenNamespaces::keep`] stores this.
    pub fn forget(&self, gone: impl Fn(&Place) -> bool) -> Vec<(Place, Seen)> {
        let mut states = self.states();
        let forgotten: Vec<_> = states.known.extract_if(.., |place, _| gone(place)).collect();
        states.unstored.extend(forgotten.iter().map(|(place, _)| place.clone()));
        forgotten
    }

    /// Returns whether something is not stored.
    #[must_use]
    pub fn has_unstored(&self) -> bool {
        !self.states().unstored.is_empty()
    }

    /// Stores all unstored states in one write.
    ///
    /// # Errors
    /// The store cannot be written; the next call tries again.
    pub fn keep(&self) -> Result<(), StoreError> {
        let _one = lock(&self.storing);
        let new: BTreeMap<Place, Option<Seen>> = {
            let states = self.states();
            let places = states.unstored.iter();
            places.map(|place| (place.clone(), states.known.get(place).cloned())).collect()
        };
        let change = |(place, seen): (&Place, &Option<Seen>)| match seen {
            Some(seen) => Some(Change::Put(self.key(place), serde_json::to_string(seen).ok()?)),
            None => Some(Change::Delete(self.key(place))),
        };
        let changes: Vec<Change> = new.iter().filter_map(change).collect();
        if !changes.is_empty() {
            self.store.apply(&changes)?;
        }
        let mut states = self.states();
        let States { known, unstored } = &mut *states;
        unstored.retain(|place| new.get(place).map(Option::as_ref) != Some(known.get(place)));
        Ok(())
    }

    fn states(&self) -> MutexGuard<'_, States> {
        lock(&self.states)
    }

    fn key(&self, (nqn, nsid): &Place) -> Key {
        // NQNs contain no spaces.
        Key { kind: Kind::Seen, id: format!("{} {nqn} {nsid}", self.store.machine()) }
    }
}

/// Reads the namespace that a key names; `None` for another machine's, or another kind of object.
fn place(key: &Key, machine: &str) -> Option<Place> {
    let rest = key.id.strip_prefix(machine)?.strip_prefix(' ')?;
    let (nqn, nsid) = rest.split_once(' ')?;
    (key.kind == Kind::Seen).then_some((nqn.to_owned(), nsid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::full_store::FullStore;
    use super::*;
    use crate::control::store::{DiskStore, Live};
    use sluice_config::Config;

    const NQN: &str = "nqn.2026-01.io.x:s0";

    fn seen(size: u64) -> Seen {
        Seen {
            size,
            block_size: 4096,
            kind: "block".into(),
            path: "/dev/sdb".into(),
            device: Some("naa.5000".into()),
            uuid: Uuid::from_u128(7),
        }
    }

    #[test]
    fn what_was_seen_outlives_the_process_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        let open = || SeenNamespaces::open(Arc::new(DiskStore::open(&file).unwrap().0)).unwrap().0;
        let namespaces = open();
        assert_eq!(namespaces.get(NQN, 1), None);
        let all = [1, 2].map(|nsid| ((NQN.to_owned(), nsid), seen(u64::from(nsid) << 20)));
        namespaces.note(all);
        namespaces.note([((NQN.to_owned(), 1), seen(4 << 20))]);
        namespaces.keep().unwrap();
        drop(namespaces);
        let namespaces = open();
        assert_eq!(namespaces.get(NQN, 1), Some(seen(4 << 20)));
        assert_eq!(namespaces.get(NQN, 2), Some(seen(2 << 20)));
        let forgotten = namespaces.forget(|(nqn, nsid)| nqn == NQN && *nsid == 1);
        assert_eq!(forgotten, [((NQN.to_owned(), 1), seen(4 << 20))]);
        assert_eq!(namespaces.get(NQN, 1), None);
        namespaces.keep().unwrap();
        drop(namespaces);
        let namespaces = open();
        assert_eq!((namespaces.get(NQN, 1), namespaces.get(NQN, 2)), (None, Some(seen(2 << 20))));
    }

    #[test]
    fn what_is_known_already_is_not_written_again() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (namespaces, _) = SeenNamespaces::open(Arc::clone(&store)).unwrap();
        let one = || [((NQN.to_owned(), 1), seen(4096))];
        namespaces.note(one());
        namespaces.keep().unwrap();
        let version = |store: &dyn Store| store.objects().unwrap()[0].version;
        let before = version(store.as_ref());
        namespaces.note(one());
        namespaces.forget(|_| false);
        namespaces.keep().unwrap();
        assert_eq!(version(store.as_ref()), before);
    }

    #[test]
    fn what_cannot_be_stored_counts_all_the_same_and_is_stored_later() {
        let store = Arc::new(FullStore::default());
        let open = || SeenNamespaces::open(Arc::clone(&store) as Arc<dyn Store>).unwrap().0;
        let namespaces = open();
        let place = |nsid| (NQN.to_owned(), nsid);
        namespaces.note([(place(1), seen(1)), (place(2), seen(2))]);
        namespaces.keep().unwrap();
        assert!(!namespaces.has_unstored());
        store.set_full(true);
        namespaces.note([(place(1), seen(10)), (place(3), seen(3))]);
        namespaces.forget(|(_, nsid)| *nsid == 2);
        let all = |of: &SeenNamespaces| [1, 2, 3].map(|nsid| of.get(NQN, nsid).map(|s| s.size));
        for _ in 0..2 {
            namespaces.keep().unwrap_err();
            assert_eq!(all(&namespaces), [Some(10), None, Some(3)]);
            assert!(namespaces.has_unstored());
        }
        assert_eq!(all(&open()), [Some(1), Some(2), None], "a restart knows the earlier states");
        store.set_full(false);
        namespaces.keep().unwrap();
        assert!(!namespaces.has_unstored());
        assert_eq!(all(&open()), [Some(10), None, Some(3)]);
    }

    #[test]
    fn live_changes_and_what_was_seen_do_not_touch_each_other() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (namespaces, _) = SeenNamespaces::open(Arc::clone(&store)).unwrap();
        namespaces.note([((NQN.to_owned(), 1), seen(4096))]);
        namespaces.keep().unwrap();
        let (live, warnings) = Live::open(Config::default(), Arc::clone(&store)).unwrap();
        assert_eq!((live.current(), warnings), (&Config::default(), Vec::new()));
        drop(live);
        let (again, warnings) = SeenNamespaces::open(store).unwrap();
        assert_eq!((again.get(NQN, 1), warnings), (Some(seen(4096)), Vec::new()));
    }

    #[test]
    fn another_machines_objects_and_damaged_ones_are_left_alone() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let text = serde_json::to_string(&seen(4096)).unwrap();
        let put = |id: String, text: &str| Change::Put(Key { kind: Kind::Seen, id }, text.into());
        let changes = [
            put(format!("{} {NQN} 1", Uuid::from_u128(1)), &text),
            put(format!("{} {NQN} 2", store.machine()), "{}"),
        ];
        store.apply(&changes).unwrap();
        let (namespaces, warnings) = SeenNamespaces::open(Arc::clone(&store)).unwrap();
        assert_eq!((namespaces.get(NQN, 1), namespaces.get(NQN, 2)), (None, None));
        assert!(warnings.len() == 1 && warnings[0].contains(NQN), "{warnings:?}");
        namespaces.forget(|_| true);
        namespaces.keep().unwrap();
        assert_eq!(store.objects().unwrap().len(), 2);
    }
}
