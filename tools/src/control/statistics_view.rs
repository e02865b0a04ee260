//! What was done, and how long it took, as people read it.

use serde_json::Value;

use super::qos_view::time;
use super::table::Align::{self, Left, Right};
use super::table::{Room, Table, size};
use super::view::{at, field, list, number};

/// The columns that everything with operations has.
const MEASURED: [(&str, Align); 11] = [
    ("READS", Right),
    ("READ", Right),
    ("MEAN", Right),
    ("P99", Right),
    ("WRITES", Right),
    ("WRITTEN", Right),
    ("MEAN", Right),
    ("P99", Right),
    ("OTHER", Right),
    ("ERRORS", Right),
    ("QUEUED P99", Right),
];

/// The answer to `statistics`: one table each for namespaces, hosts and queues.
pub(super) fn text(result: &Value, room: Room) -> String {
    let namespaces = [("NAMESPACE", Left)];
    let hosts = [("HOST", Left), ("SUBSYSTEM", Left)];
    let queues = [("QUEUE OF CONNECTION", Left)];
    let tables = [
        table(list(result, "namespaces"), &namespaces, |row| {
            vec![format!("{}/{}", field(row, "subsystem"), field(row, "nsid"))]
        })
        .text("There are no namespaces.", room),
        table(list(result, "hosts"), &hosts, |row| {
            vec![field(row, "host"), field(row, "subsystem")]
        })
        .text("No host has sent a command.", room),
        table(list(result, "queues"), &queues, |row| vec![field(row, "connection")])
            .text("There are no queues.", room),
    ];
    tables.join("\n")
}

/// One line for each row: what it is called, and what was done.
fn table(
    rows: &[Value],
    names: &[(&'static str, Align)],
    of: impl Fn(&Value) -> Vec<String>,
) -> Table {
    let heading: Vec<_> = names.iter().copied().chain(MEASURED).collect();
    let mut table = Table::new(&heading).least(&["OTHER", "QUEUED P99", "MEAN", "READ", "WRITTEN"]);
    for row in rows {
        table.row([of(row), measured(row)].concat());
    }
    table
}

fn measured(row: &Value) -> Vec<String> {
    let kind = |name: &str| at(row, &["io", name]);
    let moved = |name: &str| {
        let took = at(kind(name), &["latency_ns"]);
        vec![
            number(kind(name), "operations").to_string(),
            size(number(kind(name), "bytes")),
            time(number(took, "mean")),
            time(number(took, "p99")),
        ]
    };
    let errors = ["read", "write", "other"].map(|name| number(kind(name), "errors"));
    let rest = vec![
        number(kind("other"), "operations").to_string(),
        errors.into_iter().fold(0, u64::saturating_add).to_string(),
        time(number(at(row, &["io", "queueing"]), "p99")),
    ];
    [moved("read"), moved("write"), rest].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_counted_has_a_line_with_units() {
        let op = |operations: u64, errors: u64| {
            json!({"operations": operations, "bytes": operations * 4096, "errors": errors,
                   "latency_ns": {"sum": 9, "mean": 51_200, "p50": 1, "p90": 2, "p99": 1_200_000}})
        };
        let io = json!({"read": op(1000, 1), "write": op(10, 2), "other": op(3, 4),
                        "queueing": {"p99": 2500}, "service": {"p99": 1}});
        let answer = json!({
            "namespaces": [{"subsystem": "nqn.2026-01.io.x:a", "nsid": 1, "io": io}],
            "hosts": [{"host": "nqn.2026-01.io.x:h", "subsystem": "nqn.2026-01.io.x:a", "io": io}],
            "queues": [{"connection": 7, "io": io}],
        });
        let seen = text(&answer, None);
        let lines: Vec<String> = seen
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let done = "1000 3.9 MiB 51.2 us 1.2 ms 10 40 KiB 51.2 us 1.2 ms 3 7 2.5 us";
        for name in ["nqn.2026-01.io.x:a/1", "nqn.2026-01.io.x:h nqn.2026-01.io.x:a", "7"] {
            assert!(lines.contains(&format!("{name} {done}")), "{name}:\n{seen}");
        }
        for line in text(&answer, Some(80)).lines().filter(|line| !line.starts_with('(')) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let none = text(&json!({}), None);
        assert!(none.contains("There are no namespaces.") && none.contains("no queues"), "{none}");
    }
}
