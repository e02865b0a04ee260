//! Figures that claim to show the daemon's behaviour run the daemon's code.
//!
//! A whole target on simulated time is made of the production crates: `sluice-core` with its stages, and
//! the controllers of `qtcp`. The window laws of `reproduce::models::law`, which the daemon lacks, are for figures
//! that say so: *Eq. 5 as printed*.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use e2e::root;

/// Code that a simulated target may not have of its own in place of the production cores: the controllers that the
/// daemon lacks, and schedulers, queues and sessions beside those in `sluice-core`.
const FOREIGN: &[&str] = &[
    "crate::control",
    "arbitration::container",
    "arbitration::arbiter::Arbiter",
    "arbitration::window",
];

/// The crates of the workspace that a figure of whole targets may not import: all but `sluice_sim`.
const OTHERS: &[&str] = &["arbitration", "fabric", "pmem", "qtcp", "sluice_core"];

/// Returns the Rust files below a folder, or the file itself.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    let files = e2e::files(path).expect("a folder can be read");
    let source = files.iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    source.map(|file| path.join(file)).collect()
}

/// Returns the code of a file: its text without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("source is text");
    text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

/// Lists the paths among `paths` that code names. Imports in braces count by the path before the braces.
fn named<'a>(code: &str, paths: &[&'a str]) -> Vec<&'a str> {
    let flat: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let names = |path: &&&str| {
        let whole = |at: usize| {
            let before = flat.get(..at).and_then(|text| text.chars().next_back());
            let after = flat.get(at + path.len()..).and_then(|text| text.chars().next());
            let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            !word(before) && !word(after)
        };
        let direct = flat.match_indices(**path).any(|(at, _)| whole(at));
        let (module, name) = path.rsplit_once("::").unwrap_or(("", path));
        let grouped = flat.split(&format!("use {module}::{{")).skip(1).any(|rest| {
            let inside = rest.split(';').next().unwrap_or_default();
            inside.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
        });
        direct || (!module.is_empty() && grouped)
    };
    paths.iter().filter(names).copied().collect()
}

#[test]
fn a_simulated_target_is_made_of_the_production_cores() {
    let source = root().join("tools/sim/src");
    let mut cores = 0;
    for part in ["target", "host", "model.rs", "connection.rs", "pair.rs"] {
        for path in files(&source.join(part)) {
            let code = code(&path);
            assert_eq!(named(&code, FOREIGN), [""; 0], "{}", path.display());
            cores += code.matches("Core::new(").count();
        }
    }
    assert!(cores > 0, "no `sluice_core::Core` is made anywhere");
}

#[test]
fn figures_of_whole_targets_reach_them_by_the_simulator_alone() {
    let paths: Vec<String> = OTHERS.iter().map(|name| format!("{name}::")).collect();
    let sim = root().join("tools/reproduce/src");
    let commands = root().join("tools/sim/src/command");
    let whole = [(sim.join("whole.rs"), "sluice_sim"), (commands.join("run.rs"), "crate")];
    for (path, simulator) in whole {
        assert!(code(&path).contains(&format!("{simulator}::model::")), "{}", path.display());
    }
    let mut figures = 0;
    let promises = files(&commands.join("promises"));
    for path in files(&sim).into_iter().chain(promises) {
        // A controller or a device alone is no target, nor are reports and the values of a scenario.
        let parts = [
            "claim::",
            "control::",
            "device::",
            "progress::",
            "report::",
            "scenario::value::",
            "scenario::DiskGeometry",
        ];
        let code = parts
            .iter()
            .fold(code(&path), |code, part| code.replace(&format!("sluice_sim::{part}"), ""));
        let names = ["whole::", "sluice_sim::", "crate::model::", "crate::load::"];
        let whole = names.iter().any(|name| code.contains(name));
        if whole {
            let found: Vec<&String> = paths.iter().filter(|path| code.contains(*path)).collect();
            assert!(found.is_empty(), "{} imports {found:?}", path.display());
            figures += 1;
        }
    }
    assert!(figures > 8, "{figures} files have whole targets");
}

#[test]
fn figures_with_controllers_of_their_own_say_that_they_are_of_eq_5_as_printed() {
    for path in files(&root().join("tools/reproduce/src")) {
        let text = fs::read_to_string(&path).expect("source is text");
        let figure = path.parent().is_some_and(|folder| folder.ends_with("e2e"));
        if figure && !named(&code(&path), &["crate::models::law"]).is_empty() {
            let says = ["Eq. 5", "D2TCP", "Fig. 15a"].iter().any(|name| text.contains(name));
            assert!(says, "{}: whose controllers are these?", path.display());
            assert!(!text.contains("the daemon"), "{} claims the daemon", path.display());
        }
    }
}

#[test]
fn what_a_target_has_of_its_own_is_found() {
    for code in [
        "use crate::control::Qrdma;",
        "use crate::{control::{Dcqcn, Qrdma}, plan};",
        "fn f() { crate::control::dcqcn::Dcqcn::default() }",
        "use arbitration::arbiter::{Arbiter, Waiters};",
    ] {
        assert!(!named(code, FOREIGN).is_empty(), "{code}");
    }
    for code in ["use arbitration::arbiter::Waiters;", "use qtcp::poller::control_plane;"] {
        assert_eq!(named(code, FOREIGN), [""; 0], "{code}");
    }
}
