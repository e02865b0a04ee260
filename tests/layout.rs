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

use e2e::root;
use imports::Source;
use serde_json::Value;

/// The entries of the root folder that are allowed beside hidden files.
const TOP_LEVEL: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "arbitration",
    "clippy.toml",
    "deny.toml",
    "docs",
    "fabric",
    "pmem",
    "qtcp",
    "rustfmt.toml",
    "systemd",
    "target",
    "tests",
    "tools",
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// Returns the names of tracked entries of the root folder, or of all entries outside a git
/// checkout.
fn top_level() -> BTreeSet<String> {
    let mut git = Command::new("git");
    let git = git.args(["ls-files", "-co", "--exclude-standard"]);
    let tracked = run_in(&root(), git).map(|files| {
        files.lines().filter_map(|f| f.split('/').next()).map(str::to_owned).collect()
    });
    tracked.unwrap_or_else(|| {
        let entries = fs::read_dir(root()).expect("the root folder can be read");
        let names = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into());
        names.filter(|name: &String| name != "build").collect()
    })
}

/// Returns the command's output, none where it fails.
fn run_in(folder: &Path, command: &mut Command) -> Option<String> {
    let output = command.current_dir(folder).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be read") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        let top = from == root();
        if name == ".git" || (top && name == "build") {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if entry.file_type().expect("a type").is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a file can be copied");
        }
    }
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
    if run_in(&root(), git.args(["rev-parse", "--is-inside-work-tree"])).is_none() {
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
    copy(&root(), folder.path());
    let source = folder.path().join("target/src");
    let before = fs::read_dir(&source).expect("the copy has target/src").count();
    let built = folder.path().join("build/debug");
    fs::create_dir_all(&built).expect("a build folder");
    fs::write(folder.path().join("build/CACHEDIR.TAG"), "").expect("a file");
    let output = Command::new(env!("CARGO"))
        .args(["clean", "--offline"])
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET_DIR")
        .current_dir(folder.path())
        .output()
        .expect("cargo clean runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!built.exists(), "cargo clean did not clean build/");
    let after = fs::read_dir(&source).expect("cargo clean removed target/src").count();
    assert_eq!(before, after, "cargo clean removed source files");
}

#[test]
fn the_top_level_is_fixed() {
    let allowed = TOP_LEVEL.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let present = top_level();
    let present = present.into_iter().filter(|name| !name.starts_with('.'));
    let foreign = present.filter(|name| !allowed.contains(name)).collect::<Vec<_>>();
    assert!(foreign.is_empty(), "not a place for {foreign:?}: see ARCHITECTURE.md");
}

#[test]
fn crates_import_in_one_direction() {
    let libraries = vec!["fabric", "arbitration", "qtcp", "units"];
    let above = [
        libraries.clone(),
        vec![
            "pmem",
            "fabric-verbs",
            "pmem-verbs",
            "sluice-core",
            "sluice-config",
            "sluice-machine",
        ],
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
