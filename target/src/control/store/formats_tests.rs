//! Tests of upgrades and downgrades: state files of every format, and files of formats to come.
//!
//! `formats/N.redb` is a state file of format N. Those from format 4 on were written by daemons of these formats, those
//! before by a test with their content (`git show 1e5deebd:target/src/control/store/formats_tests.rs`). Before raising
//! [`FORMAT`], keep a file that a daemon of the present format has written.

use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use redb::{MultimapTableDefinition, TableDefinition};
use sluice_config::testing::{parse, rates};
use sluice_config::{Backend, derived_serial, derived_uuid};

use super::*;
use crate::control::store::earlier::latest_copy;
use crate::control::store::examine::{Found, examine};
use crate::control::store::{Identities, Live};

const NQN: &str = "nqn.2026-01.io.x:s";
const LIVE: &str = "nqn.2026-01.io.x:t";
/// The machine of the files of formats 1 to 3.
const MACHINE_1: Uuid = Uuid::from_u128(7);
/// The configuration file of the daemons that wrote the files.
const FILE: &str = r#"
[[subsystem]]
nqn = "nqn.2026-01.io.x:s"
hosts = ["nqn.2026-01.io.x:h0"]
[[subsystem.namespace]]
nsid = 1
backend = "memory"
size = "1 MiB"
[[subsystem.namespace]]
nsid = 2
backend = "null"
size = "8 KiB"
"#;

/// Writes one of the store's own values as formats 2 to 4 have it.
fn put_value(write: &redb::WriteTransaction, name: &str, value: u128) {
    const VALUES: TableDefinition<'_, &str, (u128, u64)> =
        TableDefinition::new("sluicegate.meta.2");
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(name.as_bytes());
    digest.update(&value.to_le_bytes());
    let sum = digest.finalize();
    write.open_table(VALUES).unwrap().insert(name, (value, sum)).unwrap();
}

/// Puts the kept file of a format into a folder as `state`. Returns its path and its bytes.
fn placed(folder: &tempfile::TempDir, format: u64) -> (PathBuf, Vec<u8>) {
    let file = format!("src/control/store/formats/{format}.redb");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let bytes = std::fs::read(&file).unwrap_or_else(|error| {
        panic!("{}: {error}: keep a state file of format {format}", file.display())
    });
    let path = folder.path().join("state");
    std::fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

/// Opens a state file without a problem.
fn opened(path: &Path) -> DiskStore {
    let (store, problems) = DiskStore::open(path).unwrap();
    assert_eq!(problems, [""; 0], "{}", path.display());
    store
}

/// Returns the names of all files in a folder.
fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_format_is_opened_with_all_live_changes() {
    for format in 1..=FORMAT {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(opened(&placed(&folder, format).0));
        let (live, warnings) = Live::open(parse(FILE).unwrap(), Arc::clone(&store)).unwrap();
        assert!(warnings.iter().all(|line| !line.contains("dropped")), "{format}: {warnings:?}");
        let config = live.current();
        let [first, second] = &config.subsystems[..] else { panic!("format {format}: {config:?}") };
        let nsids: Vec<u32> = first.namespaces.iter().map(|namespace| namespace.id()).collect();
        assert_eq!(nsids, if format < 4 { vec![1, 7] } else { vec![1, 7, 9] }, "format {format}");
        let added = &first.namespaces[1];
        let Backend::Null { size, block_size, .. } = added.backend else { panic!("{added:?}") };
        assert_eq!((size, block_size, added.uuid), (4608, 512, None), "format {format}");
        // The NGUID of namespace 2, which was removed, differs from its NGUID derived since.
        assert_eq!(added.nguid, None, "format {format}");
        let hosts: Vec<&str> = first.hosts.iter().map(|host| host.nqn.as_str()).collect();
        let all = ["nqn.2026-01.io.x:h0", "nqn.2026-01.io.x:h1", "nqn.2026-01.io.x:h2"];
        assert_eq!(hosts, all[..if format < 3 { 2 } else { 3 }], "format {format}");
        assert_eq!(first.hosts.last().unwrap().sources.is_any(), format < 3, "format {format}");
        assert_eq!((second.nqn.as_str(), second.namespaces.len()), (LIVE, 1), "format {format}");
        let [session] = &config.qos.sessions[..] else { panic!("format {format}") };
        assert_eq!(session.limits.total, rates(None, Some(100 << 20)), "format {format}");
        let weight = (format >= 6).then_some(300);
        assert_eq!(session.weight, weight, "format {format}");
        let profiles: Vec<&str> = config.qos.profiles.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(profiles, if format < 6 { vec![] } else { vec!["gold"] }, "format {format}");
        assert!(store.objects().unwrap().iter().any(|object| object.key.kind == Kind::Seen));
    }
}

#[test]
fn namespaces_keep_their_identities_at_an_upgrade() {
    for format in 1..=FORMAT {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(opened(&placed(&folder, format).0));
        let (identities, warnings) = Identities::open(Arc::clone(&store)).unwrap();
        assert_eq!(warnings, [""; 0], "format {format}");
        let known = identities.uuid(NQN, 7, "null");
        let uuid = known.unwrap_or_else(|| identities.new_uuid(NQN, 7, true).unwrap());
        let serial = identities.serial(NQN, true).unwrap();
        if format < 4 {
            assert_eq!((uuid, serial), (derived_uuid(NQN, 7), derived_serial(NQN)), "{format}");
            assert_eq!(store.machine(), MACHINE_1);
        } else {
            assert_eq!(uuid.to_string(), "5d3b1458-b2a5-4a3a-80cf-835784da5bcc", "{format}");
            assert_eq!(serial, "28bdfa6245134aa4b52d", "{format}");
        }
    }
}

#[test]
fn a_file_of_an_earlier_format_is_copied_before_the_first_write() {
    for format in 1..=FORMAT {
        let folder = tempfile::tempdir().unwrap();
        let (path, before) = placed(&folder, format);
        let store = opened(&path);
        store.apply(&[]).unwrap();
        let objects = store.objects().unwrap();
        drop(store);
        let store = opened(&path);
        assert_eq!(store.objects().unwrap(), objects, "format {format}");
        drop(store);
        let Found::Sound(content) = examine(&path).unwrap() else { panic!("format {format}") };
        assert_eq!(content.format, FORMAT);
        if format == FORMAT {
            assert_eq!(names(&folder), ["state"]);
            continue;
        }
        let copy = format!("state.format-{format}");
        assert_eq!(names(&folder), ["state", copy.as_str()]);
        assert!(std::fs::read(folder.path().join(&copy)).unwrap() == before, "format {format}");
        // Back, and another upgrade: the copy is the same. A later state has a copy of its own.
        std::fs::write(&path, &before).unwrap();
        DiskStore::open(&path).unwrap();
        assert_eq!(names(&folder), ["state", copy.as_str()]);
        std::fs::write(folder.path().join(&copy), "another one").unwrap();
        std::fs::write(&path, &before).unwrap();
        DiskStore::open(&path).unwrap();
        assert_eq!(names(&folder), ["state", copy.as_str(), format!("{copy}.2").as_str()]);
        // The copy that is made again is the latest.
        let again = folder.path().join(format!("{copy}.2"));
        let file = std::fs::File::options().append(true).open(&again).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_ne!(latest_copy(&path, format), Some(again.clone()));
        std::fs::write(&path, &before).unwrap();
        DiskStore::open(&path).unwrap();
        assert_eq!(latest_copy(&path, format), Some(again));
    }
}

#[test]
fn a_file_that_cannot_be_copied_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (path, before) = placed(&folder, 3);
    // In the place of the unfinished copy.
    std::fs::create_dir(folder.path().join("state.part")).unwrap();
    let (store, problems) = DiskStore::open(&path).unwrap();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(problem.contains("it has format 3, and no copy"), "{problem}");
    assert_eq!(store.objects().unwrap().len(), 8);
    assert!(matches!(store.apply(&[]), Err(StoreError::ReadOnly { .. })));
    assert!(std::fs::read(&path).unwrap() == before);
    std::fs::remove_dir(folder.path().join("state.part")).unwrap();
    store.apply(&[]).unwrap();
    assert!(std::fs::read(folder.path().join("state.format-3")).unwrap() == before);
}

/// Changes the kept file of the present format, and checks that it is refused and left as it is.
fn is_refused(format: u64, change: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = placed(&folder, FORMAT);
    change(&path);
    let before = std::fs::read(&path).unwrap();
    let refused = || match DiskStore::open(&path) {
        Err(StoreError::Later { format: of, .. }) if of != format => panic!("format {of}"),
        Err(error @ StoreError::Later { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let message = refused();
    assert!(message.contains("move the file away"), "{message}");
    for (name, age) in [("state.format-3", 20), ("state.format-4", 10), ("state.format-99", 0)] {
        let copy = std::fs::File::create(folder.path().join(name)).unwrap();
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        copy.set_modified(then).unwrap();
    }
    let (file, message) = (path.display(), refused());
    let remedy = format!("mv {file} {file}.format-{format} && cp -p {file}.format-4 {file}");
    assert!(message.contains(&remedy), "{message}");
    assert!(std::fs::read(&path).unwrap() == before, "it is left as it is");
    assert_eq!(names(&folder).len(), 4);
}

#[test]
fn a_file_of_a_format_to_come_is_refused_and_left_as_it_is() {
    const TABLE: TableDefinition<'_, &str, u64> = TableDefinition::new("sluicegate.objects.7");
    const MANY: MultimapTableDefinition<'_, &str, u64> =
        MultimapTableDefinition::new("sluicegate.paths.8");
    const OTHER: TableDefinition<'_, &str, &str> = TableDefinition::new("sluicegate.meta.2");
    const OBJECTS: TableDefinition<'_, (&str, &str), (u64, u64, &str)> =
        TableDefinition::new("sluicegate.objects.2");
    let edit = |path: &Path, change: &dyn Fn(&redb::WriteTransaction)| {
        let database = Database::create(path).unwrap();
        let write = database.begin_write().unwrap();
        change(&write);
        write.commit().unwrap();
    };
    is_refused(9, |path| edit(path, &|write| put_value(write, "format", 9)));
    is_refused(7, |path| edit(path, &|write| drop(write.open_table(TABLE).unwrap())));
    is_refused(8, |path| edit(path, &|write| drop(write.open_multimap_table(MANY).unwrap())));
    // A file without any table of today.
    is_refused(7, |path| {
        std::fs::remove_file(path).unwrap();
        edit(path, &|write| drop(write.open_table(TABLE).unwrap()));
    });
    is_refused(FORMAT + 1, |path| {
        std::fs::remove_file(path).unwrap();
        edit(path, &|write| {
            write.open_table(OTHER).unwrap();
            write.open_table(OBJECTS).unwrap();
        });
    });
    // A later version of the database library.
    is_refused(FORMAT + 1, |path| {
        let mut bytes = std::fs::read(path).unwrap();
        assert_eq!((bytes[64], bytes[192]), (3, 3));
        (bytes[64], bytes[192]) = (4, 4);
        std::fs::write(path, bytes).unwrap();
    });
}

#[test]
fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    const OTHER: TableDefinition<'_, &str, &str> = TableDefinition::new("customers");
    const OBJECTS: TableDefinition<'_, &str, &str> = TableDefinition::new("objects");
    for table in [OTHER, OBJECTS] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        {
            let database = Database::create(&path).unwrap();
            let write = database.begin_write().unwrap();
            write.open_table(table).unwrap().insert("a", "b").unwrap();
            write.commit().unwrap();
        }
        let before = std::fs::read(&path).unwrap();
        let error = DiskStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        assert!(std::fs::read(&path).unwrap() == before);
        assert_eq!(names(&folder), ["state"]);
    }
}
