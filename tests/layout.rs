//! Tests of the repository's layout. Above all: the daemon's source is in a folder called
//! `target/`, which is cargo's default build folder, and `cargo clean` must not touch it.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod documents;
mod figures;
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{output, root};
use imports::Source;
use serde_json::Value;

/// The entries of the root folder that are allowed beside hidden files.
const TOP_LEVEL: &str = "ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md Cargo.lock Cargo.toml LICENSE-APACHE \
    LICENSE-MIT Makefile README.md arbitration clippy.toml deny.toml docs fabric pmem qtcp rustfmt.toml systemd \
    target tests tools";

fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--no-deps", "--offline"]).current_dir(root());
    let metadata = output(&mut cargo).expect("cargo metadata runs");
    serde_json::from_str(&metadata).expect("cargo metadata is JSON")
}

/// Returns the names of tracked entries of the root folder, or of all entries outside a git
/// checkout.
fn top_level() -> BTreeSet<String> {
    let mut git = Command::new("git");
    let git = git.args(["ls-files", "-co", "--exclude-standard"]).current_dir(root());
    let tracked = output(git).map(|files| {
        files.lines().filter_map(|f| f.split('/').next()).map(str::to_owned).collect()
    });
    tracked.unwrap_or_else(|_| {
        let entries = fs::read_dir(root()).expect("the root folder can be read");
        let names = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into());
        names.filter(|name: &String| name != "build").collect()
    })
}

#[test]
fn cargo_builds_outside_the_daemons_source() {
    // CARGO_TARGET_DIR may point anywhere but there.
    let metadata = metadata();
    let folder = metadata["target_directory"].as_str().expect("a path");
    assert_ne!(Path::new(folder), root().join("target"), "cargo would build into target/");
}

#[test]
fn git_does_not_ignore_the_daemons_source() {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--is-inside-work-tree"]).current_dir(root());
    if output(&mut git).is_err() {
        return;
    }
    let mut git = Command::new("git");
    let status = git.args(["check-ignore", "target/Cargo.toml", "target/src/main.rs"]);
    let status = status.current_dir(root()).stdout(Stdio::null()).status().expect("git runs");
    assert_eq!(status.code(), Some(1), "git ignores target/, which holds the daemon's source");
}

#[test]
fn cargo_clean_leaves_the_daemons_source_alone() {
    let folder = tempfile::tempdir().expect("a folder for the copy");
    let mut copy = Command::new("cp");
    copy.arg("-r").args(top_level()).arg(folder.path()).current_dir(root());
    output(&mut copy).expect("the files can be copied");
    let source = folder.path().join("target/src");
    let before = fs::read_dir(&source).expect("the copy has target/src").count();
    let built = folder.path().join("build/debug");
    fs::create_dir_all(&built).expect("a build folder");
    fs::write(folder.path().join("build/CACHEDIR.TAG"), "").expect("a file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["clean", "--offline"]).current_dir(folder.path());
    cargo.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET_DIR");
    output(&mut cargo).expect("cargo clean runs");
    assert!(!built.exists(), "cargo clean did not clean build/");
    let after = fs::read_dir(&source).expect("cargo clean removed target/src").count();
    assert_eq!(before, after, "cargo clean removed source files");
}

#[test]
fn the_top_level_is_fixed() {
    let allowed: BTreeSet<&str> = TOP_LEVEL.split(' ').collect();
    let present = top_level().into_iter().filter(|name| !name.starts_with('.'));
    let foreign: Vec<String> = present.filter(|name| !allowed.contains(name.as_str())).collect();
    assert!(foreign.is_empty(), "not a place for {foreign:?}: see ARCHITECTURE.md");
}

#[test]
fn crates_import_in_one_direction() {
    let libraries = vec!["fabric", "arbitration", "qtcp", "units"];
    let above = [
        &libraries[..],
        &["pmem", "fabric-verbs", "pmem-verbs", "sluice-core", "sluice-config", "sluice-machine"],
    ]
    .concat();
    let allowed = BTreeMap::from([
        ("units", vec![]),
        ("fabric", vec!["units"]),
        ("arbitration", vec!["units"]),
        ("qtcp", vec!["units"]),
        ("pmem", vec!["units"]),
        ("fabric-verbs", vec!["fabric"]),
        ("pmem-verbs", vec!["fabric", "fabric-verbs", "pmem", "units"]),
        ("sluice-core", libraries.clone()),
        ("sluice-sim", [libraries.clone(), vec!["pmem", "sluice-core", "sluice-config"]].concat()),
        ("sluice-world", [libraries.clone(), vec!["sluice-core"]].concat()),
        ("reproduce", [libraries, vec!["pmem", "sluice-config", "sluice-sim"]].concat()),
        ("sluice-config", vec!["arbitration", "fabric"]),
        ("sluice-credits", vec!["arbitration", "units"]),
        ("sluice-machine", vec!["qtcp", "sluice-config"]),
        ("sluice-tls", vec![]),
        ("hostile", vec!["fabric"]),
        ("bottleneck", vec!["qtcp", "reproduce", "sluice-sim", "units"]),
        // The crate's tests need them.
        ("sluiced", [above.clone(), vec!["hostile", "sluice-tls"]].concat()),
        ("sluice", [above.clone(), vec!["sluice-credits"]].concat()),
        ("e2e", [above, vec!["sluiced", "hostile"]].concat()),
    ]);
    let metadata = metadata();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name}: a crate not known here"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let import = dependency["name"].as_str().expect("a name");
            let ours = allowed.contains_key(import);
            assert!(!ours || may.contains(&import), "{name} must not import {import}");
        }
    }
}

/// Circles that are left: a crate, a file of the circle, and the number of its files. The list only
/// gets shorter.
const CIRCLES: &[(&str, &str, usize)] = &[
    ("reproduce", "figures.rs", 37),
    ("sluice-sim", "command/promises/mod.rs", 7),
    ("sluice-sim", "report/mod.rs", 2),
    ("sluice-sim", "scenario/mod.rs", 2),
];

#[test]
fn files_import_each_other_in_no_circle() {
    let metadata = metadata();
    let mut circles = BTreeSet::new();
    let mut left = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let source = manifest.parent().expect("a folder").join("src");
        if !source.exists() {
            continue;
        }
        for files in Source::read(&source).circles() {
            let known = CIRCLES.iter().find(|(of, file, size)| {
                *of == name && files.len() <= *size && files.iter().any(|one| one == file)
            });
            left.extend(known.filter(|(_, _, size)| files.len() == *size));
            if known.is_none() {
                circles.insert((name.to_owned(), files));
            }
        }
    }
    assert!(circles.is_empty(), "files of a crate import each other in a circle: {circles:#?}");
    let smaller: Vec<_> = CIRCLES.iter().filter(|circle| !left.contains(circle)).collect();
    assert!(smaller.is_empty(), "smaller or gone: make the list say so: {smaller:?}");
}
