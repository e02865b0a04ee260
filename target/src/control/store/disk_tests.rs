//! Tests that acknowledged changes survive a restart, and that a full disk and damage are errors.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;

fn key(id: &str) -> Key {
    Key { kind: Kind::Host, id: id.into() }
}

fn put(id: &str, value: &str) -> Change {
    Change::Put(key(id), value.into())
}

fn open(path: &Path) -> DiskStore {
    let (store, problems) = DiskStore::open(path).unwrap();
    assert_eq!(problems, [""; 0]);
    store
}

fn values(store: &DiskStore) -> Vec<(String, u64, String)> {
    store.objects().unwrap().into_iter().map(|o| (o.key.id, o.version, o.value)).collect()
}

#[test]
fn a_store_keeps_what_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/state.redb");
    let store = open(&path);
    let machine = store.machine();
    assert_eq!(store.apply(&[put("a", "1"), put("b", "2")]).unwrap(), 1);
    assert_eq!(store.apply(&[Change::Delete(key("a")), put("c", "3")]).unwrap(), 2);
    assert!(matches!(DiskStore::open(&path), Err(StoreError::InUse { .. })));
    drop(store);
    let store = open(&path);
    assert_eq!(values(&store), [("b".into(), 1, "2".into()), ("c".into(), 2, "3".into())]);
    assert_eq!(store.machine(), machine);
}

/// A file on a disk with little room: it may not grow above `limit`, and only `writes` more
/// writes succeed.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    file: Arc<std::fs::File>,
    limit: Arc<AtomicU64>,
    pub(super) writes: Arc<AtomicU64>,
    /// The error of a write that does not succeed.
    pub(super) refusal: io::ErrorKind,
}

impl Limited {
    pub(super) fn new() -> Self {
        let [limit, writes] = [u64::MAX; 2].map(|number| Arc::new(AtomicU64::new(number)));
        let file = Arc::new(tempfile::tempfile().unwrap());
        Self { file, limit, writes, refusal: io::ErrorKind::StorageFull }
    }

    fn spend(&self, end: u64) -> io::Result<()> {
        if end > self.limit.load(Relaxed) {
            return Err(self.refusal.into());
        }
        let left = self.writes.try_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| self.refusal.into())
    }
}

impl StorageBackend for Limited {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend(len)?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend(offset + data.len() as u64)?;
        self.file.write_all_at(data, offset)
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_store_goes_on_when_there_is_room() {
    let disk = Limited::new();
    let (opened, limit) = (disk.clone(), disk.limit.clone());
    let store = DiskStore::over("state.redb", move || Ok(opened.clone())).unwrap();
    store.apply(&[put("a", "1")]).unwrap();
    limit.store(disk.len().unwrap(), Relaxed);
    let mut refused = 0;
    for round in 1..12 {
        let before = values(&store);
        let big = "x".repeat(1000 << round);
        match store.apply(&[put("b", &big), put("a", &round.to_string())]) {
            Ok(_) => assert_eq!(values(&store)[1].2, big),
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{error}");
                assert_eq!(values(&store), before, "a refused change is not there");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    limit.store(u64::MAX, Relaxed);
    store.apply(&[put("b", "small")]).unwrap();
    assert_eq!(values(&store)[1].2, "small");
}

#[test]
fn file_that_could_not_be_filled_is_given_up_and_one_with_content_is_not() {
    let mut given_up = 0;
    for room in 0..30 {
        let disk = Limited::new();
        disk.writes.store(room, Relaxed);
        let discard = || {
            given_up += 1;
            disk.file.set_len(0).unwrap();
        };
        let is_full = open_database(disk.clone(), discard).is_err();
        disk.writes.store(u64::MAX, Relaxed);
        drop(open_database(disk.clone(), || panic!("there is room")).unwrap());
        disk.writes.store(0, Relaxed);
        assert!(open_database(disk.clone(), || panic!("it has content")).is_err() || !is_full);
    }
    assert!(given_up > 2, "{given_up}");
}

#[test]
fn a_change_is_there_whole_or_not_at_all_wherever_writing_stops() {
    for room in 0..30 {
        let disk = Limited::new();
        let (opened, writes) = (disk.clone(), disk.writes.clone());
        let store = DiskStore::over("state.redb", move || Ok(opened.clone())).unwrap();
        store.apply(&[put("a", "1"), put("b", "1")]).unwrap();
        writes.store(room, Relaxed);
        let result = store.apply(&[put("a", "2"), put("b", "2")]);
        writes.store(u64::MAX, Relaxed);
        let seen: Vec<String> = values(&store).into_iter().map(|(_, _, value)| value).collect();
        assert!(seen == ["2", "2"] || (result.is_err() && seen == ["1", "1"]), "{room}: {seen:?}");
    }
}
