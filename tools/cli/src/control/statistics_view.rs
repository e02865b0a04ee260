//! Commands and their latencies, as people read them.

use sluice_config::answer::{HostIo, Io, NamespaceIo, QueueIo, Statistics, WorkloadIo};

use super::cells::time;
use super::table::Align::{Left, Right};
use super::table::{Column, Room, Table, size};

/// The columns of a row with operations.
const MEASURED: [Column<Io>; 12] = [
    ("READS", Right, |io| io.read.operations.to_string()),
    ("READ", Right, |io| size(io.read.bytes)),
    ("READ MEAN", Right, |io| time(io.read.latency_ns.mean)),
    ("READ P99", Right, |io| time(io.read.latency_ns.p99)),
    ("WRITES", Right, |io| io.write.operations.to_string()),
    ("WRITTEN", Right, |io| size(io.write.bytes)),
    ("WRITE MEAN", Right, |io| time(io.write.latency_ns.mean)),
    ("WRITE P99", Right, |io| time(io.write.latency_ns.p99)),
    ("OTHER", Right, |io| io.other.operations.to_string()),
    ("ERRORS", Right, |io| {
        let errors = [&io.read, &io.write, &io.other].map(|kind| kind.errors);
        errors.into_iter().fold(0, u64::saturating_add).to_string()
    }),
    ("WAIT P99", Right, |io| time(io.queueing.p99)),
    ("DEVICE P99", Right, |io| time(io.service.p99)),
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
    let of_namespaces: [Column<NamespaceIo>; 1] =
        [("NAMESPACE", Left, |row| format!("{}/{}", row.subsystem, row.nsid))];
    let of_hosts: [Column<HostIo>; 2] =
        [("HOST", Left, |row| row.host.clone()), ("SUBSYSTEM", Left, |row| row.subsystem.clone())];
    let of_workloads: [Column<WorkloadIo>; 3] = [
        ("HOST", Left, |row| row.host.clone()),
        ("NAMESPACE", Left, |row| format!("{}/{}", row.subsystem, row.nsid)),
        ("CLASS", Left, |row| row.class.clone()),
    ];
    let of_queues: [Column<QueueIo>; 1] =
        [("QUEUE OF CONNECTION", Left, |row| row.connection.id.to_string())];
    let tables = [
        table(&namespaces, &of_namespaces, |row| &row.io).text("There are no namespaces.", room),
        table(&hosts, &of_hosts, |row| &row.io).text("No host has sent a command.", room),
        table(&workloads, &of_workloads, |row| &row.io)
            .text("No host has sent a command to a namespace.", room),
        table(&queues, &of_queues, |row| &row.io).text("There are no queues.", room),
    ];
    tables.join("\n")
}

/// Makes one line for each row: its names, and its operations.
fn table<R>(rows: &[R], names: &[Column<R>], io: fn(&R) -> &Io) -> Table {
    let measured = Table::from_rows(rows.iter().map(io), &MEASURED);
    Table::from_rows(rows, names).beside(measured).least(&LEAST)
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
