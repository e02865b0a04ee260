//! Files behind namespaces: their claims, and their state when they were open before.

use std::fs::File;
use std::path::PathBuf;

use sluiced::control::store::{Seen, SeenNamespaces};
use sluiced::serve::engine::{Availability, EngineError};

use super::*;

const MIB: u64 = 1 << 20;

/// Returns a namespace on a file of 1 MiB at least, which it makes where `create` says so.
fn on_file(nsid: u32, path: PathBuf, create: bool) -> Namespace {
    let backend = Backend::File { path, size: Some(MIB), block_size: None, direct: true, create };
    Namespace { nsid: Some(nsid), ..Namespace::new(backend) }
}

fn read_only(nsid: u32, path: PathBuf) -> Namespace {
    Namespace { read_only: true, ..on_file(nsid, path, false) }
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
    let (folder, _) = disk();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("a")).unwrap();
    let runtime = empty();
    add(&runtime, &on_file(1, at("disk"), true)).unwrap();
    std::os::unix::fs::symlink(at("disk"), at("symlink")).unwrap();
    std::fs::hard_link(at("disk"), at("hardlink")).unwrap();
    for name in ["disk", "a/../disk", "symlink", "hardlink"] {
        let text = in_use(&runtime, &on_file(2, at(name), true));
        assert!(text.contains(&format!("namespace 1 of {NQN} has it already")), "{name}: {text}");
        // Even a reader is refused: its host's cache would not see the writes.
        in_use(&runtime, &read_only(2, at(name)));
    }
    runtime.remove_namespace(NQN, 1).unwrap();
    add(&runtime, &read_only(1, at("disk"))).unwrap();
    add(&runtime, &read_only(2, at("symlink"))).unwrap();
    in_use(&runtime, &on_file(3, at("hardlink"), true));
}

#[test]
fn two_targets_do_not_share_a_file_that_one_writes() {
    let (_folder, path) = disk();
    let (one, other) = (empty(), empty());
    add(&one, &on_file(1, path.clone(), true)).unwrap();
    for namespace in [on_file(1, path.clone(), true), read_only(1, path.clone())] {
        let text = in_use(&other, &namespace);
        assert!(text.contains("has it locked"), "{text}");
    }
    one.remove_namespace(NQN, 1).unwrap();
    add(&other, &read_only(1, path.clone())).unwrap();
    add(&one, &read_only(1, path.clone())).unwrap();
    in_use(&one, &on_file(2, path, true));
}

#[test]
fn the_daemons_own_files_are_nobodys_namespace() {
    let (folder, _) = disk();
    let at = |name: &str| folder.path().join(name);
    File::create(at("state")).unwrap().set_len(MIB).unwrap();
    std::fs::hard_link(at("state"), at("disk")).unwrap();
    let target = TargetConfig { state: Some(at("state")), control: at("control"), ..settings() };
    let (runtime, _) = serve(target, QosConfig::default(), Vec::new());
    for name in ["state", "disk"] {
        let text = in_use(&runtime, &on_file(1, at(name), true));
        assert!(text.contains("the state file of this daemon"), "{text}");
    }
    let text = in_use(&runtime, &on_file(1, at("control"), true));
    assert!(text.contains("the control socket"), "{text}");
    assert!(!at("control").exists());
}

#[test]
fn a_file_is_made_where_that_is_asked_for_and_words_say_what_is_missing() {
    let ((folder, path), runtime) = (disk(), empty());
    for (path, create, words) in [
        (path.clone(), false, "write create = true"),
        (folder.path().join("none/disk"), true, "none does not exist"),
    ] {
        let error = add(&runtime, &on_file(1, path.clone(), create)).unwrap_err();
        assert!(matches!(error, EngineError::System(_)), "{error:?}");
        assert!(error.to_string().contains(words) && !path.exists(), "{error}");
    }
    add(&runtime, &on_file(1, path.clone(), true)).unwrap();
    assert_eq!(path.metadata().unwrap().len(), MIB);
}

/// Starts a target with a namespace, and says whether it serves.
fn served(store: &Arc<dyn Store>, namespace: Namespace) -> (Running, bool) {
    let settings = (settings(), QosConfig::default());
    let runtime = serve_at(free_address(), settings, vec![namespace], store);
    let serves = serves(&runtime);
    (runtime, serves)
}

fn seen(store: &Arc<dyn Store>) -> Option<Seen> {
    SeenNamespaces::open(Arc::clone(store)).unwrap().0.get(NQN, 1)
}

#[test]
fn a_file_that_was_served_is_never_made_again_nor_filled_up() {
    let (folder, path) = disk();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let start = |uuid: Option<uuid::Uuid>| {
        served(&store, Namespace { uuid, ..on_file(1, path.clone(), true) }).1
    };
    assert!(start(None));
    assert_eq!(seen(&store).unwrap().size, MIB);
    // The disk's file system is not mounted.
    std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert!(!start(None));
    assert!(!path.exists(), "made again, empty, under the same UUID");
    // Half of the file came back.
    std::fs::rename(folder.path().join("elsewhere"), &path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(MIB / 2).unwrap();
    assert!(!start(None));
    assert_eq!(path.metadata().unwrap().len(), MIB / 2, "filled up with zeroes");
    // A file from a backup is served, and so is a file that has grown.
    std::fs::remove_file(&path).unwrap();
    File::create(&path).unwrap().set_len(2 * MIB).unwrap();
    assert!(start(None));
    // With another UUID it is a new disk.
    std::fs::remove_file(&path).unwrap();
    assert!(!start(None));
    assert!(start(Some(uuid::Uuid::from_u128(5))));
}

#[test]
fn a_namespace_that_is_removed_is_forgotten_and_a_resize_is_remembered() {
    let (_folder, path) = disk();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (runtime, _) = served(&store, on_file(1, path.clone(), true));
    for size in [3 * MIB, 2 * MIB] {
        runtime.resize_namespace(NQN, 1, Some(size)).unwrap();
        assert_eq!(seen(&store).unwrap().size, size);
    }
    runtime.remove_namespace(NQN, 1).unwrap();
    runtime.forget_identity(NQN, Some(1), false);
    assert_eq!(seen(&store), None);
    std::fs::remove_file(&path).unwrap();
    add(&runtime, &on_file(1, path.clone(), true)).unwrap();
    assert_eq!(seen(&store).unwrap().size, MIB);
    runtime.remove_subsystem(NQN).unwrap();
    assert_eq!(seen(&store), None);
    drop(runtime);
    // A namespace that the configuration no longer has is forgotten at the next start.
    served(&store, on_file(1, path.clone(), true));
    served(&store, on_file(2, path, true));
    assert_eq!(seen(&store), None);
}
