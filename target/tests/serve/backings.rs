//! Files behind namespaces: their claims, and their state when they were open before.

use std::fs::File;
use std::path::PathBuf;

use sluiced::control::store::{Seen, SeenNamespaces};
use sluiced::serve::engine::{Availability, EngineError};
use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Returns a namespace on a file of 1 MiB at least, which it makes where `create` says so.
fn disk(nsid: u32, path: PathBuf, create: bool) -> Namespace {
    let backend = Backend::File { path, size: Some(MIB), block_size: None, direct: true, create };
    Namespace { nsid: Some(nsid), ..namespace(backend) }
}

fn read_only(nsid: u32, path: PathBuf) -> Namespace {
    Namespace { read_only: true, ..disk(nsid, path, false) }
}

fn empty() -> Running {
    serve(settings(), QosConfig::default(), Vec::new()).0
}

fn add(runtime: &Runtime, namespace: &Namespace) -> Result<uuid::Uuid, EngineError> {
    runtime.add_namespace(NQN, namespace)
}

/// Adds a namespace whose file is in use. Returns the message of the refusal.
fn in_use(runtime: &Runtime, namespace: &Namespace) -> String {
    let error = add(runtime, namespace).unwrap_err();
    assert!(matches!(error, EngineError::Exists(_)), "{namespace:?}: {error:?}");
    error.to_string()
}

fn serves(runtime: &Runtime) -> bool {
    let subsystems = runtime.subsystems();
    subsystems[0].namespaces.iter().any(|n| n.state == Availability::Ready)
}

#[test]
fn a_file_has_one_writer_whatever_it_is_called() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("a")).unwrap();
    let runtime = empty();
    add(&runtime, &disk(1, at("disk"), true)).unwrap();
    std::os::unix::fs::symlink(at("disk"), at("symlink")).unwrap();
    std::fs::hard_link(at("disk"), at("hardlink")).unwrap();
    for name in ["disk", "a/../disk", "symlink", "hardlink"] {
        let text = in_use(&runtime, &disk(2, at(name), true));
        assert!(text.contains(&format!("namespace 1 of {NQN} has it already")), "{name}: {text}");
        // Even a reader is refused: its host's cache would not see the writes.
        in_use(&runtime, &read_only(2, at(name)));
    }
    runtime.remove_namespace(NQN, 1).unwrap();
    add(&runtime, &read_only(1, at("disk"))).unwrap();
    add(&runtime, &read_only(2, at("symlink"))).unwrap();
    in_use(&runtime, &disk(3, at("hardlink"), true));
}

#[test]
fn two_targets_do_not_share_a_file_that_one_writes() {
    let folder = folder();
    let path = folder.path().join("disk");
    let (one, other) = (empty(), empty());
    add(&one, &disk(1, path.clone(), true)).unwrap();
    for namespace in [disk(1, path.clone(), true), read_only(1, path.clone())] {
        let text = in_use(&other, &namespace);
        assert!(text.contains("has it locked"), "{text}");
    }
    one.remove_namespace(NQN, 1).unwrap();
    add(&other, &read_only(1, path.clone())).unwrap();
    add(&one, &read_only(1, path.clone())).unwrap();
    in_use(&one, &disk(2, path, true));
}

#[test]
fn the_daemons_own_files_are_nobodys_namespace() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    File::create(at("state")).unwrap().set_len(MIB).unwrap();
    std::fs::hard_link(at("state"), at("disk")).unwrap();
    let target = TargetConfig { state: Some(at("state")), control: at("control"), ..settings() };
    let (runtime, _) = serve(target, QosConfig::default(), Vec::new());
    for name in ["state", "disk"] {
        let text = in_use(&runtime, &disk(1, at(name), true));
        assert!(text.contains("the state file of this daemon"), "{text}");
    }
    let text = in_use(&runtime, &disk(1, at("control"), true));
    assert!(text.contains("the control socket"), "{text}");
    assert!(!at("control").exists());
}

#[test]
fn a_file_is_made_where_that_is_asked_for_and_words_say_what_is_missing() {
    let folder = folder();
    let runtime = empty();
    let missing = |path: PathBuf, create: bool, words: &str| {
        let error = add(&runtime, &disk(1, path.clone(), create)).unwrap_err();
        assert!(matches!(error, EngineError::System(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!path.exists());
    };
    missing(folder.path().join("disk"), false, "write create = true");
    missing(folder.path().join("none/disk"), true, "none does not exist");
    add(&runtime, &disk(1, folder.path().join("disk"), true)).unwrap();
    assert_eq!(folder.path().join("disk").metadata().unwrap().len(), MIB);
}

/// Starts a target with a namespace on `path`, and says whether it serves.
fn served(store: &Arc<dyn Store>, namespace: &Namespace) -> (Running, bool) {
    let namespaces = vec![namespace.clone()];
    let store = Arc::clone(store);
    let (runtime, _) = serve_again(settings(), QosConfig::default(), namespaces, store);
    let serves = serves(&runtime);
    (runtime, serves)
}

fn seen(store: &Arc<dyn Store>) -> Option<Seen> {
    SeenNamespaces::open(Arc::clone(store)).unwrap().0.get(NQN, 1)
}

#[test]
fn a_file_that_was_served_is_never_made_again_nor_filled_up() {
    let folder = folder();
    let path = folder.path().join("disk");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let start = |namespace: &Namespace| {
        let (runtime, serves) = served(&store, namespace);
        end(&runtime);
        serves
    };
    let namespace = disk(1, path.clone(), true);
    assert!(start(&namespace));
    assert_eq!(seen(&store).unwrap().size, MIB);
    // The disk's file system is not mounted.
    std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert!(!start(&namespace));
    assert!(!path.exists(), "made again, empty, under the same UUID");
    // Half of the file came back.
    std::fs::rename(folder.path().join("elsewhere"), &path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(MIB / 2).unwrap();
    assert!(!start(&namespace));
    assert_eq!(path.metadata().unwrap().len(), MIB / 2, "filled up with zeroes");
    // A file from a backup is served, and so is a file that has grown.
    std::fs::remove_file(&path).unwrap();
    File::create(&path).unwrap().set_len(2 * MIB).unwrap();
    assert!(start(&namespace));
    // With another UUID it is a new disk.
    std::fs::remove_file(&path).unwrap();
    assert!(!start(&namespace));
    assert!(start(&Namespace { uuid: Some(uuid::Uuid::from_u128(5)), ..namespace }));
}

#[test]
fn a_namespace_that_is_removed_is_forgotten_and_a_resize_is_remembered() {
    let folder = folder();
    let path = folder.path().join("disk");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (runtime, _) = served(&store, &disk(1, path.clone(), true));
    runtime.resize_namespace(NQN, 1, Some(3 * MIB)).unwrap();
    assert_eq!(seen(&store).unwrap().size, 3 * MIB);
    runtime.resize_namespace(NQN, 1, Some(2 * MIB)).unwrap();
    assert_eq!(seen(&store).unwrap().size, 2 * MIB);
    runtime.remove_namespace(NQN, 1).unwrap();
    runtime.forget_identity(NQN, Some(1), false);
    assert_eq!(seen(&store), None);
    std::fs::remove_file(&path).unwrap();
    add(&runtime, &disk(1, path.clone(), true)).unwrap();
    assert_eq!(seen(&store).unwrap().size, MIB);
    runtime.remove_subsystem(NQN).unwrap();
    assert_eq!(seen(&store), None);
    end(&runtime);
    // A namespace that the configuration no longer has is forgotten at the next start.
    let (runtime, _) = served(&store, &disk(1, path.clone(), true));
    end(&runtime);
    let (runtime, _) = served(&store, &disk(2, path, true));
    end(&runtime);
    assert_eq!(seen(&store), None);
}
