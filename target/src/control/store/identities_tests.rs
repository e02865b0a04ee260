//! Tests of identities: they belong to data, and outlive the process where there is a state file.

use std::path::{Path, PathBuf};

use redb::{Database, TableDefinition};
use sluice_config::testing::parse;

use super::super::DiskStore;
use super::super::full_store::FullStore;
use super::*;

const NQN: &str = "nqn.2026-01.io.x:s0";
const DATA: &str = "file /srv/a";

/// A state file, with the identities in it.
struct StateFile(tempfile::TempDir);

impl StateFile {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn open(&self) -> Identities {
        let store: Arc<dyn Store> = Arc::new(DiskStore::open(&self.path()).unwrap().0);
        let (identities, warnings) = Identities::open(store).unwrap();
        assert_eq!(warnings, [""; 0]);
        identities
    }

    /// Restarts the daemon after it has stored all.
    fn restart(&self, identities: Identities) -> Identities {
        identities.keep().unwrap();
        drop(identities);
        self.open()
    }
}

/// Returns whether a disk replaces another one, if no host has identified any.
fn replaces(identities: &Identities, nsid: u32, uuid: Uuid) -> bool {
    identities.replaces(NQN, nsid, uuid, |_| false)
}

fn set_uuid(identities: &Identities, nsid: u32, data: &str, uuid: Uuid, origin: Option<String>) {
    let replaces = replaces(identities, nsid, uuid);
    identities.set_uuid((NQN, nsid), data, (uuid, replaces), origin);
}

/// Makes the identities of a namespace and its subsystem, as a daemon does that starts with them.
fn serve(identities: &Identities, data: &str, at_start: bool) -> (Uuid, String) {
    let known = identities.uuid(NQN, 1, data);
    let uuid = known.unwrap_or_else(|| identities.new_uuid(NQN, 1, at_start).unwrap());
    let serial = identities.serial(NQN, at_start).unwrap();
    set_uuid(identities, 1, data, uuid, None);
    identities.set_serial(NQN, &serial);
    identities.keep().unwrap();
    (uuid, serial)
}

fn config(path: &str) -> Config {
    parse(&format!(
        "[[subsystem]]\nnqn = \"{NQN}\"\n[[subsystem.namespace]]\nbackend = \"file\"\npath = \"{path}\"\n"
    ))
    .unwrap()
}

#[test]
fn an_identity_outlives_a_restart_and_no_removal() {
    let file = StateFile::new();
    let first = serve(&file.open(), DATA, true);
    assert_ne!(first, (derived_uuid(NQN, 1), derived_serial(NQN)), "random in a new state file");
    let identities = file.open();
    assert_eq!(serve(&identities, DATA, true), first);
    identities.forget_others(&config("/srv/a"));
    assert_eq!(identities.uuid(NQN, 1, DATA), Some(first.0), "it is still there");
    assert!(!replaces(&identities, 1, first.0));
    identities.forget_namespace(NQN, 1, false);
    let second = serve(&identities, DATA, false);
    assert!(replaces(&identities, 1, second.0), "hosts may know the first by this NSID");
    assert!(second.0 != first.0 && second.1 == first.1, "another disk in the same subsystem");
    identities.forget_subsystem(NQN, false);
    let third = serve(&identities, DATA, false);
    assert!(third.0 != second.0 && third.1 != second.1, "another subsystem");
    drop(identities);
    // A removal that the daemon did not live to complete.
    let identities = file.open();
    assert!(replaces(&identities, 1, third.0), "nor does a restart change what hosts know");
    identities.forget_others(&Config::default());
    let fourth = serve(&identities, DATA, true);
    assert!(fourth.0 != third.0 && fourth.1 != third.1);
}

#[test]
fn other_data_in_the_same_place_has_another_identity_until_the_change_is_undone() {
    let file = StateFile::new();
    let identities = file.open();
    let (uuid, _) = serve(&identities, DATA, true);
    let (other, _) = serve(&identities, "file /srv/b", false);
    assert_ne!(other, uuid);
    assert_eq!(serve(&identities, DATA, false).0, uuid, "the change is undone");
    serve(&identities, "file /srv/b", false);
    identities.forget_others(&config("/srv/b"));
    assert_eq!(identities.uuid(NQN, 1, DATA), None, "the change is complete");
    drop(identities);
    assert_eq!(file.open().uuid(NQN, 1, DATA), None);
    assert!(file.open().uuid(NQN, 1, "file /srv/b").is_some());
}

#[test]
fn a_namespace_that_could_not_be_kept_was_never_there() {
    let identities = Identities::default();
    let (uuid, _) = serve(&identities, DATA, true);
    set_uuid(&identities, 1, "file /srv/b", Uuid::from_u128(1), None);
    identities.discard(NQN, 1);
    assert_eq!(identities.uuid(NQN, 1, DATA), Some(uuid));
    set_uuid(&identities, 2, DATA, Uuid::from_u128(2), None);
    identities.discard(NQN, 2);
    assert_eq!(identities.uuid(NQN, 2, DATA), None);
    assert_eq!(identities.removed_nsids(NQN), BTreeSet::new());
}

#[test]
fn namespace_that_could_not_be_kept_leaves_unstored_identities_as_they_were() {
    let store = Arc::new(FullStore::default());
    let open = || Identities::open(Arc::clone(&store) as Arc<dyn Store>).unwrap().0;
    let identities = open();
    let (uuid, _) = serve(&identities, DATA, true);
    identities.forget_namespace(NQN, 2, false);
    set_uuid(&identities, 3, DATA, Uuid::from_u128(3), None);
    identities.forget_namespace(NQN, 3, false);
    store.set_full(true);
    identities.keep().unwrap_err();
    // A change that cannot be kept: the same disk with other settings, another disk, and one under a used NSID.
    set_uuid(&identities, 1, DATA, uuid, None);
    identities.keep().unwrap_err();
    identities.discard(NQN, 1);
    assert_eq!(identities.uuid(NQN, 1, DATA), Some(uuid), "it is the same disk");
    for nsid in [1, 2, 3] {
        set_uuid(&identities, nsid, "file /srv/b", Uuid::from_u128(9), None);
        identities.keep().unwrap_err();
        identities.discard(NQN, nsid);
    }
    assert!(identities.has_unstored());
    store.set_full(false);
    identities.keep().unwrap();
    assert!(!identities.has_unstored());
    for identities in [identities, open()] {
        assert_eq!(identities.uuid(NQN, 1, DATA), Some(uuid));
        assert_eq!([2, 3].map(|nsid| identities.uuid(NQN, nsid, "file /srv/b")), [None; 2]);
        assert_eq!(identities.removed_nsids(NQN), BTreeSet::from([3]));
    }
}

#[test]
fn nsid_of_a_removed_namespace_stays_known_where_the_next_one_could_not_be_kept() {
    let identities = Identities::default();
    serve(&identities, DATA, true);
    identities.forget_namespace(NQN, 1, false);
    identities.keep().unwrap();
    set_uuid(&identities, 1, "file /srv/b", Uuid::from_u128(1), None);
    identities.discard(NQN, 1);
    assert_eq!(identities.removed_nsids(NQN), BTreeSet::from([1]));
    assert!(replaces(&identities, 1, Uuid::from_u128(2)), "hosts may know the first disk");
}

#[test]
fn a_disk_that_a_revert_brings_back_replaces_the_one_that_had_its_nsid_meanwhile() {
    let identities = Identities::default();
    let (first, _) = serve(&identities, DATA, true);
    identities.forget_namespace(NQN, 1, true);
    set_uuid(&identities, 1, "file /srv/b", Uuid::from_u128(1), None);
    identities.forget_namespace(NQN, 1, true);
    identities.restore_removed();
    assert_eq!(identities.uuid(NQN, 1, DATA), Some(first));
    assert!(replaces(&identities, 1, first));
}

#[test]
fn nsids_of_removed_namespaces_are_not_given_again_while_their_subsystem_is_there() {
    let file = StateFile::new();
    let identities = file.open();
    serve(&identities, DATA, true);
    set_uuid(&identities, 7, DATA, Uuid::from_u128(7), None);
    identities.forget_namespace(NQN, 7, false);
    let identities = file.restart(identities);
    assert_eq!(identities.removed_nsids(NQN), BTreeSet::from([7]));
    assert_eq!(identities.uuid(NQN, 7, DATA), None);
    identities.forget_others(&config("/srv/a"));
    assert_eq!(identities.removed_nsids(NQN), BTreeSet::from([7]));
    identities.forget_subsystem(NQN, false);
    assert_eq!(file.restart(identities).removed_nsids(NQN), BTreeSet::new());
}

#[test]
fn without_a_state_file_only_a_subsystem_that_was_removed_has_another_serial_number() {
    let identities = Identities::default();
    let (_, serial) = serve(&identities, DATA, true);
    assert_eq!(serial, derived_serial(NQN), "the same after a restart");
    identities.forget_subsystem(NQN, false);
    let (_, again) = serve(&identities, DATA, false);
    assert_ne!(again, serial);
    assert_eq!(again.len(), 20);
}

/// Makes a state file of a daemon that derived all identities: one without the mark.
fn without_identities(path: &Path) {
    const META: TableDefinition<'_, &str, (u128, u64)> = TableDefinition::new("sluicegate.meta.2");
    drop(DiskStore::open(path).unwrap());
    let database = Database::open(path).unwrap();
    let write = database.begin_write().unwrap();
    assert!(write.open_table(META).unwrap().remove("identities").unwrap().is_some());
    write.commit().unwrap();
}

#[test]
fn a_state_file_without_identities_takes_those_in_use() {
    let file = StateFile::new();
    without_identities(&file.path());
    let identities = file.open();
    let derived = (derived_uuid(NQN, 1), derived_serial(NQN));
    // A namespace that is added now is new.
    assert_ne!(identities.new_uuid(NQN, 2, false).unwrap(), derived_uuid(NQN, 2));
    assert_eq!(serve(&identities, DATA, true), derived);
    drop(identities);
    let identities = file.open();
    assert_eq!(serve(&identities, DATA, true), derived, "they are kept");
    assert_ne!(identities.new_uuid(NQN, 2, true).unwrap(), derived_uuid(NQN, 2), "new");
    identities.forget_namespace(NQN, 1, false);
    assert_ne!(serve(&identities, DATA, true).0, derived.0);
}

#[test]
fn only_a_revert_brings_a_removed_identity_back() {
    let file = StateFile::new();
    let identities = file.open();
    let first = serve(&identities, DATA, true);
    identities.forget_subsystem(NQN, true);
    let identities = file.restart(identities);
    assert_eq!(identities.uuid(NQN, 1, DATA), None, "an operator may add another disk");
    identities.restore_removed();
    assert_eq!(serve(&identities, DATA, false), first);
    assert!(!replaces(&identities, 1, first.0), "hosts know this disk by its NSID");
    identities.forget_others(&config("/srv/a"));
    identities.forget_namespace(NQN, 1, true);
    // The file names another path by now.
    identities.forget_removed(|_, data| data != DATA, |_| true);
    identities.restore_removed();
    assert_ne!(serve(&identities, DATA, false).0, first.0);
}

#[test]
fn other_data_at_the_path_of_a_removed_namespace_is_noticed() {
    let identities = Identities::default();
    let (uuid, origin) = (Uuid::from_u128(1), || Some("inode 7".to_owned()));
    set_uuid(&identities, 1, DATA, uuid, origin());
    // A namespace that is not available keeps the origin of its data.
    set_uuid(&identities, 1, DATA, uuid, None);
    identities.forget_namespace(NQN, 1, true);
    assert!(!identities.is_other_data(NQN, 1, uuid, Some("inode 8")), "no revert is under way");
    identities.restore_removed();
    assert!(identities.is_other_data(NQN, 1, uuid, Some("inode 8")));
    assert!(!identities.is_other_data(NQN, 1, uuid, origin().as_deref()));
    assert!(!identities.is_other_data(NQN, 1, uuid, None));
}

#[test]
fn file_made_later_at_same_path_is_another_disk() {
    let identities = Identities::default();
    let uuid = Uuid::from_u128(1);
    let note =
        |origin: Option<&str>| set_uuid(&identities, 1, DATA, uuid, origin.map(str::to_owned));
    let is_other = |origin| identities.is_other_data(NQN, 1, uuid, origin);
    note(Some("inode 7"));
    assert!(!is_other(Some("inode 8")), "the file system may number its files anew");
    assert!(!is_other(Some("inode 8 made 5.000000000")));
    note(Some("inode 7 made 5.000000000"));
    assert!(!is_other(Some("inode 7 made 5.000000000")) && !is_other(None));
    assert!(
        is_other(Some("inode 8 made 6.000000000")) && is_other(Some("inode 7 made 6.000000000"))
    );
    assert!(!identities.is_other_data(NQN, 1, Uuid::from_u128(2), Some("inode 7 made 6.0")));
}

#[test]
fn nsids_of_a_removed_subsystem_stay_known_after_a_restart() {
    let file = StateFile::new();
    let identities = file.open();
    let (first, _) = serve(&identities, DATA, true);
    set_uuid(&identities, 2, "memory", Uuid::from_u128(2), None);
    identities.forget_namespace(NQN, 2, false);
    identities.forget_subsystem(NQN, false);
    let identities = file.restart(identities);
    let (second, _) = serve(&identities, "file /srv/b", false);
    assert!(replaces(&identities, 1, second), "a host may have the first disk");
    assert!(replaces(&identities, 2, Uuid::from_u128(2)), "several disks may have had it");
    assert!(!replaces(&identities, 3, second), "no host knows a disk by this NSID");
    assert_eq!(identities.removed_nsids(NQN), BTreeSet::new(), "it can be given again");
    // The same once more, without a removal that was complete.
    drop(identities);
    let identities = file.open();
    identities.forget_others(&Config::default());
    let identities = file.restart(identities);
    for uuid in [first, second] {
        assert!(replaces(&identities, 1, uuid), "two disks had it");
    }
}

#[test]
fn disk_with_the_uuid_that_a_removed_subsystem_had_replaces_none() {
    let file = StateFile::new();
    let uuid = Uuid::from_u128(1);
    for _ in 0..2 {
        let identities = file.open();
        assert!(!replaces(&identities, 1, uuid), "the configuration says that it is the same disk");
        set_uuid(&identities, 1, DATA, uuid, None);
        identities.forget_subsystem(NQN, false);
        identities.keep().unwrap();
    }
    assert!(replaces(&file.open(), 1, Uuid::from_u128(2)));
}

#[test]
fn the_subsystems_that_were_removed_first_are_forgotten() {
    let file = StateFile::new();
    let identities = file.open();
    let name = |n: u32| format!("nqn.2026-01.io.x:t{n}");
    let each = u32::try_from(RETIRED_MAX / 4).unwrap();
    let fill = |n: u32| {
        for nsid in 1..each {
            identities.set_uuid((&name(n), nsid), DATA, (Uuid::from_u128(1), false), None);
        }
        identities.set_serial(&name(n), "S");
    };
    for n in [0, 1, 2, 3] {
        fill(n);
        identities.forget_subsystem(&name(n), false);
    }
    // A subsystem that exists again is not forgotten.
    identities.set_serial(&name(0), "S");
    fill(4);
    identities.forget_subsystem(&name(4), false);
    let identities = file.restart(identities);
    let known = |n| identities.replaces(&name(n), 1, Uuid::from_u128(2), |_| false);
    assert_eq!([0, 1, 2, 3, 4].map(known), [true, false, true, true, true]);
}

#[test]
fn a_disk_that_is_back_because_a_change_is_undone_replaces_none_unless_a_host_took_another() {
    for taken in [false, true] {
        let identities = Identities::default();
        let (first, _) = serve(&identities, DATA, true);
        let (second, _) = serve(&identities, "file /srv/b", false);
        assert!(replaces(&identities, 1, second));
        let replaces = identities.replaces(NQN, 1, first, |uuid| taken && uuid == second);
        assert_eq!(replaces, taken);
        identities.set_uuid((NQN, 1), DATA, (first, replaces), None);
        assert_eq!(identities.replaces(NQN, 1, first, |_| false), taken, "it stays so");
        assert!(identities.replaces(NQN, 1, second, |_| false), "the other disk does again");
        identities.forget_others(&config("/srv/a"));
        assert!(identities.replaces(NQN, 1, second, |_| false), "nor when that is over");
    }
}
