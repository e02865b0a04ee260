//! Tests of `sluice sim`, which runs the program sluice-sim.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::daemon::output;

/// Runs a command of the shell. Another process must write executable files: a thread that forks while this process
/// writes a program would keep the program from being executed.
fn shell(command: &str, argument: &Path) {
    let mut shell = Command::new("sh");
    assert!(shell.args(["-c", command, "sh"]).arg(argument).status().unwrap().success());
}

/// Writes a program sluice-sim that prints its arguments, each on a line, and ends with status 9.
fn planner(folder: &Path) {
    let program = r#"#!/bin/sh\nprintf "%%s\\n" "$@"\nexit 9\n"#;
    shell(&format!("printf '{program}' >\"$1\" && chmod 755 \"$1\""), &folder.join("sluice-sim"));
}

/// Runs a line by a copy of sluice in `folder`, with `path` as PATH. Returns the exit status, standard output and
/// standard error.
fn run(folder: &Path, path: &Path, line: &str) -> (Option<i32>, String, String) {
    let mut sluice = Command::new(folder.join("sluice"));
    output(sluice.args(line.split(' ')).env("PATH", path))
}

/// Makes a folder with a copy of sluice and an empty one.
fn folders() -> [tempfile::TempDir; 2] {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let sluice = env!("CARGO_BIN_EXE_sluice");
    shell(&format!("cp '{sluice}' \"$1\""), &folders[0].path().join("sluice"));
    folders
}

#[test]
fn sim_runs_the_planners_program_with_its_arguments_and_its_status() {
    let [own, path] = folders();
    for folder in [&path, &own] {
        planner(folder.path());
        for (line, arguments) in [
            ("sim", "\n"),
            ("sim run x.toml --seed 2 --json", "run\nx.toml\n--seed\n2\n--json\n"),
            ("--json --socket /s sim run x.toml", "--socket\n/s\n--json\nrun\nx.toml\n"),
            ("sim --timeout 2s predict -- -x", "--timeout\n2000000us\npredict\n--\n-x\n"),
            ("sim --help", "--help\n"),
        ] {
            let (code, out, err) = run(own.path(), path.path(), line);
            assert_eq!((code, out.as_str(), err.as_str()), (Some(9), arguments, ""), "{line}");
        }
        fs::remove_file(folder.path().join("sluice-sim")).unwrap();
    }
}

#[test]
fn sim_says_what_has_the_planners_program_where_there_is_none() {
    let [own, path] = folders();
    let (code, out, err) = run(own.path(), path.path(), "sim run x.toml");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("`make install`") && err.contains("-p sluice-sim"), "{err}");
}
