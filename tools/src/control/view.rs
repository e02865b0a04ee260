//! Answers as people read them.

use serde_json::Value;

use super::args::Request;
use super::table::Align::{Left, Right};
use super::table::{Room, Table, duration, size};
use super::{namespace_view, network_view, qos_view, statistics_view};

/// The answer to a method as text.
pub(super) fn text(request: &Request, result: &Value, room: Room) -> String {
    let method = request.method;
    match method {
        "status" => status(result, room),
        "statistics" => statistics_view::text(result, room),
        "connections" => connections(result, room),
        "subsystem.list" => subsystems(result, room),
        "namespace.list" => namespace_view::list(result, room),
        "namespace.retry" => namespace_view::retried(result, room),
        "listener.list" => listeners(result, room),
        "host.list" => hosts(result, room),
        "reload" => reload(result, is(&request.params, "check")),
        "shutdown" => "The daemon is ending.\n".into(),
        _ => network_view::text(method, result, room)
            .or_else(|| qos_view::text(method, result, room))
            .unwrap_or_else(|| change(method, result)),
    }
}

/// Whether the answer to `status` tells of something that is not right.
pub(super) fn has_problems(status: &Value) -> bool {
    let counted = ["namespaces_unavailable", "namespaces_with_errors"];
    !list(status, "problems").is_empty() || counted.iter().any(|key| number(status, key) > 0)
}

/// A field as text; nothing where it is missing.
pub(super) fn field(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => if *flag { "yes" } else { "no" }.into(),
        Some(other) => other.to_string(),
    }
}

/// A field as text; `-` where it is missing.
pub(super) fn or_dash(value: &Value, key: &str) -> String {
    Some(field(value, key)).filter(|text| !text.is_empty()).unwrap_or_else(|| "-".into())
}

pub(super) fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn rows(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The rows of a list below a key.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).map(rows).unwrap_or_default()
}

/// What is below a key; nothing where it is missing.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().try_fold(value, |value, key| value.get(key)).unwrap_or(&Value::Null)
}

/// Whether a switch is on.
pub(super) fn is(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}

/// "1 listener", "2 listeners".
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A list of names in one cell; `all` where there is no list.
pub(super) fn names(value: &Value, key: &str, all: &str) -> String {
    match value.get(key).and_then(Value::as_array) {
        None => all.into(),
        Some(list) if list.is_empty() => "none".into(),
        Some(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
    }
}

fn status(result: &Value, room: Room) -> String {
    let kept = match result.get("durable").and_then(Value::as_bool) {
        Some(true) => "survive a restart",
        _ => "end with the daemon (no `state` in its configuration)",
    };
    let mut text = format!(
        "sluiced {}, process {}, up {}\n",
        field(result, "version"),
        field(result, "pid"),
        duration(number(result, "uptime_seconds"))
    );
    text += &format!(
        "{}, {}, {}, {} ({} accepted)\n",
        count(number(result, "listeners"), "listener"),
        count(number(result, "subsystems"), "subsystem"),
        count(number(result, "namespaces"), "namespace"),
        count(number(result, "connections"), "connection"),
        field(result, "accepted"),
    );
    text += &format!(
        "{}, {}\nLive changes {kept}.\n",
        count(number(result, "protocol_errors"), "protocol error"),
        count(number(result, "keep_alive_expired"), "keep-alive timeout"),
    );
    let mut table = Table::new(&[("CPU", Right), ("CONNECTIONS", Right), ("BUFFERS", Right)]);
    let reactors = result.get("reactors").map(rows).unwrap_or_default();
    for reactor in reactors {
        let (used, total) = (number(reactor, "buffer_used"), number(reactor, "buffer_total"));
        let buffers = format!("{} of {}", size(used), size(total));
        table.row(vec![field(reactor, "core"), field(reactor, "connections"), buffers]);
    }
    text += "\n";
    text += &table.text("no reactors", room);
    let problems = list(result, "problems");
    if has_problems(result) {
        text += "\nNot right:\n";
    }
    for (key, what) in
        [("namespaces_unavailable", "not available"), ("namespaces_with_errors", "with errors")]
    {
        // Only where the daemon has no line for it.
        let namespaces = number(result, key);
        if namespaces > 0 && problems.is_empty() {
            text += &format!("  {} {what}\n", count(namespaces, "namespace"));
        }
    }
    for problem in problems.iter().filter_map(Value::as_str) {
        text += &format!("  {problem}\n");
    }
    text
}

/// What a new look at the configuration file brought about, or would.
fn reload(result: &Value, only_checked: bool) -> String {
    let (changes, restart) = (list(result, "changes"), list(result, "needs_restart"));
    let lines = |heading: &str, list: &[Value]| {
        let lines = list.iter().filter_map(Value::as_str).map(|line| format!("  {line}\n"));
        if list.is_empty() {
            String::new()
        } else {
            format!("{heading}\n") + &lines.collect::<String>()
        }
    };
    let heading = if only_checked { "A reload would change:" } else { "Changed:" };
    let text = lines(heading, changes) + &lines("Needs a restart to take effect:", restart);
    let text = text + &lines("Note:", list(result, "warnings"));
    match text.is_empty() {
        true => "The daemon runs what the configuration file says; nothing changes.\n".into(),
        false => text,
    }
}

/// What a narrow terminal does without in the list of connections.
const LEAST_OF_CONNECTION: [&str; 10] =
    ["DIGESTS", "REACTOR", "BASE", "LINK", "ID", "LIMIT IN", "LIMIT OUT", "CLASS", "RTT", "CTRL"];

fn connections(result: &Value, room: Room) -> String {
    let heading = [
        ("ID", Right),
        ("PEER", Left),
        ("HOST", Left),
        ("SUBSYSTEM", Left),
        ("CTRL", Right),
        ("QUEUE", Right),
        ("IN FLIGHT", Right),
        ("REACTOR", Right),
        ("DIGESTS", Left),
    ];
    // What is known of the network stands behind, where anything is.
    let network = rows(result).iter().any(|row| !at(row, &["network"]).is_null());
    let more = network_view::CONNECTION.into_iter().filter(|_| network);
    let mut table = Table::new(&heading.into_iter().chain(more).collect::<Vec<_>>())
        .least(&LEAST_OF_CONNECTION);
    for row in rows(result) {
        let digest = |index: usize| {
            row.get("digests").and_then(|pair| pair.get(index)) == Some(&Value::Bool(true))
        };
        let digests = match (digest(0), digest(1)) {
            (false, false) => "-",
            (true, false) => "header",
            (false, true) => "data",
            (true, true) => "header, data",
        };
        let mut cells = vec![
            field(row, "id"),
            field(row, "peer"),
            or_dash(row, "host"),
            or_dash(row, "subsystem"),
            or_dash(row, "controller"),
            or_dash(row, "queue"),
            field(row, "in_flight"),
            field(row, "reactor"),
            digests.into(),
        ];
        cells.extend(network_view::connection(row).into_iter().filter(|_| network));
        table.row(cells);
    }
    table.text("No host is connected.", room)
}

fn subsystems(result: &Value, room: Room) -> String {
    let mut table = Table::new(&[
        ("SUBSYSTEM", Left),
        ("SERIAL", Left),
        ("MODEL", Left),
        ("NAMESPACES", Right),
        ("CAPACITY", Right),
        ("HOSTS", Left),
    ])
    .least(&["MODEL", "SERIAL"]);
    for row in rows(result) {
        let inside = row.get("namespaces").map(rows).unwrap_or_default();
        let capacity = inside.iter().map(|n| number(n, "size")).fold(0, u64::saturating_add);
        table.row(vec![
            field(row, "nqn"),
            field(row, "serial"),
            or_dash(row, "model"),
            inside.len().to_string(),
            size(capacity),
            allowed(row),
        ]);
    }
    table.text("There are no subsystems.", room)
}

/// Which hosts may connect, in few words.
fn allowed(row: &Value) -> String {
    let count = row.get("hosts").map_or(0, |hosts| rows(hosts).len());
    match (row.get("allow_any_host").and_then(Value::as_bool), count) {
        (Some(true), _) => "any".into(),
        (_, count) => count.to_string(),
    }
}

fn listeners(result: &Value, room: Room) -> String {
    let mut table = Table::new(&[
        ("ADDRESS", Left),
        ("TRANSPORT", Left),
        ("ADVERTISED AS", Left),
        ("SERVES", Left),
        ("CLASS", Left),
        ("LINK", Left),
    ])
    .least(&["TRANSPORT", "LINK"]);
    for row in rows(result) {
        let discovery = row.get("discovery_only") == Some(&Value::Bool(true));
        let serves =
            if discovery { "discovery".into() } else { names(row, "subsystems", "all subsystems") };
        let cells = ["address", "transport"].map(|key| field(row, key));
        let mut cells = cells.to_vec();
        cells.extend([or_dash(row, "advertise"), serves]);
        cells.extend(["class", "link"].map(|key| or_dash(row, key)));
        table.row(cells);
    }
    table.text("There are no listeners: no host can connect.", room)
}

fn hosts(result: &Value, room: Room) -> String {
    let mut table = Table::new(&[("SUBSYSTEM", Left), ("HOST", Left)]);
    for row in rows(result) {
        let nqn = field(row, "subsystem");
        if row.get("allow_any_host") == Some(&Value::Bool(true)) {
            table.row(vec![nqn.clone(), "any host".into()]);
        }
        for host in row.get("hosts").map(rows).unwrap_or_default() {
            table.row(vec![nqn.clone(), host.as_str().unwrap_or_default().into()]);
        }
    }
    table.text("No host may connect.", room)
}

/// What a change did, in a sentence.
fn change(method: &str, result: &Value) -> String {
    let of = |key: &str| field(result, key);
    let sentence = match method {
        "subsystem.add" => format!("Added subsystem {} (serial {}).", of("nqn"), of("serial")),
        "subsystem.remove" => format!("Removed subsystem {}.", of("nqn")),
        "namespace.add" => {
            format!("Added namespace {} to {} (UUID {}).", of("nsid"), of("subsystem"), of("uuid"))
        }
        "namespace.remove" => {
            format!("Removed namespace {} from {}.", of("nsid"), of("subsystem"))
        }
        "namespace.resize" => format!(
            "Namespace {} of {} has {} now.",
            of("nsid"),
            of("subsystem"),
            size(number(result, "size"))
        ),
        "listener.add" => format!("Listening on {}.", of("address")),
        "listener.remove" => format!("No longer listening on {}.", of("address")),
        "host.add" => format!("{} may connect to {}.", of("host"), of("subsystem")),
        "host.remove" => format!("{} is refused by {}.", of("host"), of("subsystem")),
        "host.any" if result.get("allow_any_host") == Some(&Value::Bool(true)) => {
            format!("Any host may connect to {}.", of("subsystem"))
        }
        "host.any" => format!("Only listed hosts may connect to {}.", of("subsystem")),
        _ => result.to_string(),
    };
    sentence + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An answer as text, as wide as it becomes.
    fn text(method: &'static str, answer: &Value) -> String {
        super::text(&Request { method, params: json!({}) }, answer, None)
    }

    fn healthy() -> Value {
        json!({
            "version": "0.1.0", "pid": 7, "uptime_seconds": 9, "listeners": 1, "subsystems": 1,
            "namespaces": 2, "connections": 0, "accepted": 3, "durable": true, "reactors": [],
            "namespaces_unavailable": 0, "namespaces_with_errors": 0, "problems": [],
        })
    }

    #[test]
    fn a_status_tells_what_is_not_right() {
        let mut answer = healthy();
        assert!(!has_problems(&answer) && !text("status", &answer).contains("Not right"));
        assert!(!has_problems(&json!({})), "a daemon that says nothing of it");
        answer["namespaces_with_errors"] = json!(1);
        assert!(has_problems(&answer));
        assert!(text("status", &answer).ends_with("Not right:\n  1 namespace with errors\n"));
        answer["problems"] = json!(["q/1: 3 errors of /dev/sdb since 12:00"]);
        let seen = text("status", &answer);
        assert!(seen.ends_with("Not right:\n  q/1: 3 errors of /dev/sdb since 12:00\n"), "{seen}");
    }

    #[test]
    fn a_reload_tells_what_changed_and_what_cannot() {
        let answer = json!({"changes": ["subsystem q is added"], "needs_restart": ["`cores`"],
                            "warnings": ["h1 loses disk 2"]});
        let seen = |check| {
            let params = if check { json!({ "check": true }) } else { json!({}) };
            super::text(&Request { method: "reload", params }, &answer, None)
        };
        let rest = "\n  subsystem q is added\nNeeds a restart to take effect:\n  `cores`\n\
                    Note:\n  h1 loses disk 2\n";
        assert_eq!(seen(false), format!("Changed:{rest}"));
        assert_eq!(seen(true), format!("A reload would change:{rest}"));
        let same = text("reload", &json!({"changes": [], "needs_restart": []}));
        assert!(same.contains("nothing changes"), "{same}");
    }

    #[test]
    fn connections_fit_into_a_terminal() {
        let host = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let network = json!({"link": "default", "class": "high", "base": "dctcp", "rtt_us": 450,
                             "out": {"limit": 4.75e9}, "in": {"limit": null}});
        let row = json!({"id": 72_057_594_037_927_937u64, "peer": "192.0.2.17:54321", "host": host,
                         "subsystem": "nqn.2026-01.com.example:disk2", "controller": 1, "queue": 1,
                         "in_flight": 0, "reactor": 0, "digests": [true, true], "network": network});
        let request = Request { method: "connections", params: json!({}) };
        for width in [80, 120, 160] {
            let seen = super::text(&request, &json!([row]), Some(width));
            for line in seen.lines().take(2) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(seen.contains("c91e6bf6") && seen.contains("disk2"), "{seen}");
        }
        let whole = text("connections", &json!([row]));
        assert!(whole.contains(host) && whole.contains("header, data"), "{whole}");
    }

    #[test]
    fn connections_show_the_network_where_anything_is_known_of_it() {
        let row = |network: Value| {
            json!({"id": 7, "peer": "p", "host": "h", "subsystem": "s", "controller": 1,
                   "queue": 1, "in_flight": 0, "reactor": 0, "digests": [false, false],
                   "network": network})
        };
        let without = text("connections", &json!([row(json!(null))]));
        assert!(!without.contains("RTT"), "{without}");
        let known = json!({"link": "default", "class": "high", "base": "dctcp", "rtt_us": 450,
                           "out": {"limit": 4.75e9}, "in": {"limit": null}});
        let with = text("connections", &json!([row(known), row(json!(null))]));
        let line: Vec<&str> = with.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(line.join(" "), "7 p h s 1 1 0 0 - default high dctcp 450 us 4.75 Gbit/s -");
        assert!(with.lines().nth(2).unwrap().ends_with('-'), "{with}");
    }

    #[test]
    fn hosts_are_listed_one_by_one() {
        let answer = json!([
            {"subsystem": "a", "allow_any_host": true, "hosts": []},
            {"subsystem": "b", "allow_any_host": false, "hosts": ["h1", "h2"]},
        ]);
        let text = text("host.list", &answer);
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("any host") && text.contains("h2"), "{text}");
    }

    #[test]
    fn changes_are_told_in_a_sentence() {
        let answer = json!({"subsystem": "q", "nsid": 3, "size": 4096, "durable": true});
        assert_eq!(text("namespace.resize", &answer), "Namespace 3 of q has 4 KiB now.\n");
    }
}
