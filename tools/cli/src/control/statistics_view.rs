//! Commands and their latencies, as people read them.

use sluice_config::answer::{Io, Operations, Statistics};

use super::cells::time;
use super::table::Align::{self, Left, Right};
use super::table::{Room, Table, size};

/// The columns of a row with operations.
const MEASURED: [(&str, Align); 12] = [
    ("READS", Right),
    ("READ", Right),
    ("READ MEAN", Right),
    ("READ P99", Right),
    ("WRITES", Right),
    ("WRITTEN", Right),
    ("WRITE MEAN", Right),
    ("WRITE P99", Right),
    ("OTHER", Right),
    ("ERRORS", Right),
    ("WAIT P99", Right),
    ("DEVICE P99", Right),
];

/// The columns that are left out where there is no room, the first one first.
const LEAST: [&str; 10] = [
    "OTHER",
    "READ MEAN",
    "WRITE MEAN",
    "READ",
    "WRITTEN",
    "DEVICE P99",
    "WAIT P99",
    "ERRORS",
    "WRITE P99",
    "READ P99",
];

/// Writes the answer to `statistics`: one table each for namespaces, hosts, workloads and
/// queues.
pub(super) fn text(statistics: Statistics, room: Room) -> String {
    let Statistics { namespaces, hosts, queues, workloads, .. } = statistics;
    let namespaces = namespaces.iter().map(|row| {
        let name = format!("{}/{}", row.subsystem, row.nsid);
        (vec![name], &row.io)
    });
    let hosts = hosts.iter().map(|row| (vec![row.host.clone(), row.subsystem.clone()], &row.io));
    let queues = queues.iter().map(|row| (vec![row.connection.id.to_string()], &row.io));
    let workloads = workloads.iter().map(|row| {
        let name = format!("{}/{}", row.subsystem, row.nsid);
        (vec![row.host.clone(), name, row.class.clone()], &row.io)
    });
    let tables = [
        table(&[("NAMESPACE", Left)], namespaces).text("There are no namespaces.", room),
        table(&[("HOST", Left), ("SUBSYSTEM", Left)], hosts)
            .text("No host has sent a command.", room),
        table(&[("HOST", Left), ("NAMESPACE", Left), ("CLASS", Left)], workloads)
            .text("No host has sent a command to a namespace.", room),
        table(&[("QUEUE OF CONNECTION", Left)], queues).text("There are no queues.", room),
    ];
    tables.join("\n")
}

/// Makes one line for each row: its names, and its operations.
fn table<'a>(
    names: &[(&'static str, Align)],
    rows: impl Iterator<Item = (Vec<String>, &'a Io)>,
) -> Table {
    let heading: Vec<_> = names.iter().copied().chain(MEASURED).collect();
    let mut table = Table::new(&heading).least(&LEAST);
    for (name, io) in rows {
        table.row([name, measured(io)].concat());
    }
    table
}

fn measured(io: &Io) -> Vec<String> {
    let moved = |kind: &Operations| {
        vec![
            kind.operations.to_string(),
            size(kind.bytes),
            time(kind.latency_ns.mean),
            time(kind.latency_ns.p99),
        ]
    };
    let errors = [&io.read, &io.write, &io.other].map(|kind| kind.errors);
    let rest = vec![
        io.other.operations.to_string(),
        errors.into_iter().fold(0, u64::saturating_add).to_string(),
        time(io.queueing.p99),
        time(io.service.p99),
    ];
    [moved(&io.read), moved(&io.write), rest].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::shown::lines;
    use super::*;

    fn text(answer: &Value, room: Room) -> String {
        super::text(serde_json::from_value(answer.clone()).unwrap(), room)
    }

    #[test]
    fn everything_counted_has_a_line_with_units() {
        let op = |operations: u64, errors: u64| {
            json!({"operations": operations, "bytes": operations * 4096, "errors": errors,
                   "latency_ns": {"sum": 9, "mean": 51_200, "p50": 1, "p90": 2, "p99": 1_200_000}})
        };
        let io = json!({"read": op(1000, 1), "write": op(10, 2), "other": op(3, 4),
                        "queueing": {"p99": 2500}, "service": {"p99": 700_000}});
        let answer = json!({
            "namespaces": [{"subsystem": "nqn.2026-01.io.x:a", "nsid": 1, "io": io}],
            "hosts": [{"host": "nqn.2026-01.io.x:h", "subsystem": "nqn.2026-01.io.x:a", "io": io}],
            "workloads": [{"host": "nqn.2026-01.io.x:h", "subsystem": "nqn.2026-01.io.x:a",
                           "nsid": 2, "class": "high", "io": io}],
            "queues": [{"connection": {"id": 7, "peer": "h:1"}, "io": io}],
        });
        let seen = text(&answer, Room::Unlimited);
        let lines = lines(&seen);
        let done = "1000 3.9 MiB 51.2 us 1.2 ms 10 40 KiB 51.2 us 1.2 ms 3 7 2.5 us 700 us";
        for name in [
            "nqn.2026-01.io.x:a/1",
            "nqn.2026-01.io.x:h nqn.2026-01.io.x:a",
            "nqn.2026-01.io.x:h nqn.2026-01.io.x:a/2 high",
            "7",
        ] {
            assert!(lines.contains(&format!("{name} {done}")), "{name}:\n{seen}");
        }
        for line in text(&answer, Room::Terminal(80)).lines().filter(|line| !line.starts_with('('))
        {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let none = text(&json!({}), Room::Unlimited);
        assert!(none.contains("There are no namespaces.") && none.contains("no queues"), "{none}");
    }
}
