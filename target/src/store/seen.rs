//! The state of each namespace's file or device when it was open last, so that a missing file, a
//! smaller device and another device are noticed, instead of served as the disk that hosts know.
//!
//! The store keeps these states beside the live changes. They are not part of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Change, Key, Kind, MemoryStore, Store, StoreError};
use crate::sync::lock;

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

/// The states of all namespaces that were seen.
#[derive(Debug)]
pub struct SeenNamespaces {
    store: Arc<dyn Store>,
    /// Whether some of the earlier states are lost.
    lost: bool,
    /// The states in the store.
    known: Mutex<BTreeMap<Place, Seen>>,
}

impl Default for SeenNamespaces {
    /// Makes an empty table, whose states end with the process.
    fn default() -> Self {
        Self { store: Arc::new(MemoryStore::default()), lost: false, known: Mutex::default() }
    }
}

impl SeenNamespaces {
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
        Ok((Self { store, lost: false, known: Mutex::new(known) }, warnings))
    }

    /// Notes that some of the earlier states are lost: the state file was damaged.
    pub fn set_lost(&mut self) {
        self.lost = true;
    }

    /// Says whether a namespace without a state was certainly never served: states outlive the
    /// process, and none is lost.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.store.durable() && !self.lost
    }

    /// Returns the state of a namespace that was seen.
    #[must_use]
    pub fn get(&self, nqn: &str, nsid: u32) -> Option<Seen> {
        self.known().get(&(nqn.to_owned(), nsid)).cloned()
    }

    /// Returns the states of the namespaces of which `wanted` is true.
    pub fn matching(&self, wanted: impl Fn(&Place) -> bool) -> Vec<(Place, Seen)> {
        let known = self.known();
        let matching = known.iter().filter(|(place, _)| wanted(place));
        matching.map(|(place, seen)| (place.clone(), seen.clone())).collect()
    }

    /// Keeps the states of namespaces, all in one write, and without a write where nothing is new.
    ///
    /// # Errors
    /// The store cannot be written; it is unchanged.
    pub fn note(&self, all: Vec<(Place, Seen)>) -> Result<(), StoreError> {
        let mut known = self.known();
        let fresh: Vec<_> =
            all.into_iter().filter(|(place, seen)| known.get(place) != Some(seen)).collect();
        let mut changes = Vec::new();
        for (place, seen) in &fresh {
            if let Ok(text) = serde_json::to_string(seen) {
                changes.push(Change::Put(self.key(place), text));
            }
        }
        self.apply(&changes)?;
        known.extend(fresh);
        Ok(())
    }

    /// Forgets the namespaces of which `gone` is true, all in one write.
    ///
    /// # Errors
    /// The store cannot be written; it is unchanged.
    pub fn forget(&self, gone: impl Fn(&Place) -> bool) -> Result<(), StoreError> {
        let mut known = self.known();
        let changes: Vec<_> = known
            .keys()
            .filter(|place| gone(place))
            .map(|place| Change::Delete(self.key(place)))
            .collect();
        self.apply(&changes)?;
        known.retain(|place, _| !gone(place));
        Ok(())
    }

    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        match changes {
            [] => Ok(()),
            changes => self.store.apply(changes).map(drop),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Place, Seen>> {
        lock(&self.known)
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
    use super::super::{DiskStore, Live};
    use super::*;
    use crate::config::Config;

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
        namespaces.note(all.to_vec()).unwrap();
        namespaces.note(vec![((NQN.to_owned(), 1), seen(4 << 20))]).unwrap();
        drop(namespaces);
        let namespaces = open();
        assert_eq!(namespaces.get(NQN, 1), Some(seen(4 << 20)));
        assert_eq!(namespaces.get(NQN, 2), Some(seen(2 << 20)));
        namespaces.forget(|(nqn, nsid)| nqn == NQN && *nsid == 1).unwrap();
        assert_eq!(namespaces.get(NQN, 1), None);
        drop(namespaces);
        let namespaces = open();
        assert_eq!((namespaces.get(NQN, 1), namespaces.get(NQN, 2)), (None, Some(seen(2 << 20))));
    }

    #[test]
    fn what_is_known_already_is_not_written_again() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (namespaces, _) = SeenNamespaces::open(Arc::clone(&store)).unwrap();
        let one = || vec![((NQN.to_owned(), 1), seen(4096))];
        namespaces.note(one()).unwrap();
        let version = |store: &dyn Store| store.objects().unwrap()[0].version;
        let before = version(store.as_ref());
        namespaces.note(one()).unwrap();
        namespaces.forget(|_| false).unwrap();
        assert_eq!(version(store.as_ref()), before);
    }

    #[test]
    fn live_changes_and_what_was_seen_do_not_touch_each_other() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (namespaces, _) = SeenNamespaces::open(Arc::clone(&store)).unwrap();
        namespaces.note(vec![((NQN.to_owned(), 1), seen(4096))]).unwrap();
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
        namespaces.forget(|_| true).unwrap();
        assert_eq!(store.objects().unwrap().len(), 2);
    }
}
