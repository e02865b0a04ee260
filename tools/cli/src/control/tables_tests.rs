//! All tables with typical names and figures: their widths, the names of their columns, and the values
//! that stay where there is no room.

use serde_json::{Value, json};
use sluice_config::Method;

use super::shown::{text, within};
use super::table::Room;

pub(super) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
const NQN: &str = "nqn.2026-01.io.example:disks";
const TERMS: &str = "20000 operations every 1s in commands of 4 KiB";

/// Methods that change nothing, and whose answers have no table.
const WITHOUT_TABLES: [Method; 5] = [
    Method::EventList,
    Method::TraceRead,
    Method::ConfigShow,
    Method::ConfigDiff,
    Method::ConfigMerge,
];

/// Returns the operations of commands that did not wait: the histogram's first bucket ends at 1 ns.
fn io() -> Value {
    let done = json!({"operations": 123_456, "bytes": 505_675_776, "errors": 0,
                      "latency_ns": {"mean": 51_200, "p99": 1_200_000}});
    json!({"read": done, "write": done, "other": done, "queueing": {"mean": 0, "p99": 1},
           "service": {"mean": 500_000, "p99": 700_000}})
}

fn session(name: &str, parent: Value, reserve: Value) -> Value {
    let credits = json!({"used": 28_672, "credits": 1u64 << 40});
    json!({"name": name, "parent": parent, "operations": {"used": 7, "credits": 65_536},
           "payload": credits, "iops": 100_000, "bandwidth": 209_715_200, "reserve": reserve,
           "waiting": 12, "refused": 3, "live": true, "io": io()})
}

fn sessions() -> Value {
    let reserve = json!({"namespace": format!("{NQN}/1"), "terms": TERMS, "periods": 100,
                         "kept": 99});
    json!([
        session("root", json!(null), json!(null)),
        session(NQN, json!("root"), json!(null)),
        session(&format!("{NQN}/1"), json!(NQN), json!(null)),
        session("database", json!("root"), reserve),
    ])
}

fn profiles() -> Value {
    json!([{"name": "gold", "iops": 100_000, "bandwidth": 209_715_200, "read_iops": 80_000,
            "write_bandwidth": 104_857_600, "iops_per_gib": 30,
            "bandwidth_per_gib": 1_048_576, "burst": "10 s", "live": true}])
}

fn qos() -> Value {
    let device = json!({"subsystem": NQN, "nsid": 1, "class": "medium", "arbitrated": true,
        "window": 128.0, "in_use": 17.4, "mean_ns": {"read": 100_000, "write": 20_000},
        "waiting": {"urgent": 1, "high": 2, "medium": 3, "low": 4}, "reserved": 0.25});
    json!({
        "enabled": true, "weights": {"high": 3, "medium": 2, "low": 1}, "unit": "commands",
        "classes": [{"class": "urgent", "waiting": 0, "refused": 0, "io": io()}],
        "sessions": sessions(), "devices": [device],
        "policies": [
            {"host": HOST, "class": "high", "session": "database", "live": true},
            {"subsystem": NQN, "nsid": 1, "max_class": "medium"},
        ],
    })
}

fn network() -> Value {
    let class = json!({"class": "medium", "flows": 2, "backlogged": true, "held_for": "high", "rate": 4.55e9, "target": 4.75e9,
        "limit": 4.75e9, "alpha": 0.125, "quality": 0.96, "delivered": 1_000_000,
        "marked": 1250});
    let direction = json!({ "classes": [class] });
    json!({
        "enabled": true, "writes": true, "base": "auto", "base_used": "dctcp",
        "links": [{
            "name": "default", "capacity": "10 Gbit/s", "classes": {"medium": {"latency": "2 ms"}},
            "listeners": ["192.0.2.1:4420", "192.0.2.1:4421"], "out": direction, "in": direction,
            "live": true,
        }],
    })
}

pub(super) fn connection() -> Value {
    let network = json!({"link": "default", "class": "urgent", "base": "dctcp", "rtt_us": 450,
                         "out": {"limit": 4.75e9}, "in": {"limit": 4.75e9}});
    json!({"id": 72_057_594_037_927_937u64, "peer": "192.0.2.17:54321", "host": HOST,
           "subsystem": NQN, "controller": 1, "queue": 1, "in_flight": 128, "reactor": 0,
           "digests": [true, true], "tls": "TLS_AES_256_GCM_SHA384", "authenticated": true,
           "network": network})
}

fn hosts() -> Value {
    let lost = json!({"host": HOST, "listener": "192.0.2.1:4420", "address": "192.0.2.17",
                      "lost_seconds": 40, "left_seconds": 560});
    json!({"subsystem": NQN, "hosts": [HOST], "authentication": {HOST: "tls_key"}, "live": [HOST],
           "rights": {HOST: {"namespaces": [1, 3], "read_only": true, "max_class": "medium"}},
           "lost": [lost]})
}

fn namespace() -> Value {
    json!({"subsystem": NQN, "nsid": 1, "backend": "pmem", "region": "DAX file",
           "path": "/var/lib/sluicegate/disk.img", "size": 10u64 << 30, "block_size": 4096,
           "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "state": "unavailable",
           "reason": "there is no such file", "live": true})
}

fn regions() -> Value {
    let client = json!({"grant": 5, "host": HOST, "address": "192.0.2.17",
        "rights": "read-write", "reservation": 100_000, "limit": 200_000, "connected": true,
        "completed": 5_000_000, "last_period": 99_000, "missed": 2});
    json!({"address": "192.0.2.1:4430", "capacity": 1_570_000, "period": "1 s", "open": true,
           "regions": [{"name": "log", "path": "/dev/dax0.0", "reserve": 100_000,
                        "limit": 200_000, "hosts": [HOST], "open": true, "bytes": 1u64 << 30,
                        "kind": "device DAX", "clients": [client], "live": true}]})
}

fn statistics() -> Value {
    // The names of a row have 92 characters together.
    let short = "nqn.2026-01.io.x:disks";
    json!({
        "namespaces": [{"subsystem": NQN, "nsid": 1, "io": io()}],
        "hosts": [{"host": HOST, "subsystem": NQN, "io": io()}],
        "workloads": [{"host": HOST, "subsystem": short, "nsid": 1, "class": "medium", "io": io()}],
        "queues": [{"connection": {"id": 72_057_594_037_927_937u64}, "io": io()}],
    })
}

/// Returns a typical answer to each method that shows a table.
fn answers() -> Vec<(Method, Value)> {
    let status = json!({
        "version": "0.1.0", "pid": 4711, "durable": true,
        "reactors": [{"core": 2, "connections": 9, "buffer_used": 65_536, "buffer_total": 67_108_864}],
        "file_systems": [{"mount": "/var/lib/sluicegate", "files": 2, "may_take": 12u64 << 30,
                          "free": 10u64 << 30, "overcommit": 2u64 << 30}],
    });
    let subsystem = json!({"nqn": NQN, "serial": "1b4e28ba2fa111d2883f", "model": "Sluicegate",
        "hosts": [HOST], "require_authentication": true, "namespaces": [{"size": 10u64 << 30}],
        "live": true});
    let listener = json!({"transport": "tcp", "address": "192.0.2.100:4420", "tls": "required",
        "advertise": "192.0.2.100:4420", "subsystems": [NQN], "class": "medium",
        "require_authentication": true, "link": "default", "live": true});
    let keys = json!({"folder": "/etc/sluicegate/keys",
        "hosts": [{"host": HOST, "secret": true, "controller_secret": true, "tls_key": true}]});
    vec![
        (Method::Status, status),
        (Method::Connections, json!([connection()])),
        (Method::Statistics, statistics()),
        (Method::SubsystemList, json!([subsystem])),
        (Method::NamespaceList, json!([namespace()])),
        (Method::ListenerList, json!([listener])),
        (Method::HostList, json!([hosts()])),
        (Method::HostKeys, keys),
        (Method::QosShow, qos()),
        (Method::SessionList, sessions()),
        (Method::ProfileList, profiles()),
        (Method::NetworkShow, network()),
        (Method::PmemShow, regions()),
    ]
}

/// Returns the headings of the tables in a text, each as the names of its columns.
fn headings(text: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for line in text.lines() {
        if line.contains("  ") && !line.chars().any(char::is_lowercase) {
            found.push(line.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect());
        }
    }
    found
}

/// Returns whether a text has a table with a column of this name.
fn has_column(text: &str, name: &str) -> bool {
    headings(text).iter().flatten().any(|title| *title == name)
}

#[test]
fn every_method_that_shows_something_is_here() {
    let answers = answers();
    for method in Method::ALL.iter().filter(|method| !method.changes()) {
        let is_here = answers.iter().any(|(other, _)| other == method);
        assert!(is_here || WITHOUT_TABLES.contains(method), "{}", method.name());
    }
}

/// In debug builds a table with two columns of one name panics.
#[test]
fn tables_fit_120_columns_where_nobody_says_how_wide() {
    for (method, answer) in answers() {
        let seen = within(Room::Pipe, method, &answer);
        for line in seen.lines().filter(|line| !line.starts_with("(not shown: ")) {
            assert!(line.chars().count() <= 120, "{}:\n{seen}", method.name());
        }
        let whole = text(method, &answer);
        assert!(!headings(&whole).is_empty() && !whole.contains("(not shown: "), "{whole}");
    }
}

#[test]
fn values_keep_their_numbers_at_any_width() {
    for width in 20..240 {
        let seen = within(Room::Terminal(width), Method::SessionList, &sessions());
        if has_column(&seen, "RESERVED") {
            assert!(seen.contains("20000 operations every 1s"), "{width}:\n{seen}");
        }
        let seen = within(Room::Terminal(width), Method::NetworkShow, &network());
        if has_column(&seen, "AIM") {
            assert!(seen.contains("within 2 ms  "), "{width}:\n{seen}");
        }
    }
}

#[test]
fn where_nothing_waited_there_is_no_percentile() {
    let seen = text(Method::QosShow, &qos());
    let line = seen.lines().find(|line| line.starts_with("urgent ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words.ends_with(&["-", "700", "us"]), "{seen}");
}
