//! Tests of state files with every kind of damage: the target starts, uses no data that was never written, and
//! keeps the damaged file.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use proptest::test_runner::Config as ProptestConfig;
use redb::{Database, ReadableTable, TableDefinition};

use super::tests::Limited;
use super::*;
use crate::control::store::examine::{Found, examine};

fn value(n: usize) -> String {
    format!(r#"{{"file":null,"value":"size = \"{} MiB\""}}"#, 128 + n)
}

fn fill(store: &DiskStore) {
    for n in 0..6 {
        let key = |kind| Key { kind, id: format!("nqn.2026-01.io.x:s {n}") };
        let put = Change::Put(key(Kind::Namespace), value(n));
        store.apply(&[put, Change::Put(key(Kind::Host), value(n))]).unwrap();
    }
    let seen = Key { kind: Kind::Seen, id: format!("{} nqn.2026-01.io.x:s 1", store.machine()) };
    store.apply(&[Change::Put(seen, "{}".into())]).unwrap();
    // An object that was removed must not come back.
    let gone = Key { kind: Kind::Host, id: "nqn.2026-01.io.x:s 0".into() };
    store.apply(&[Change::Delete(gone)]).unwrap();
}

fn filled_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    fill(&DiskStore::open(&path).unwrap().0);
    (folder, path)
}

/// Makes a state file: its bytes after an orderly end, and after the process was killed, and the
/// objects in it.
fn files(folder: &Path) -> ([Vec<u8>; 2], Vec<Object>) {
    let path = folder.join("first.redb");
    let (store, _) = DiskStore::open(&path).unwrap();
    fill(&store);
    let objects = store.objects().unwrap();
    let killed = std::fs::read(&path).unwrap();
    drop(store);
    ([std::fs::read(&path).unwrap(), killed], objects)
}

/// Returns the places in a file that are not empty.
fn filled(bytes: &[u8]) -> Vec<usize> {
    let sector = |n: &usize| bytes[n * 512..bytes.len().min(n * 512 + 512)].iter().any(|b| *b != 0);
    (0..bytes.len() / 512).filter(sector).collect()
}

fn damage(bytes: &mut Vec<u8>, sectors: &[usize], random: &mut Rng) {
    let sector = |random: &mut Rng| sectors[random.usize(..sectors.len())] * 512;
    match random.usize(..6) {
        // Bits flip, most of them in places that are not empty.
        0 => {
            for _ in 0..=random.usize(..4) {
                let at = sector(random) + random.usize(..512);
                bytes[at] ^= 1 << random.usize(..8);
            }
        }
        // The first sector has the places of everything else.
        1 => {
            for _ in 0..=random.usize(..3) {
                let at = random.usize(..320);
                bytes[at] ^= 1 << random.usize(..8);
            }
        }
        // Sectors or pages that were never written.
        2 => {
            let (at, length) = (sector(random), [512, 4096][random.usize(..2)]);
            let end = bytes.len().min(at + length);
            bytes[at..end].fill(0);
        }
        // The end of the file is missing, mostly more than free space.
        3 => {
            let reach = [64, 8192, bytes.len()][random.usize(..3)];
            bytes.truncate(random.usize(..reach));
        }
        // Blocks that were written to each other's place.
        4 => {
            let length = [512, 4096][random.usize(..2)];
            let a = sector(random) / length * length;
            let b = sector(random) / length * length;
            for i in 0..length {
                bytes.swap(a + i, b + i);
            }
        }
        // Another file's bytes.
        _ => {
            let at = sector(random);
            for i in 0..random.usize(..512) {
                bytes[at + i] = random.u8(..);
            }
        }
    }
}

/// Returns the files beside a state file that were kept.
fn kept(path: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|other| other.to_string_lossy().contains("state.redb.damaged-")).collect()
}

/// Examines every damage, and uses some of the files as well, which writes to the disk.
#[test]
fn nothing_that_was_not_written_is_believed_whatever_happens_to_the_file() {
    let rounds = 10 * usize::try_from(ProptestConfig::default().cases).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (files, written) = files(folder.path());
    let path = folder.path().join("state.redb");
    let random = &mut Rng::with_seed(0x5eed_0001);
    let (mut whole, mut lost, mut used) = (0, 0, 0);
    for round in 0..rounds {
        let mut bytes = files[round % 2].clone();
        let sectors = filled(&bytes);
        damage(&mut bytes, &sectors, random);
        std::fs::write(&path, &bytes).unwrap();
        let found = examine(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(std::fs::read(&path).unwrap() == bytes, "round {round}: looking changes nothing");
        let believed = match found {
            Found::Nothing => panic!("round {round}: it is there"),
            Found::Sound(content) => Some(content),
            Found::Damaged { content, whole: true, .. } => Some(content),
            Found::Damaged { .. } => None,
        };
        if let Some(content) = &believed {
            assert_eq!(content.wrong, [], "round {round}");
            assert!(known(content.clone()) == written, "round {round}: {content:?}");
            whole += 1;
        } else {
            lost += 1;
        }
        if round % 20 == 0 {
            use_it(&path, &bytes, believed.is_some(), &written, round);
            used += 1;
        }
    }
    // Both results occur among the damages.
    assert!(
        whole > rounds / 20 && lost > rounds / 20 && used == rounds / 20,
        "{whole} {lost} {used}"
    );
}

/// Checks that a file which was closed in order loses objects only by damage to the pages that hold
/// them.
#[test]
fn damage_beside_the_objects_loses_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let ([file, _], written) = files(folder.path());
    let path = folder.path().join("state.redb");
    let (mut repaired, mut lost) = (0, 0);
    for page in (1..file.len() / 4096).filter(|n| file[n * 4096] != 0) {
        let mut bytes = file.clone();
        bytes[page * 4096..page * 4096 + 4].fill(0xff);
        std::fs::write(&path, &bytes).unwrap();
        match examine(&path).unwrap() {
            Found::Damaged { whole: true, content, .. } => {
                assert!(known(content) == written, "page {page}");
                repaired += 1;
            }
            Found::Damaged { .. } => lost += 1,
            // The page is not used any more.
            found => assert!(matches!(found, Found::Sound(_)), "page {page}: {found:?}"),
        }
    }
    assert!(repaired > lost && lost > 0, "{repaired} {lost}");
}

/// Starts on a damaged file, changes something and starts again.
fn use_it(path: &Path, bytes: &[u8], believed: bool, written: &[Object], round: usize) {
    let (store, problems) = DiskStore::open(path).unwrap();
    let before = store.objects().unwrap();
    if believed {
        assert!(before == written, "round {round}: {problems:?}");
    } else {
        let of_seen = |o: &&Object| o.key.kind == Kind::Seen;
        assert!(before.iter().all(|o| of_seen(&o) && written.contains(o)), "round {round}");
    }
    match &kept(path)[..] {
        [] => assert!(believed && problems.is_empty(), "round {round}: {problems:?}"),
        [aside] => {
            assert!(std::fs::read(aside).unwrap() == bytes, "round {round}: kept as it was");
            let [problem] = &problems[..] else { panic!("round {round}: {problems:?}") };
            assert!(problem.contains(&path.display().to_string()), "{problem}");
            assert!(problem.contains(&aside.display().to_string()), "{problem}");
            std::fs::remove_file(aside).unwrap();
        }
        more => panic!("round {round}: {more:?}"),
    }
    let key = Key { kind: Kind::Listener, id: "after".into() };
    store.apply(&[Change::Put(key.clone(), "1".into())]).unwrap();
    let (machine, after) = (store.machine(), store.objects().unwrap());
    assert_eq!(after.len(), before.len() + 1);
    drop(store);
    let (again, problems) = DiskStore::open(path).unwrap();
    assert_eq!(problems, [""; 0], "round {round}");
    assert!(again.objects().unwrap() == after && again.machine() == machine, "round {round}");
}

#[test]
fn every_length_that_a_file_can_be_cut_to_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let (files, written) = files(folder.path());
    let path = folder.path().join("state.redb");
    let cuts = (0..400).chain((400..files[0].len()).step_by(8191));
    for (index, cut) in cuts.enumerate() {
        let bytes = &files[index % 2][..cut];
        std::fs::write(&path, bytes).unwrap();
        match examine(&path).unwrap() {
            Found::Damaged { whole: false, .. } => {}
            Found::Damaged { content, .. } | Found::Sound(content) => {
                assert!(known(content) == written, "{cut}");
            }
            Found::Nothing => panic!("{cut}"),
        }
    }
}

const TABLE: TableDefinition<'_, (&str, &str), (u64, u64, &str)> =
    TableDefinition::new("sluicegate.objects.2");

/// Writes into an object without the store's knowledge.
fn falsify(path: &Path, id: &str, text: &str) {
    let database = Database::open(path).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut table = write.open_table(TABLE).unwrap();
        let (version, sum, _) = table.get(("namespace", id)).unwrap().unwrap().value();
        table.insert(("namespace", id), (version, sum, text)).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_flipped_digit_in_a_sound_database_is_left_out_by_its_name() {
    let (_folder, path) = filled_file();
    let id = "nqn.2026-01.io.x:s 2";
    falsify(&path, id, &value(2).replace("130 MiB", "930 MiB"));
    let before = std::fs::read(&path).unwrap();
    let (store, problems) = DiskStore::open(&path).unwrap();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(
        problem.contains("namespace nqn.2026-01.io.x:s 2 is not as it was written"),
        "{problem}"
    );
    let [aside] = &kept(&path)[..] else { panic!("{problem}") };
    assert!(problem.contains(&aside.display().to_string()), "{problem}");
    assert!(std::fs::read(aside).unwrap() == before);
    let objects = store.objects().unwrap();
    assert_eq!(objects.len(), 11);
    assert!(objects.iter().all(|object| object.key.kind != Kind::Namespace || object.key.id != id));
    drop(store);
    let (_, problems) = DiskStore::open(&path).unwrap();
    assert_eq!(problems, [""; 0], "it is told once");
}

#[test]
fn a_file_of_the_first_version_is_taken_and_has_checksums_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    std::fs::write(&path, include_bytes!("formats/1.redb")).unwrap();
    for _ in 0..2 {
        let (store, problems) = DiskStore::open(&path).unwrap();
        assert_eq!((store.machine(), problems), (Uuid::from_u128(7), Vec::new()));
        let objects = store.objects().unwrap();
        let host = objects.iter().find(|object| object.key.kind == Kind::Host).unwrap();
        let allowed = r#"{"file":null,"value":"allowed"}"#;
        assert_eq!((objects.len(), host.version, host.value.as_str()), (6, 3, allowed));
    }
    falsify(&path, "nqn.2026-01.io.x:s 7", "b value");
    let (store, problems) = DiskStore::open(&path).unwrap();
    assert_eq!((store.objects().unwrap().len(), problems.len()), (5, 1));
    assert_eq!(store.apply(&[]).unwrap(), 7, "revisions go on");
}

#[test]
fn a_file_that_was_set_aside_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    for n in 0..5 {
        std::fs::write(&path, format!("redb\x1a\x0a, damaged {n}")).unwrap();
        let (_, problems) = DiskStore::open(&path).unwrap();
        assert_eq!((problems.len(), kept(&path).len()), (1, n + 1));
    }
}

#[test]
fn a_file_of_somebody_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fstab");
    let long = "UUID=1234 / ext4 defaults 0 1\n".repeat(200_000);
    for text in ["my shopping list", "\0\0\0\0 is how it begins", long.as_str()] {
        std::fs::write(&path, text).unwrap();
        let error = DiskStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let error = DiskStore::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
}

#[test]
fn what_was_seen_of_namespaces_outlives_damage_of_live_changes() {
    let (_folder, path) = filled_file();
    let Found::Sound(content) = examine(&path).unwrap() else { panic!("it is sound") };
    let mut problems = Vec::new();
    let (left, usable) = put_away(&path, "a test", content, false, &mut problems);
    assert!(usable && left.machine.is_some());
    assert_eq!(left.objects.len(), 1, "{left:?}");
    assert!(
        problems[0].contains("live changes are lost, among them changes of host"),
        "{problems:?}"
    );
    assert!(!problems[0].contains("seen"), "{problems:?}");
}

#[test]
fn what_cannot_be_written_at_the_start_is_served_and_changes_are_refused() {
    let (_folder, path) = filled_file();
    let Found::Sound(content) = examine(&path).unwrap() else { panic!("it is sound") };
    let mut disk = Limited::new();
    disk.refusal = ErrorKind::ReadOnlyFilesystem;
    disk.writes.store(0, Relaxed);
    let create = move || Database::builder().create_with_backend(disk.clone());
    let opener = Box::new(move || create().map_err(RedbError::from));
    let mut problems = Vec::new();
    let store =
        DiskStore::with_opener("state".into(), opener, content.clone(), &mut problems).unwrap();
    assert!(problems.len() == 1 && problems[0].contains("cannot be written"), "{problems:?}");
    assert_eq!(store.objects().unwrap(), known(content));
    let key = Key { kind: Kind::Host, id: "a".into() };
    let refused = store.apply(&[Change::Put(key, "1".into())]).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused}");
}
