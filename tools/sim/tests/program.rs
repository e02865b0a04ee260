//! Tests of the program's failures, on which scripts rely.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;

/// Runs a line without a daemon. Returns the exit status and standard error.
fn run(line: &str) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_sluice-sim"));
    let output = program.args(line.split(' ')).env("SLUICEGATE_CONTROL", "/nowhere").output();
    let output = output.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn failures_have_kinds_and_statuses_and_are_json_where_that_is_wanted() {
    for (line, status, says) in [
        ("profile nqn.2026-01.io.x:disk/1", 7, &["sluice-sim: sluiced is not running"][..]),
        ("profile nqn.2026-01.io.x:disk/1 --json", 7, &["{\"error\":{\"kind\":\"no_daemon\","]),
        ("run /nowhere/none.toml", 1, &["sluice-sim: "]),
        ("--json e2e-9", 2, &["{\"error\":{\"kind\":\"usage\",", "e2e-9"]),
    ] {
        let (code, err) = run(line);
        assert_eq!(code, Some(status), "{line}: {err}");
        assert!(err.starts_with(says[0]) && says.iter().all(|text| err.contains(text)), "{err}");
    }
}

#[test]
fn keys_on_a_wrong_command_line_are_masked() {
    for line in ["run x.toml DHHC-1:00:AAECAwQF:", "--json run x.toml DHHC-1:00:AAECAwQF:"] {
        let (code, err) = run(line);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("DHHC-1:****") && !err.contains("AAEC"), "{err}");
    }
}
