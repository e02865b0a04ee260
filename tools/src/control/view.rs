//! Answers as people read them.

use serde_json::Value;

use super::table::Align::{Left, Right};
use super::table::{Table, duration, size};
use super::{network_view, qos_view};

/// The answer to a method as text.
pub(super) fn text(method: &str, result: &Value) -> String {
    match method {
        "status" => status(result),
        "connections" => connections(result),
        "subsystem.list" => subsystems(result),
        "namespace.list" => namespaces(result),
        "listener.list" => listeners(result),
        "host.list" => hosts(result),
        "shutdown" => "The daemon is ending.\n".into(),
        _ => network_view::text(method, result)
            .or_else(|| qos_view::text(method, result))
            .unwrap_or_else(|| change(method, result)),
    }
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
fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A list of names in one cell; `all` where there is no list.
fn names(value: &Value, key: &str, all: &str) -> String {
    match value.get(key).and_then(Value::as_array) {
        None => all.into(),
        Some(list) if list.is_empty() => "none".into(),
        Some(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
    }
}

fn status(result: &Value) -> String {
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
    text + "\n" + &table.text("no reactors")
}

fn connections(result: &Value) -> String {
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
    let mut table = Table::new(&heading.into_iter().chain(more).collect::<Vec<_>>());
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
    table.text("No host is connected.")
}

fn subsystems(result: &Value) -> String {
    let mut table = Table::new(&[
        ("SUBSYSTEM", Left),
        ("SERIAL", Left),
        ("MODEL", Left),
        ("NAMESPACES", Right),
        ("CAPACITY", Right),
        ("HOSTS", Left),
    ]);
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
    table.text("There are no subsystems.")
}

/// Which hosts may connect, in few words.
fn allowed(row: &Value) -> String {
    let count = row.get("hosts").map_or(0, |hosts| rows(hosts).len());
    match (row.get("allow_any_host").and_then(Value::as_bool), count) {
        (Some(true), _) => "any".into(),
        (_, count) => count.to_string(),
    }
}

fn namespaces(result: &Value) -> String {
    let mut table = Table::new(&[
        ("SUBSYSTEM", Left),
        ("NSID", Right),
        ("BACKEND", Left),
        ("PATH", Left),
        ("SIZE", Right),
        ("BLOCK", Right),
        ("MODE", Left),
        ("UUID", Left),
        ("HOSTS", Left),
        ("STATE", Left),
    ]);
    for row in rows(result) {
        let read_only = row.get("read_only") == Some(&Value::Bool(true));
        let (state, reason) = (field(row, "state"), field(row, "reason"));
        table.row(vec![
            field(row, "subsystem"),
            field(row, "nsid"),
            field(row, "backend"),
            or_dash(row, "path"),
            size(number(row, "size")),
            field(row, "block_size"),
            if read_only { "ro" } else { "rw" }.into(),
            field(row, "uuid"),
            names(row, "hosts", "all"),
            if reason.is_empty() { state } else { format!("{state}: {reason}") },
        ]);
    }
    table.text("There are no namespaces.")
}

fn listeners(result: &Value) -> String {
    let mut table = Table::new(&[
        ("ADDRESS", Left),
        ("TRANSPORT", Left),
        ("ADVERTISED AS", Left),
        ("SERVES", Left),
        ("CLASS", Left),
        ("LINK", Left),
    ]);
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
    table.text("There are no listeners: no host can connect.")
}

fn hosts(result: &Value) -> String {
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
    table.text("No host may connect.")
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

    #[test]
    fn a_namespace_is_one_line_with_units() {
        let answer = json!([{
            "subsystem": "nqn.2026-01.io.x:a", "nsid": 1, "backend": "memory", "path": null,
            "size": 1u64 << 30, "block_size": 4096, "uuid": "u", "nguid": "n", "read_only": true,
            "hosts": null, "state": "unavailable", "reason": "the device is gone",
        }]);
        let text = text("namespace.list", &answer);
        let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected =
            "nqn.2026-01.io.x:a 1 memory - 1 GiB 4096 ro u all unavailable: the device is gone";
        assert_eq!(line.join(" "), expected);
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
