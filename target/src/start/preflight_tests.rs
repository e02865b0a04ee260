//! Tests of the checks of this machine before a start.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use sluice_config::testing::parse;

use super::*;
use crate::control::api::test_engine::TestEngine;
use crate::control::api::{Control, Server};
use crate::control::store::{Live, MemoryStore};
use crate::disks::file_systems::kibibytes;

/// The lines before a subsystem's first namespace, and before another one.
const SUBSYSTEM: &str = "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\n[[subsystem.namespace]]\n";
const NEXT: &str = "[[subsystem.namespace]]\n";

/// A folder, and a configuration in it that this machine can run.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn config(&self, target: &str, rest: &str) -> Config {
        let control = self.path("control.sock");
        let text = format!("[target]\ncontrol = \"{control}\"\n{target}\n{rest}");
        parse(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
    }

    /// Makes a configuration with a namespace of these lines.
    fn namespace(&self, lines: &str) -> Config {
        self.config("", &format!("{SUBSYSTEM}{lines}"))
    }

    /// Returns the lines of a namespace on a file.
    fn disk(&self, name: &str, more: &str) -> String {
        format!("backend = \"file\"\npath = \"{}\"\n{more}", self.path(name))
    }

    fn file(&self, name: &str, more: &str) -> Config {
        self.namespace(&self.disk(name, more))
    }
}

fn lacking(config: &Config) -> Vec<String> {
    look(config).lacks
}

/// Checks that a configuration lacks one thing, described with these words. Returns all words.
fn lacks(config: &Config, words: &str) -> String {
    let lacks = lacking(config);
    assert!(matches!(&lacks[..], [one] if one.contains(words)), "{words}: {lacks:?}");
    lacks.concat()
}

fn none(config: &Config) {
    assert_eq!(lacking(config), Vec::<String>::new());
}

#[test]
fn a_machine_that_has_all_lacks_nothing_and_nothing_is_made() {
    let place = Place::new();
    let state = place.path("state/a.redb");
    none(&place.config(&format!("state = \"{state}\""), ""));
    none(&place.file("1.img", "size = \"1 MiB\"\ncreate = true"));
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0);
}

#[test]
fn tls_listener_needs_kernel_tls() {
    let place = Place::new();
    let free = hostile::free_address().unwrap();
    for (tls, asked) in [("off", false), ("allowed", true), ("required", true)] {
        let listener = format!("[[listener]]\naddress = \"{free}\"\ntls = \"{tls}\"\n");
        let lacks = lacking(&place.config("", &listener));
        let why = crate::serve::tls::refusal().filter(|_| asked);
        assert_eq!(lacks, Vec::from_iter(why.map(|why| format!("listeners with TLS: {why}"))));
    }
}

#[test]
fn files_and_devices_are_looked_at() {
    let place = Place::new();
    lacks(&place.file("1.img", ""), "namespace nqn.2026-01.io.x:a/1: ");
    lacks(
        &place.file("disks/1.img", "size = \"1 MiB\"\ncreate = true"),
        &format!("the folder {} does not", place.path("disks")),
    );
    std::fs::create_dir(place.path("folder")).unwrap();
    lacks(&place.file("folder", ""), "neither a regular file nor a block device");
    std::fs::write(place.path("empty.img"), "").unwrap();
    lacks(&place.file("empty.img", ""), "give a size");
    for (path, words) in [
        (place.path("folder"), "nor a device of persistent memory"),
        (place.path("empty.img"), "give a size"),
        ("/dev/null".to_owned(), "nor a device of persistent memory"),
        ("/dev/dax99.9".to_owned(), "there is no such device"),
    ] {
        let lines = format!("backend = \"pmem\"\npath = \"{path}\"\n");
        lacks(&place.namespace(&lines), words);
    }
    lacks(&place.namespace("backend = \"nvme\"\ndevice = \"/dev/null0\""), "/dev/null0");
}

#[test]
fn more_than_a_file_system_has_is_a_warning_and_more_than_a_file_can_hold_is_refused() {
    let place = Place::new();
    let disk =
        |name: &str, size: &str| place.disk(name, &format!("size = \"{size}\"\ncreate = true\n"));
    assert!(look(&place.namespace(&disk("1.img", "1 MiB"))).warnings.is_empty());
    // A little more than half of the free space, once and twice.
    let told = nix::sys::statvfs::statvfs(place.0.path()).unwrap();
    let free = told.blocks_available() * told.fragment_size();
    let half = format!("{} B", (free / 2).next_multiple_of(4096) + (64 << 20));
    assert!(look(&place.namespace(&disk("1.img", &half))).warnings.is_empty());
    let two = disk("1.img", &half) + NEXT + &disk("2.img", &half);
    let found = look(&place.namespace(&two));
    assert_eq!((found.lacks.len(), found.warnings.len()), (0, 1), "{found:?}");
    assert!(found.warnings[0].contains("overcommitted: 2 files"), "{found:?}");
    // No file that the kernel can address is larger than 8 EiB less a byte; most file systems stop before.
    let file = tempfile::tempfile_in(place.0.path()).unwrap();
    if file.set_len(1 << 60).is_err() {
        let words = "1 EiB is more than its file system can hold as one file";
        lacks(&place.namespace(&disk("1.img", "1 EiB")), words);
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0, "nothing is made");
}

#[test]
fn a_file_that_somebody_has_locked_is_in_use() {
    let place = Place::new();
    let path = place.path("1.img");
    std::fs::write(&path, [0; 8192]).unwrap();
    none(&place.file("1.img", ""));
    let other = Claims::new(Vec::new());
    let backend = place.file("1.img", "").subsystems[0].namespaces[0].backend.clone();
    let signature = OnSignature::Ignore;
    let opening = Opening { claims: &other, namespace: "another's", seen: None, signature };
    let held = backend::probe(&backend, false, &opening).unwrap();
    lacks(&place.file("1.img", ""), "1.img");
    drop(held);
    none(&place.file("1.img", ""));
}

#[test]
fn a_file_has_one_namespace_however_it_is_called() {
    let place = Place::new();
    std::fs::write(place.path("1.img"), [0; 8192]).unwrap();
    std::os::unix::fs::symlink(place.path("1.img"), place.path("2.img")).unwrap();
    let two = place.disk("1.img", NEXT) + &place.disk("2.img", "");
    lacks(&place.namespace(&two), "namespace nqn.2026-01.io.x:a/2: ");
}

#[test]
fn addresses_are_those_of_this_machine_and_free() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let listener = |address: &str| format!("[[listener]]\naddress = \"{address}\"");
    lacks(&place.config("", &listener(&address.to_string())), "Address already in use");
    lacks(&place.config(&format!("metrics = \"{address}\""), ""), "Address already in use");
    lacks(&place.config("", &listener("192.0.2.1:4420")), "no address 192.0.2.1");
    lacks(
        &place.config("", &listener("[fe80::1%nowhere0]:4420")),
        "[fe80::1%nowhere0]:4420: this machine has no interface",
    );
    let regions = "[pmem]\naddress = \"192.0.2.1:4430\"\ncapacity = 1000";
    lacks(&place.config("", regions), "regions at 192.0.2.1:4430: ");
}

#[test]
fn what_our_own_daemon_has_is_not_in_the_way() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = format!("[[listener]]\naddress = \"{}\"", taken.local_addr().unwrap());
    let path = place.path("1.img");
    let region = format!("[[region]]\nname = \"log\"\npath = \"{path}\"\nsize = \"8 KiB\"\n");
    for (config, words) in [(listener, "in use"), (region, "there is no such file")] {
        let config = place.config("", &config);
        lacks(&config, words);
        let (live, _) = Live::open(config.clone(), Arc::new(MemoryStore::default())).unwrap();
        let control = Control::new(Arc::new(TestEngine::new(config.clone())), live);
        let server = Server::spawn(control, &config.target.control, None).unwrap();
        none(&config);
        drop(server);
    }
}

#[test]
fn the_folders_of_the_state_and_of_the_control_socket_can_be_written() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    let state = format!("state = \"{}\"", place.path("file/state.redb"));
    lacks(&place.config(&state, ""), "the state file");
    let state = format!("state = \"{}\"", place.0.path().display());
    lacks(&place.config(&state, ""), "it is not a regular file");
    let mut config = place.config("", "");
    config.target.control = place.path("file/control.sock").into();
    lacks(&config, "the control socket");
    if !nix::unistd::geteuid().is_root() {
        let closed = place.path("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
        let state = format!("state = \"{closed}/state.redb\"");
        lacks(&place.config(&state, ""), "the state file");
    }
}

#[test]
fn memory_that_may_be_taken_is_there() {
    let place = Place::new();
    lacks(&place.namespace("backend = \"memory\"\nsize = \"4 TiB\""), "this machine has");
    assert_eq!(kibibytes("MemFree: 1 kB\nMemTotal:       16384 kB\n", "MemTotal:"), Some(16 << 20));
    assert_eq!(kibibytes("", "MemTotal:"), None);
}

#[test]
fn a_file_that_is_to_be_made_has_one_namespace_however_it_is_called() {
    let place = Place::new();
    std::fs::create_dir(place.path("a")).unwrap();
    std::os::unix::fs::symlink(place.path("a"), place.path("link")).unwrap();
    let file = |name: &str| place.disk(name, "size = \"1 MiB\"\ncreate = true\n");
    let two = file("a/1.img") + NEXT + &file("link/1.img");
    let said = lacks(&place.namespace(&two), "a/1 has it already");
    assert!(said.starts_with("namespace nqn.2026-01.io.x:a/2: "), "{said}");
    none(&place.namespace(&(file("a/1.img") + NEXT + &file("a/../1.img"))));
    let state = format!("state = \"{}\"", place.path("link/1.img"));
    lacks(&place.config(&state, &(SUBSYSTEM.to_owned() + &file("a/1.img"))), "the state file");
}

#[test]
fn regions_are_looked_at_as_namespaces_are() {
    let place = Place::new();
    let region = |name: &str, more: &str| {
        let path = place.path(name);
        format!("[[region]]\nname = \"log\"\npath = \"{path}\"\n{more}\n")
    };
    let of = |text: &str| place.config("", text);
    assert!(lacks(&of(&region("1.img", "")), "there is no such file").starts_with("region log: "));
    none(&of(&region("1.img", "size = \"1 MiB\"\ncreate = true")));
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0, "nothing is made");
    std::fs::write(place.path("empty.img"), "").unwrap();
    lacks(&of(&region("empty.img", "")), "give a size");
    lacks(&of("[[region]]\nname = \"a\"\npath = \"/dev/dax99.9\""), "no such device");
    lacks(&of("[[region]]\nname = \"a\"\nsize = \"4 TiB\""), "this machine has");
    none(&of("[[region]]\nname = \"a\"\nsize = \"1 MiB\""));
    // A link hides that the file is a namespace's.
    std::fs::write(place.path("1.img"), [0; 8192]).unwrap();
    std::os::unix::fs::symlink(place.path("1.img"), place.path("2.img")).unwrap();
    none(&of(&region("2.img", "")));
    let two = of(&(region("2.img", "") + SUBSYSTEM + &place.disk("1.img", "")));
    assert!(lacks(&two, "has it already").starts_with("region log: "));
}

#[test]
fn the_groups_of_the_control_socket_are_there() {
    let place = Place::new();
    none(&place.config("control_admins = \"root\"\ncontrol_group = \"root\"", ""));
    let missing = place.config("control_admins = \"no-such-group\"", "");
    assert!(lacks(&missing, "no such group").contains("control_admins"));
}

#[test]
fn a_keyring_that_is_not_there_keeps_no_daemon_from_starting() {
    let place = Place::new();
    let config = place.config("keyring = \"sluicegate-tests-have-none\"", "");
    none(&config);
    let warnings = look(&config).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("in the keyring sluicegate-tests-have-none are "), "{warnings:?}");
    assert!(look(&place.config("", "")).warnings.is_empty());
}
