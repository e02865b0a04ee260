//! Tests of output and exit statuses, on which scripts rely.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

use crate::daemon::{Daemon, output};
use serde_json::{Value, json};

/// Makes an answer that refuses.
fn refused(kind: &str, message: &str) -> Value {
    json!({ "error": { "kind": kind, "message": message } })
}

/// Runs a line. Returns the exit status, standard output and standard error.
fn run(daemon: &Daemon, line: &str) -> (Option<i32>, String, String) {
    output(&mut daemon.sluice(line))
}

/// Reads the error on one line of standard error: kind and message.
fn error(text: &str) -> (String, String) {
    assert_eq!(text.lines().count(), 1, "{text}");
    let error: Value = serde_json::from_str(text).unwrap();
    let field = |key: &str| error["error"][key].as_str().unwrap().to_owned();
    (field("kind"), field("message"))
}

#[test]
fn kinds_of_failure_have_statuses_and_are_json_where_that_is_wanted() {
    for (kind, status) in [
        ("not_found", 3),
        ("exists", 4),
        ("invalid", 5),
        ("refused", 6),
        ("system", 1),
        ("store", 1),
    ] {
        let daemon = Daemon::start(move |_, _| refused(kind, "no such thing"));
        let (code, out, err) = run(&daemon, "host list");
        assert_eq!((code, out.as_str()), (Some(status), ""), "{kind}");
        assert_eq!(err, "sluice: no such thing\n");
        for line in ["--json host list", "host list --json", "host --json list"] {
            let (code, out, err) = run(&daemon, line);
            assert_eq!((code, out.as_str()), (Some(status), ""), "{line}: {kind}");
            assert_eq!(error(&err), (kind.into(), "no such thing".into()));
        }
    }
}

#[test]
fn a_wrong_command_line_is_an_error_like_others() {
    let daemon = Daemon::none();
    for (line, words) in [
        ("namespace add q", "--backend"),
        ("no-such-command", "no-such-command"),
        ("--timeout soon status", "--timeout"),
    ] {
        let (code, _, err) = run(&daemon, line);
        assert!(code == Some(2) && err.contains("Usage:") | err.contains("For more"), "{err}");
        let (code, out, err) = run(&daemon, &format!("--json {line}"));
        assert_eq!((code, out.as_str()), (Some(2), ""));
        let (kind, message) = error(&err);
        assert!(kind == "usage" && message.contains(words), "{message}");
        assert!(!message.contains("Usage:") && !message.contains("For more"), "{message}");
    }
    let (code, out, _) = run(&daemon, "--json --help");
    assert!(code == Some(0) && out.contains("Usage: sluice"), "help is no error: {out}");
}

#[test]
fn without_a_daemon_the_status_is_seven() {
    let (code, _, err) = run(&Daemon::none(), "--json status");
    assert_eq!(code, Some(7));
    assert_eq!(error(&err).0, "no_daemon");
    let silent = Daemon::start(|_, _| json!(null));
    for line in ["status", "subsystem remove q", "top --once"] {
        let (code, _, err) = run(&silent, &format!("--json --timeout 200ms {line}"));
        assert_eq!(code, Some(7), "{line}: {err}");
        let (kind, message) = error(&err);
        assert!(kind == "no_daemon" && message.contains("within 200ms"), "{line}: {message}");
    }
}

#[test]
fn the_demo_of_reservations_needs_nothing_and_ends_well() {
    let (code, out, err) = run(&Daemon::none(), "pmem demo");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("\nreservations met with tokens: 20 of 20\n"), "{out}");
    let (code, out, _) = run(&Daemon::none(), "--json pmem demo");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["met"]), (Some(0), &json!(20)));
    assert_eq!(report["periods"][0][0]["client"], "database");
}

#[test]
fn a_status_that_is_not_right_has_its_own_exit_status() {
    let status = |problems: Value| {
        Daemon::start(move |_, _| json!({ "result": { "version": "1", "problems": problems } }))
    };
    let (code, ..) = run(&status(json!([])), "status");
    assert_eq!(code, Some(0));
    let wrong = status(json!(["namespace 1 of q: unavailable: /dev/sdb is gone"]));
    let (code, out, err) = run(&wrong, "status");
    assert_eq!((code, err.as_str()), (Some(8), ""));
    assert!(out.contains("/dev/sdb is gone"), "{out}");
    let (code, out, _) = run(&wrong, "status --json");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, answer["problems"].as_array().unwrap().len()), (Some(8), 1));
}

#[test]
fn a_secret_that_the_daemon_would_not_read_has_the_status_of_a_refusal() {
    let daemon = Daemon::start(|_, _| json!({"result": {"folder": "/etc/other", "hosts": []}}));
    let (code, made, _) = run(&daemon, "host key generate");
    assert_eq!(code, Some(0));
    let folder = tempfile::tempdir().unwrap();
    let (file, keys) = (folder.path().join("own.secret"), folder.path().join("keys"));
    std::fs::write(&file, made).unwrap();
    let (file, place) = (file.display(), keys.display());
    let line = format!("--json host key set --folder {place} nqn.2026-01.io.x:h {file}");
    let (code, _, err) = run(&daemon, &line);
    let (kind, message) = error(&err);
    assert_eq!((code, kind.as_str()), (Some(6), "refused"));
    assert!(message.contains("--folder /etc/other") && message.contains("sluice host add"));
    assert!(!keys.exists(), "nothing is stored");
    let (code, out, _) = run(&daemon, &format!("{line} --force"));
    assert!(code == Some(0) && keys.exists() && out.contains("Warning: "), "{out}");
}

#[test]
fn errors_of_values_name_the_option_that_was_written() {
    let daemon = Daemon::start(|_, _| {
        refused("invalid", "`block_size` is 5 bytes; write 512 or 4096\nthere is no `path`")
    });
    let (code, _, err) = run(&daemon, "namespace add q --backend file --block-size 5");
    assert_eq!(code, Some(5));
    assert_eq!(err, "sluice: `--block-size` is 5 bytes; write 512 or 4096\nthere is no `--path`\n");
}

#[test]
fn top_prints_an_object_for_each_interval() {
    let io = |done: u64| {
        let latency = json!({"sum": done * 1000, "mean": 1000, "p99": 9000,
                             "buckets": [1024, done, 9216, 500]});
        let kind = |operations: u64| {
            json!({"operations": operations, "bytes": operations * 4096, "errors": 0,
                   "latency_ns": latency})
        };
        json!({"read": kind(done), "write": kind(0), "other": kind(0), "queueing": latency,
               "service": latency})
    };
    let done = std::cell::Cell::new(0);
    let daemon = Daemon::start(move |method, params| match method {
        "status" => json!({"result": {"version": "1", "pid": 1, "uptime_seconds": done.get()}}),
        "statistics" => {
            assert_eq!(params["buckets"], true);
            done.set(done.get() + 1000);
            json!({"result": {"hosts": [{"host": "h", "subsystem": "s", "io": io(done.get())}]}})
        }
        "connections" => json!({"result": []}),
        _ => refused("unknown_method", "no"),
    });
    let (code, out, _) = run(&daemon, "top --count 2 --json --interval 100ms");
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}");
    for line in out.lines() {
        let seen: Value = serde_json::from_str(line).unwrap();
        let host = &seen["hosts"][0];
        assert_eq!((&host["host"], &host["subsystem"]), (&json!("h"), &json!("s")));
        assert!(host["iops"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!(host["queueing_ns"]["p99"], 1024.0, "of the interval, not since the start");
    }
    let (code, _, err) = run(&daemon, "--json qos show");
    let (kind, message) = error(&err);
    assert_eq!((code, kind.as_str()), (Some(1), "unknown_method"));
    assert!(message.contains("older than this program"), "{message}");
    let (_, out, _) = run(&daemon, "--json top --once --interval 100ms --filter other");
    let seen: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(seen["hosts"], json!([]), "{out}");
}

/// Returns a daemon with three events on two pages.
fn with_events() -> Daemon {
    Daemon::start(|method, params| {
        assert_eq!(method, "event.list");
        let event = |number: u64| {
            json!({"number": number, "time_ms": 1000 * number, "level": "warn",
                   "module": "sluiced", "message": format!("event {number}"),
                   "fields": {"host": "nqn.h"}})
        };
        let page = |lost: u64, numbers: &[u64], more: bool| {
            let events: Vec<Value> = numbers.iter().map(|number| event(*number)).collect();
            json!({"result": {"started_ms": 5, "lost": lost, "more": more, "events": events}})
        };
        match params["after"].as_u64().unwrap_or(0) {
            0 => page(2, &[3, 4], true),
            4 => page(0, &[5], false),
            _ => page(0, &[], false),
        }
    })
}

#[test]
fn events_are_lines_or_objects() {
    let daemon = with_events();
    let (code, out, err) = run(&daemon, "events");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("(2 earlier events are no longer in memory"), "{out}");
    assert!(lines[0].contains("journalctl"), "{out}");
    assert_eq!(lines[1], "1970-01-01T00:00:03.000Z  WARN   event 3");
    assert_eq!((lines.len(), lines[3]), (4, "1970-01-01T00:00:05.000Z  WARN   event 5"));
    let (code, out, _) = run(&daemon, "events --json");
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, objects.len(), &objects[0]), (Some(0), 4, &json!({"lost": 2})));
    assert_eq!(objects[3]["fields"]["host"], "nqn.h");
    let (code, out, _) = run(&daemon, "events --since 10min");
    assert_eq!((code, out.as_str()), (Some(0), ""), "all are of 1970");
}

#[test]
fn following_goes_on_until_killed() {
    use std::io::{BufRead as _, BufReader};
    let daemon = with_events();
    let mut sluice = daemon.sluice("events --follow");
    let mut child = sluice.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("(2 earlier"));
    assert!(lines.next().unwrap().unwrap().ends_with("event 3"));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, _, err) = run(&Daemon::none(), "--json events --follow");
    assert_eq!((code, error(&err).0), (Some(7), "no_daemon".into()));
}
