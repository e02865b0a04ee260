//! Tests against a daemon with fixed answers, and a terminal in memory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::Color;
use serde_json::{Value, json};
use sluice_config::Method;

use super::client::Client;
use super::draw::{Theme, draw, sparkline};
use super::model::{HISTORY, Model, Pane};
use super::sample::{Answers, Sample};
use super::state::{Action, State};
use super::{Args, plain};
use crate::control::table::Room;
use crate::testing::parse;

fn io(operations: u64, queue_sum: Option<u64>) -> Value {
    let latency = json!({ "mean": 50_000, "p50": 1, "p90": 2, "p99": 90_000, "p999": 4 });
    let mut queueing = latency.clone();
    if let Some(sum) = queue_sum {
        queueing["sum"] = json!(sum);
    }
    let op =
        |n: u64| json!({ "operations": n, "bytes": n * 4096, "errors": 0, "latency_ns": latency });
    json!({ "read": op(operations), "write": op(0), "other": op(0), "queueing": queueing,
            "service": latency })
}

/// Makes the answers of a daemon with `sessions` sessions after some commands on each.
fn answers(pid: u64, sessions: u64, done: u64) -> Answers {
    let status = json!({
        "version": "0.1.0", "pid": pid, "uptime_seconds": 3600, "connections": 7,
        "reactors": [{ "core": 2, "busy_ns": done * 1000 }],
    });
    let statistics = json!({
        "namespaces": [{ "subsystem": "nqn.x:disk", "nsid": 1, "io": io(done * sessions, None) }],
        "hosts": [{ "host": "nqn.h:\u{1b}[31mred", "subsystem": "nqn.x:disk",
                    "io": io(done, None) }],
        "queues": [],
        "workloads": [{ "host": "nqn.h:\u{1b}[31mred", "subsystem": "nqn.x:disk", "nsid": 9,
                        "class": "high", "io": io(done * 2, Some(done * 3000)) }],
    });
    let session = |number: u64| {
        json!({
            "name": format!("tenant{number}"), "parent": "root", "automatic": false,
            "commands": { "used": number, "credits": if number == 0 { u32::MAX } else { 64 } },
            "payload": { "used": 4096, "credits": 1 << 20 },
            "iops": 10_000, "read_iops": 8000, "bandwidth": null, "write_bandwidth": 5_000_000,
            "queue": 100, "waiting": 3, "refused": done,
            "reserve": (number == 1).then(|| json!({ "namespace": "nqn.x:disk/1",
                "terms": "5000 commands / 1 s", "utilisation": 0.3, "periods": 10, "kept": 9 })),
            "io": io(done * (number + 1), None),
        })
    };
    let class = |(at, name): (u64, &str)| json!({ "class": name, "waiting": at, "refused": 0, "io": io(done * at, Some(done * 1000)) });
    let classes = (0..).zip(["urgent", "high", "medium", "low"]).map(class);
    let qos = json!({
        "enabled": true, "weights": { "high": 3, "medium": 2, "low": 1 }, "unit": "commands",
        "window": "128", "classes": classes.collect::<Vec<_>>(),
        "sessions": (0..sessions).map(session).collect::<Vec<_>>(),
        "devices": [{ "subsystem": "nqn.x:disk", "nsid": 1, "arbitrated": true, "window": 128.0,
            "in_use": 17.4, "waiting": { "urgent": 0, "high": 5, "medium": 6, "low": 7 },
            "mean_ns": { "read": 80_000, "write": 20_000 }, "reserved": 0.25 }],
        "policies": [],
    });
    let flow = |marked: u64, limit: Option<f64>| {
        json!({ "rate": 4.5e9, "target": limit, "limit": limit, "alpha": 0.125, "quality": 0.96,
                "delivered": done * 8, "marked": marked })
    };
    let class = |(at, name): (u64, &str)| {
        let mut class = flow(done * at, (at > 0).then_some(4.75e9));
        class["class"] = json!(name);
        class["flows"] = json!(at + 2);
        class
    };
    let classes: Vec<Value> = (0..).zip(["urgent", "high", "medium", "low"]).map(class).collect();
    let network = json!({
        "enabled": true,
        "links": [{ "name": "east", "capacity": "10 Gbit/s",
                    "out": { "classes": classes },
                    "in": { "classes": [] } }],
    });
    let connection = |id: u64, network: Value| {
        json!({ "id": id, "host": "nqn.h:\u{1b}[31mred", "subsystem": "nqn.x:disk", "queue": 3,
                "network": network })
    };
    let known = json!({ "link": "east", "class": "high", "base": "dctcp", "rtt_us": 450,
                        "out": flow(done, Some(6.25e7)), "in": flow(0, None) });
    let connections = json!([connection(1, known), connection(2, json!(null))]);
    Answers { status, statistics, qos: Some(qos), network: Some(network), connections }
}

fn sample(at: Instant, answers: &Answers) -> Box<Sample> {
    Box::new(Sample::of(at, answers))
}

/// Makes a state after two samples a second apart, with 1000 commands more on each session.
fn state(sessions: u64) -> State {
    let mut state = State::new(Duration::from_secs(1), "");
    let begin = Instant::now();
    state.update(Ok(sample(begin, &answers(1, sessions, 5000))), begin);
    let later = begin + Duration::from_secs(1);
    state.update(Ok(sample(later, &answers(1, sessions, 6000))), later);
    state
}

fn screen(state: &mut State, (width, height): (u16, u16), colours: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let now = Instant::now();
    terminal.draw(|frame| draw(frame, state, Theme { colours }, now)).unwrap();
    terminal
}

/// Returns the content of a terminal of this size.
fn shown(state: &mut State, size: (u16, u16)) -> String {
    screen(state, size, true).backend().to_string()
}

fn press(state: &mut State, keys: &str) {
    keys.chars().for_each(|key| {
        state.key(KeyEvent::from(KeyCode::Char(key)));
    });
}

/// Starts a daemon that answers so many requests of a client, by their methods and parameters, and hangs up then.
fn serve(
    path: &Path,
    requests: usize,
    mut answer: impl FnMut(&str, &Value) -> Value + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok).take(requests) {
            let request: Value = serde_json::from_str(&line).unwrap();
            let mut answer = answer(request["method"].as_str().unwrap(), &request["params"]);
            answer["id"] = json!(1);
            writer.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
    })
}

/// Starts a daemon whose counters grow with each sample, and which hangs up after `lives` of them.
fn daemon(path: &Path, pid: u64, knows_qos: bool, lives: usize) -> std::thread::JoinHandle<()> {
    let mut done = 1000;
    serve(path, 5 * lives, move |method, _| {
        let answers = answers(pid, 2, done);
        let result = match method {
            "status" => answers.status,
            "statistics" => answers.statistics,
            "connections" => {
                done += 1000;
                answers.connections
            }
            _ if !knows_qos => {
                return json!({ "error": { "kind": "unknown_method", "message": "no" } });
            }
            "network.show" => json!(answers.network),
            _ => json!(answers.qos),
        };
        json!({ "result": result })
    })
}

#[test]
fn rates_are_what_changed_in_the_time_between_samples() {
    let state = state(3);
    let rates = state.model.rates(Pane::Sessions, "tenant2");
    assert!((rates.iops - 3000.0).abs() < 1e-6 && (rates.bytes - 3000.0 * 4096.0).abs() < 1e-3);
    assert!((rates.refused - 1000.0).abs() < 1e-6);
    assert_eq!(rates.queueing.mean, 50_000.0, "no sums: the mean since the daemon started");
    // 1000 x 1000 ns more for 2000 commands more.
    assert!((state.model.rates(Pane::Classes, "medium").queueing.mean - 500.0).abs() < 1e-6);
    assert_eq!(state.model.busy, [(2, 0.001)]);
    assert!((state.model.total.iops - 3000.0).abs() < 1e-6, "each command once");
}

#[test]
fn percentiles_are_of_the_last_interval_where_the_daemon_tells_enough() {
    let with_buckets = |fast: u64, buckets: bool| {
        let mut answers = answers(1, 1, fast);
        let times = &mut answers.qos.as_mut().unwrap()["classes"][1]["io"]["queueing"];
        times["p99"] = json!(9_000_000);
        if buckets {
            // The start was slow, and later commands were fast.
            times["buckets"] = json!([20_000, fast, 9_000_000, 5000]);
        }
        answers
    };
    for (buckets, p99) in [(true, 20_000.0), (false, 9_000_000.0)] {
        let mut model = Model::default();
        let begin = Instant::now();
        model.take(*sample(begin, &with_buckets(1000, buckets)));
        assert_eq!(model.rates(Pane::Classes, "high").queueing.p99, 9_000_000.0);
        model.take(*sample(begin + Duration::from_secs(1), &with_buckets(2000, buckets)));
        assert_eq!(model.rates(Pane::Classes, "high").queueing.p99, p99);
    }
}

#[test]
fn arrows_bring_every_column_to_a_narrow_terminal() {
    let mut state = state(3);
    press(&mut state, "2");
    let titles = |seen: &str| {
        let line = seen.lines().find(|line| line.contains("SESSION ")).unwrap().to_owned();
        let words = line.trim_matches(['"', ' ']).split_whitespace();
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let seen = shown(&mut state, (80, 24));
    assert!(seen.contains("← 0 columns ") && !seen.contains("KEPT"), "{seen}");
    let mut found = titles(&seen);
    for _ in 0..40 {
        state.key(KeyEvent::from(KeyCode::Right));
        let seen = shown(&mut state, (80, 24));
        assert!(seen.contains("tenant2"), "the name stays: {seen}");
        found.extend(titles(&seen));
    }
    for title in ["IOPS", "PAYLOAD", "RESERVED", "KEPT", "LATENCY", "WAIT", "DEVICE"] {
        assert!(found.iter().any(|seen| seen == title), "{title} is never seen: {found:?}");
    }
    let seen = shown(&mut state, (80, 24));
    assert!(seen.contains(" columns 0 →"), "the end: {seen}");
    assert!(state.aside < 20, "no further than it goes: {}", state.aside);
    (0..40).for_each(|_| {
        state.key(KeyEvent::from(KeyCode::Left));
    });
    let seen = shown(&mut state, (80, 24));
    assert_eq!(titles(&seen)[..2], ["SESSION", "IN"]);
    // If all columns have room, none is left out.
    state.key(KeyEvent::from(KeyCode::Right));
    let seen = shown(&mut state, (300, 24));
    assert!(!seen.contains(" columns ") && seen.contains("IN "), "{seen}");
}

#[test]
fn a_daemon_without_buckets_is_asked_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let (sender, asked) = std::sync::mpsc::channel();
    serve(&path, 9, move |_, params| {
        sender.send(()).unwrap();
        match params.get("buckets") {
            Some(_) => json!({"error": {"kind": "invalid", "message": "unknown key"}}),
            None => json!({"result": {"hosts": []}}),
        }
    });
    let mut client = Client::new(&path, Duration::from_secs(60));
    for _ in 0..2 {
        let answer = client.call_for_buckets(Method::Statistics).unwrap();
        assert_eq!(answer, Some(json!({"hosts": []})));
    }
    drop(client);
    assert_eq!(asked.iter().count(), 3, "it is remembered");
}

#[test]
fn a_host_is_told_by_class_and_namespace_with_waiting_apart_from_the_device() {
    let mut state = state(1);
    press(&mut state, "7");
    let seen = shown(&mut state, (200, 40));
    let row = seen.lines().find(|line| line.contains("nqn.x:disk/9")).expect(&seen);
    // 2000 reads in the second, which waited for 3 ms together.
    for part in ["nqn.h:[31mred", "high", "2.00 k", "1.50 us", "50.0 us"] {
        assert!(row.contains(part), "{part}:\n{seen}");
    }
    let all = super::json::object(&state.model, "disk/9");
    let row = &all["workloads"][0];
    assert_eq!((&row["namespace"], &row["class"]), (&json!("nqn.x:disk/9"), &json!("high")));
    assert_eq!((&row["iops"], &row["queueing_ns"]["mean"]), (&json!(2000.0), &json!(1500.0)));
    assert_eq!(super::json::object(&state.model, "no such")["workloads"], json!([]));
}

#[test]
fn limits_of_reads_and_writes_are_shown_with_those_of_all_commands() {
    let mut state = state(1);
    press(&mut state, "2");
    let seen = shown(&mut state, (200, 40));
    let row = seen.lines().find(|line| line.contains("tenant0")).expect(&seen);
    assert!(row.contains("10.0 k, r 8.00 k") && row.contains("w 5 "), "{seen}");
    let row = &super::json::object(&state.model, "")["sessions"][0];
    let limits = ["iops_limit", "read_iops_limit", "write_iops_limit", "write_bandwidth_limit"];
    assert_eq!(json!(limits.map(|key| &row[key])), json!([10_000, 8000, null, 5_000_000]));
}

#[test]
fn what_is_gone_is_forgotten_and_history_is_bounded() {
    let mut model = Model::default();
    let begin = Instant::now();
    for second in 0..u64::try_from(HISTORY).unwrap() + 50 {
        let at = begin + Duration::from_secs(second);
        model.take(*sample(at, &answers(1, 5, second * 10)));
    }
    assert_eq!(model.rates(Pane::Sessions, "tenant4").history.len(), HISTORY);
    assert_eq!(model.total.history.len(), HISTORY);
    model.take(*sample(begin + Duration::from_secs(900), &answers(1, 2, 9000)));
    assert!(model.rates(Pane::Sessions, "tenant4").history.is_empty());
    assert!(!model.rates(Pane::Sessions, "tenant1").history.is_empty());
}

#[test]
fn another_daemon_starts_anew_and_is_told_of() {
    let mut state = state(2);
    let now = Instant::now() + Duration::from_secs(2);
    state.update(Err("sluiced is not running".to_owned()), now);
    assert!(shown(&mut state, (120, 30)).contains("sluiced is not running"));
    state.update(Ok(sample(now, &answers(2, 2, 10))), now);
    assert_eq!(state.notice(now), Some("the daemon was restarted"));
    let rates = state.model.rates(Pane::Sessions, "tenant1");
    assert!(rates.iops == 0.0 && rates.history.is_empty(), "counters that began at zero: no rate");
    assert_eq!(state.notice(now + Duration::from_secs(60)), None);
}

#[test]
fn everything_is_on_the_screen_and_nothing_a_host_says_controls_it() {
    let mut state = state(3);
    for (pane, parts) in [
        ("2", &["urgent", "weights 3:2:1", "tenant2", "5000 commands", "90.0 %", "2/64"][..]),
        ("3", &["nqn.x:disk/1", "17/128", "25.0 %"]),
        ("4", &["nqn.h:[31mred"]),
        ("5", &["5 Links", "east", "4.5 Gbit/s", "4.75 Gbit/s", "12.5 %", "0.96"]),
        ("6", &["6 Connections", "62.5 Mbit/s", "dctcp", "450 us", "nqn.h:[31mred"]),
    ] {
        press(&mut state, pane);
        let seen = shown(&mut state, (240, 40));
        assert!(!seen.contains('\u{1b}'), "{seen}");
        for part in parts {
            assert!(seen.contains(part), "{part}:\n{seen}");
        }
    }
    press(&mut state, "2");
    assert!(!shown(&mut state, (240, 40)).contains("4294967295"), "no limit is no number");
}

#[test]
fn e1_what_flows_is_shown_class_by_class_and_connection_by_connection() {
    let state = state(1);
    let cells = |pane: Pane| -> Vec<Vec<String>> {
        let rows = state.table(pane).rows;
        rows.iter()
            .map(|row| row.cells.iter().map(|cell| cell.text().to_owned()).collect())
            .collect()
    };
    let links = cells(Pane::Links);
    assert_eq!(links.len(), 4, "{links:?}");
    // 1000 rounds in a second: 8 packets each, of High one marked.
    let high = "east|out|high|3|4.5 Gbit/s|4.75 Gbit/s|4.75 Gbit/s|12.5 %|0.96|1.00 k|8.00 k|";
    assert_eq!(links[1].join("|"), high);
    assert_eq!(links[0][5..7], ["-", "-"], "urgent is free");
    let connections = cells(Pane::Connections);
    assert_eq!(connections.len(), 2, "nothing is known of the other: {connections:?}");
    let first = "3|out|high|dctcp|450 us|4.5 Gbit/s|62.5 Mbit/s|62.5 Mbit/s|12.5 %";
    assert_eq!(connections[0][2..11].join("|"), first);
    assert_eq!(connections[1][8..10], ["-", "-"], "what hosts send is not held back");
}

#[test]
fn a_network_that_is_off_is_told_of() {
    let mut answers = answers(1, 1, 1);
    let mut model = Model::default();
    model.take(*sample(Instant::now(), &answers));
    assert!(!plain::text(&model, "", Room::Unlimited).contains("network classes are off"));
    answers.network = Some(json!({ "enabled": false, "links": [] }));
    model.take(*sample(Instant::now(), &answers));
    let text = plain::text(&model, "", Room::Unlimited);
    assert!(text.contains("network classes are off") && !text.contains("Links"), "{text}");
}

#[test]
fn any_size_of_terminal_is_drawn_with_thousands_of_sessions() {
    let mut state = state(4000);
    for size in [(1, 1), (3, 2), (10, 5), (20, 17), (80, 24), (79, 18), (300, 100), (40, 3)] {
        for keys in ["1", "2", "3", "4", "5", "6", "?", "x"] {
            press(&mut state, keys);
            state.forget_widths();
            screen(&mut state, size, true);
        }
    }
    press(&mut state, "2");
    state.key(KeyEvent::from(KeyCode::End));
    let seen = shown(&mut state, (160, 40));
    assert!(seen.contains("tenant0 "), "the busiest first, the idlest last:\n{seen}");
    state.key(KeyEvent::from(KeyCode::Home));
    let seen = shown(&mut state, (160, 40));
    assert!(seen.contains("tenant3999 ") && !seen.contains("tenant0 "), "{seen}");
}

#[test]
fn names_are_cut_at_their_beginning_before_anything_is_left_out() {
    let mut state = state(3);
    press(&mut state, "4");
    let at = |state: &mut State, width: u16| {
        state.forget_widths();
        let seen = shown(state, (width, 12));
        (seen.contains("nqn.h:[31mred"), seen.contains("OVER TIME"), seen.contains("LATENCY"))
    };
    assert_eq!(at(&mut state, 200), (true, true, true));
    assert_eq!(at(&mut state, 100), (false, false, true));
    assert_eq!(at(&mut state, 60), (false, false, false));
    let seen = shown(&mut state, (60, 12));
    assert!(seen.contains("…n.h:[31mred"), "{seen}");
}

#[test]
fn rows_are_sorted_filtered_and_hidden_by_keys() {
    let names = |state: &State| -> Vec<String> {
        let rows = state.table(Pane::Sessions).rows;
        rows.iter().map(|row| row.cells[0].text().to_owned()).collect()
    };
    let mut state = state(3);
    assert_eq!(names(&state), ["tenant2", "tenant1", "tenant0"], "by IOPS");
    press(&mut state, "r");
    assert_eq!(names(&state), ["tenant0", "tenant1", "tenant2"]);
    press(&mut state, "<<r");
    assert_eq!(names(&state), ["tenant2", "tenant1", "tenant0"], "by name, backwards");
    press(&mut state, "<");
    assert_eq!(names(&state), ["tenant0", "tenant1", "tenant2"], "the daemon's order");
    press(&mut state, "/TENANT1q");
    assert_eq!(names(&state), Vec::<String>::new());
    state.key(KeyEvent::from(KeyCode::Backspace));
    state.key(KeyEvent::from(KeyCode::Enter));
    assert_eq!(names(&state), ["tenant1"]);
    assert_eq!(state.key(KeyEvent::from(KeyCode::Esc)), Action::Redraw);
    assert_eq!(names(&state).len(), 3);
    let later = Instant::now() + Duration::from_secs(9);
    press(&mut state, " ");
    state.update(Ok(sample(later, &answers(1, 1, 9000))), later);
    assert_eq!(names(&state).len(), 3, "held");
    assert_eq!(state.key(KeyEvent::from(KeyCode::Char('q'))), Action::Quit);
}

#[test]
fn the_interval_stays_within_its_bounds() {
    let mut state = state(1);
    for (key, end) in [('-', Duration::from_millis(100)), ('+', Duration::from_secs(3600))] {
        (0..30).for_each(|_| press(&mut state, &key.to_string()));
        assert_eq!(state.interval, end);
    }
}

#[test]
fn without_colours_there_are_none() {
    let mut state = state(3);
    for colours in [false, true] {
        let terminal = screen(&mut state, (160, 40), colours);
        let coloured = |cell: &ratatui::buffer::Cell| cell.fg != Color::Reset;
        assert_eq!(terminal.backend().buffer().content().iter().any(coloured), colours);
    }
}

#[test]
fn bars_are_as_high_as_their_values() {
    let history = [0.0, 1.0, 4.0, 8.0].into_iter().collect();
    assert_eq!(sparkline(&history, 10), " ▁▄█");
    assert_eq!(sparkline(&history, 2), "▄█", "the newest");
    assert_eq!(sparkline(&[0.0, 0.0].into_iter().collect(), 5), "  ");
}

#[test]
fn text_is_printed_once_for_daemons_with_and_without_stages() {
    for knows_qos in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        daemon(&path, 1, knows_qos, 2);
        let mut client = Client::new(&path, Duration::from_secs(60));
        let mut model = Model::default();
        model.take(Sample::take(&mut client).unwrap());
        model.take(Sample::take(&mut client).unwrap());
        let text = plain::text(&model, "", Room::Unlimited);
        assert!(text.contains("sluiced 0.1.0, up 1 h 0 min") && text.contains("nqn.x:disk/1"));
        assert_eq!(text.contains("tenant1"), knows_qos, "{text}");
        assert_eq!(text.contains("no quality of service"), !knows_qos, "{text}");
        assert_eq!(text.contains("Links\nLINK"), knows_qos, "{text}");
        assert!(text.contains("Connections\nHOST") && text.contains("dctcp"), "{text}");
        assert!(!plain::text(&model, "tenant0", Room::Unlimited).contains("tenant1"));
    }
}

#[test]
fn text_fits_120_columns_and_no_two_columns_have_one_name() {
    let state = state(3);
    for pane in Pane::ALL {
        let table = state.table(pane);
        let mut titles: Vec<_> = table.columns.iter().map(|column| column.title).collect();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), table.columns.len(), "{pane:?}: {titles:?}");
    }
    let text = plain::text(&state.model, "", Room::Pipe);
    let mut lines = text.lines().skip(1).filter(|line| !line.starts_with("(not shown: "));
    assert!(lines.all(|line| line.chars().count() <= 120), "{text}");
    assert!(text.contains("  5000 commands / 1 s  "), "{text}");
    let narrow = plain::text(&state.model, "", Room::Terminal(60));
    assert!(narrow.contains("--wide shows all"), "{narrow}");
}

#[test]
fn a_client_connects_again_when_the_daemon_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let first = daemon(&path, 1, true, 1);
    let mut client = Client::new(&path, Duration::from_secs(60));
    assert_eq!(Sample::take(&mut client).unwrap().daemon.pid, 1);
    first.join().unwrap();
    let error = Sample::take(&mut client).unwrap_err().to_string();
    assert!(error.contains("not running"), "{error}");
    std::fs::remove_file(&path).unwrap();
    daemon(&path, 2, true, 1);
    assert_eq!(Sample::take(&mut client).unwrap().daemon.pid, 2);
}

#[test]
fn the_arguments_choose_text_or_a_screen() {
    let parse = parse::<Args>;
    for (line, terminal, prints) in [
        ("top", true, None),
        ("top", false, Some(0)),
        ("top --once", true, Some(1)),
        ("top --count 3", true, Some(3)),
    ] {
        assert_eq!(parse(line).unwrap().prints(terminal), prints, "{line}");
    }
    assert!(parse("top --interval 10ms").is_err() && parse("top --once --count 2").is_err());
}
