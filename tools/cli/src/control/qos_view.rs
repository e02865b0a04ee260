//! Quality of service as people read it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::{Value, json};
use sluice_config::answer::{
    ClassTraffic, DeviceRow, Limits, Operations, Policy, Qos, Session, Traffic,
};
use sluice_config::params::Settings;

use super::cells::{or_dash, plain, rest, setting, time};
use super::table::Align::{self, Left, Right};
use super::table::{Column, Room, Table, size};

/// Writes the answer to `qos.show`.
pub(super) fn show(qos: &Qos, room: Room) -> String {
    let parts = [
        settings(&qos.settings),
        classes(&qos.classes, room),
        sessions(&qos.sessions, room) + &misses(&qos.sessions),
        devices(&qos.devices, room) + &bounds(&qos.devices) + &promises(&qos.devices),
        policies(&qos.policies, room),
    ];
    parts.join("\n")
}

/// The keys of `[qos]` that the sentences of [`settings`] show.
const SHOWN: [&str; 14] = [
    "enabled",
    "weights",
    "unit",
    "burst",
    "urgent_share",
    "window",
    "latency_target",
    "window_max",
    "credits",
    "payload",
    "queue",
    "wrr",
    "mark",
    "dscp",
];

/// Writes `[qos]` in a few lines: sentences, and the keys that no sentence shows.
pub(super) fn settings(qos: &Settings) -> String {
    let of = |key: &str| setting(qos, key);
    let inside = |key: &str, class: &str| plain(qos.get(key).and_then(|table| table.get(class)));
    let switch = |key: &str| if qos.get(key) == Some(&Value::Bool(true)) { "on" } else { "off" };
    let state = match switch("enabled") {
        "on" => "on",
        _ => "off: commands go as they come",
    };
    let weights = ["high", "medium", "low"].map(|class| inside("weights", class)).join(":");
    let mut window = format!("window {}", of("window"));
    if !of("latency_target").is_empty() {
        window += &format!(" (keeps {}, at most {})", of("latency_target"), of("window_max"));
    }
    let marks = ["urgent", "high", "medium", "low"]
        .map(|class| format!("{class} {}", or_dash(Some(inside("dscp", class)))))
        .join(", ");
    let payload = qos.get("payload").and_then(Value::as_u64).unwrap_or(0);
    let shown = format!(
        "Quality of service is {state}.\n\
         weights {weights} by {}, burst {}, urgent first up to {} % of a device\n\
         {window}, credits for {} commands and {}, {} commands may wait\n\
         NVMe weighted round robin {}, marks {} ({marks})\n",
        of("unit"),
        of("burst"),
        of("urgent_share"),
        of("credits"),
        size(payload),
        of("queue"),
        switch("wrr"),
        switch("mark"),
    );
    shown + &rest(qos, &SHOWN)
}

/// Sums a count of all kinds of operations.
fn sum(traffic: &Traffic, count: fn(&Operations) -> u64) -> u64 {
    let kinds = [&traffic.io.read, &traffic.io.write, &traffic.io.other];
    kinds.map(count).into_iter().fold(0, u64::saturating_add)
}

/// The columns of a row with traffic.
const TRAFFIC: [Column<Traffic>; 6] = [
    ("WAITING", Right, |traffic| traffic.waiting.to_string()),
    ("REFUSED", Right, |traffic| traffic.refused.to_string()),
    ("OPERATIONS", Right, |traffic| sum(traffic, |kind| kind.operations).to_string()),
    ("BYTES", Right, |traffic| size(sum(traffic, |kind| kind.bytes))),
    ("WAIT P99", Right, |traffic| time(traffic.io.queueing.p99)),
    ("DEVICE P99", Right, |traffic| time(traffic.io.service.p99)),
];

/// Columns of classes and sessions that are left out on a narrow terminal. `sluice top` has them
/// too.
const LEAST: [&str; 9] = [
    "PAYLOAD",
    "BYTES",
    "KEPT",
    "WAIT P99",
    "OPERATIONS",
    "DEVICE P99",
    "REFUSED",
    "RESERVED",
    "LIMIT",
];

fn classes(list: &[ClassTraffic], room: Room) -> String {
    let traffic = Table::from_rows(list.iter().map(|row| &row.traffic), &TRAFFIC);
    let columns: [Column<ClassTraffic>; 1] = [("CLASS", Left, |row| row.class.clone())];
    let table = Table::from_rows(list, &columns).beside(traffic).least(&LEAST);
    table.text("There are no classes.", room)
}

/// Returns sessions with their depths, each below its parent. A session whose parent is missing is
/// at the top.
fn tree(list: &[Session]) -> Vec<(usize, &Session)> {
    let mut children: BTreeMap<&str, Vec<&Session>> = BTreeMap::new();
    let names: BTreeSet<&str> = list.iter().map(|row| row.name.as_str()).collect();
    let mut ahead = Vec::new();
    for row in list {
        match row.parent.as_deref() {
            Some(parent) if names.contains(parent) => children.entry(parent).or_default().push(row),
            _ => ahead.push((0, row)),
        }
    }
    ahead.reverse();
    let mut all = Vec::new();
    while let Some((depth, row)) = ahead.pop() {
        all.push((depth, row));
        let below = children.remove(row.name.as_str()).unwrap_or_default();
        ahead.extend(below.into_iter().rev().map(|row| (depth + 1, row)));
    }
    all
}

/// Returns whether a session has another weight than sessions without a setting.
fn has_weight(row: &Session) -> bool {
    !matches!(row.weight, 0 | 100)
}

pub(super) fn sessions(list: &[Session], room: Room) -> String {
    let mut columns: Vec<Column<(usize, &Session)>> = vec![
        ("SESSION", Left, |(depth, row)| format!("{}{}", "  ".repeat(*depth), row.name)),
        ("IN DEVICES", Right, |(_, row)| {
            format!("{} of {}", row.operations.used, row.operations.credits)
        }),
        ("PAYLOAD", Right, |(_, row)| {
            format!("{} of {}", size(row.payload.used), size(row.payload.credits))
        }),
        ("LIMIT", Align::Value, |(_, row)| or_dash(limits(&row.limits))),
        ("RESERVED", Align::Value, |(_, row)| {
            or_dash(row.reserve.as_ref().map(|reserve| &reserve.terms))
        }),
        ("KEPT", Right, |(_, row)| {
            or_dash(row.reserve.as_ref().map(|reserve| match reserve.promised {
                0 => format!("{} of {}", reserve.kept, reserve.periods),
                _ => format!("{} of {}, {} late", reserve.kept, reserve.periods, reserve.late),
            }))
        }),
    ];
    if list.iter().any(has_weight) {
        columns.push(("WEIGHT", Right, |(_, row)| or_dash(has_weight(row).then_some(row.weight))));
    }
    let rows = tree(list);
    let traffic = Table::from_rows(rows.iter().map(|(_, row)| &row.traffic), &TRAFFIC);
    let table = Table::from_rows(&rows, &columns)
        .beside(traffic)
        .live(rows.iter().map(|(_, row)| row.live))
        .least(&LEAST);
    table.text("There are no sessions.", room)
}

/// Writes limits: those on all commands, then those on reads (`r`) and writes (`w`).
fn limits(of: &Limits) -> Option<String> {
    let rates = [
        ("", of.iops, of.bandwidth),
        ("r ", of.read_iops, of.read_bandwidth),
        ("w ", of.write_iops, of.write_bandwidth),
    ];
    let written = rates.into_iter().flat_map(|(direction, iops, bandwidth)| {
        let iops = iops.map(|iops| format!("{direction}{iops}/s"));
        let bytes = bandwidth.filter(|bytes| *bytes > 0);
        [iops, bytes.map(|bytes| format!("{direction}{}/s", size(bytes)))].into_iter().flatten()
    });
    let written: Vec<String> = written.collect();
    (!written.is_empty()).then(|| written.join(", "))
}

/// Writes the causes of missed reservations, and the guaranteed minimum of each session.
fn misses(list: &[Session]) -> String {
    let mut text = String::new();
    for (row, reserve) in list.iter().filter_map(|row| Some((row, row.reserve.as_ref()?))) {
        if !reserve.floors.is_empty() {
            text += &format!(
                "{} gets at least {}, beside commands of 4 KiB.\n",
                row.name, reserve.floors
            );
        }
        let causes = reserve.missed.iter().map(|(cause, periods)| format!("{periods} by {cause}"));
        let causes = causes.collect::<Vec<_>>().join(", ");
        if let Some(last) = reserve.last_miss.as_ref().filter(|_| !causes.is_empty()) {
            text += &format!("{} missed periods: {causes}; the latest: {last}.\n", row.name);
        }
    }
    text
}

/// Writes which reservations keep windows low, and what that costs.
fn bounds(list: &[DeviceRow]) -> String {
    let mut text = String::new();
    for (row, bound) in list.iter().filter_map(|row| Some((row, row.bound.as_ref()?))) {
        let of = row.window.map_or_else(String::new, |window| format!(" of {window:.0}"));
        text += &format!(
            "{}/{}: window {}{of} because of {}; device at {:.0} %\n",
            row.subsystem,
            row.nsid,
            bound.depth,
            bound.session,
            bound.busy * 100.0,
        );
    }
    text
}

/// Writes for how many hosts the devices have time whose order is by containers.
fn promises(list: &[DeviceRow]) -> String {
    let mut text = String::new();
    for (row, of) in list.iter().filter_map(|row| Some((row, row.containers.as_ref()?))) {
        text += &format!(
            "{}/{}: containers promise each host of class High a command in {}, and one takes {}: time for {} \
             busy hosts, more where containers save seeks\n",
            row.subsystem,
            row.nsid,
            time(of.latency_ns),
            time(of.command_ns),
            of.hosts,
        );
    }
    text
}

fn devices(list: &[DeviceRow], room: Room) -> String {
    fn waiting(row: &DeviceRow, class: &str) -> String {
        row.waiting.get(class).copied().unwrap_or(0).to_string()
    }
    let columns: [Column<DeviceRow>; 12] = [
        ("DEVICE OF", Left, |row| row.subsystem.clone()),
        ("NSID", Right, |row| row.nsid.to_string()),
        ("CLASS", Left, |row| or_dash(row.class.as_ref())),
        ("WINDOW", Right, |row| match (row.arbitrated, row.window) {
            (false, _) => "-".into(),
            (true, None) => "off".into(),
            (true, Some(window)) => format!("{window:.1}"),
        }),
        ("IN USE", Right, |row| format!("{:.1}", row.in_use)),
        ("URGENT", Right, |row| waiting(row, "urgent")),
        ("HIGH", Right, |row| waiting(row, "high")),
        ("MEDIUM", Right, |row| waiting(row, "medium")),
        ("LOW", Right, |row| waiting(row, "low")),
        ("READ", Right, |row| time(row.mean_ns.read)),
        ("WRITE", Right, |row| time(row.mean_ns.write)),
        ("RESERVED", Right, |row| format!("{:.0} %", row.reserved * 100.0)),
    ];
    let least = &["CLASS", "READ", "WRITE", "RESERVED", "MEDIUM", "HIGH"];
    let table = Table::from_rows(list, &columns).least(least);
    table.text("There are no devices.", room)
}

/// Returns whether a policy or profile differs from the configuration file.
fn is_live(row: &Settings) -> bool {
    row.get("live") == Some(&Value::Bool(true))
}

fn policies(list: &[Settings], room: Room) -> String {
    fn any(row: &Settings, key: &str) -> String {
        Some(setting(row, key)).filter(|text| !text.is_empty()).unwrap_or_else(|| "any".into())
    }
    let columns: [Column<Settings>; 8] = [
        ("POLICY FOR HOST", Left, |row| any(row, "host")),
        ("SUBSYSTEM", Left, |row| any(row, "subsystem")),
        ("NSID", Left, |row| any(row, "nsid")),
        ("FROM", Left, |row| any(row, "addresses")),
        ("CLASS", Left, |row| or_dash(Some(setting(row, "class")))),
        ("AT MOST", Left, |row| or_dash(Some(setting(row, "max_class")))),
        ("URGENT IOPS", Right, |row| or_dash(Some(setting(row, "urgent_iops")))),
        ("SESSION", Left, |row| or_dash(Some(setting(row, "session")))),
    ];
    let table = Table::from_rows(list, &columns).live(list.iter().map(is_live)).least(&[
        "URGENT IOPS",
        "AT MOST",
        "FROM",
        "NSID",
        "SESSION",
    ]);
    table.text("There are no policies.", room)
}

pub(super) fn profiles(list: &[Settings], room: Room) -> String {
    let columns: [Column<Settings>; 3] = [
        ("PROFILE", Left, |row| setting(row, "name")),
        ("LIMIT", Align::Value, |row| {
            let rate = |key: &str| row.get(key).and_then(Value::as_u64);
            let fixed = limits(&Limits::deserialize(json!(row)).unwrap_or_default());
            let (iops, bandwidth) = (rate("iops_per_gib"), rate("bandwidth_per_gib"));
            let sized = limits(&Limits { iops, bandwidth, ..Limits::default() });
            let sized = sized.map(|limits| format!("{limits} per GiB"));
            let limits: Vec<String> = fixed.into_iter().chain(sized).collect();
            or_dash((!limits.is_empty()).then(|| limits.join(", ")))
        }),
        ("BURST", Right, |row| or_dash(row.get("burst").and_then(Value::as_str))),
    ];
    let table = Table::from_rows(list, &columns).live(list.iter().map(is_live));
    table.text("There are no profiles.", room)
}

/// Returns "class high", or "no class".
pub(super) fn class(name: Option<String>) -> String {
    name.map_or_else(|| "no class".to_owned(), |name| format!("class {name}"))
}

/// Writes that a policy was set or removed.
pub(super) fn policy(policy: &Policy) -> String {
    let of = |key: &str, any: &str| match setting(&policy.settings, key) {
        name if name.is_empty() => any.to_owned(),
        name => name,
    };
    let verb = if policy.removed { "Removed" } else { "Set" };
    let namespace = match setting(&policy.settings, "nsid") {
        nsid if nsid.is_empty() => String::new(),
        nsid => format!("/{nsid}"),
    };
    let (host, subsystem) = (of("host", "any host"), of("subsystem", "any subsystem"));
    format!("{verb} the policy for {host} on {subsystem}{namespace}.\n")
}

/// Writes a session's reservation.
pub(super) fn reserved(session: &Settings) -> String {
    let of = |key: &str| plain(session.get("reserve").and_then(|reserve| reserve.get(key)));
    let (name, terms, namespace) = (setting(session, "name"), of("terms"), of("namespace"));
    let least = match setting(session, "floors") {
        floors if floors.is_empty() => String::new(),
        floors => format!("It gets at least {floors}, beside commands of 4 KiB.\n"),
    };
    format!("Session {name} has reserved {terms} on {namespace}.\n{least}")
}

#[cfg(test)]
mod tests {
    use sluice_config::Method;

    use super::super::shown::{self, text};
    use super::*;

    fn traffic_of(mut row: Value) -> Value {
        let op = json!({"operations": 10, "bytes": 40_960, "errors": 0});
        let times = json!({"mean": 1, "p50": 1, "p90": 1, "p99": 51_200, "p999": 1});
        let io = json!({"read": op, "write": op, "other": op, "queueing": times, "service": times});
        (row["waiting"], row["refused"], row["io"]) = (json!(4), json!(0), io);
        row
    }

    fn line(text: &str, start: &str) -> String {
        let line = text.lines().find(|line| line.trim_start().starts_with(start));
        shown::lines(line.unwrap_or_else(|| panic!("{start}\n{text}"))).concat()
    }

    #[test]
    fn everything_is_shown_with_units() {
        let credits = json!({"used": 7, "credits": 4096, "share": null});
        let session = |name: &str, parent: Value, reserve: Value| {
            traffic_of(json!({
                "name": name, "parent": parent, "automatic": true, "commands": credits,
                "payload": credits, "iops": null, "bandwidth": 1 << 20,
                "read_bandwidth": 1 << 19, "write_iops": 500, "queue": 5, "reserve": reserve,
            }))
        };
        let reserve = json!({
            "namespace": "q/1", "terms": "5 each 1 s", "utilisation": 0.25, "periods": 9, "kept": 8,
            "promised": 70, "late": 3, "missed": {"depth": 1},
            "last_miss": "one command at a time, 4ms each",
            "floors": "5 commands a second at any depth",
        });
        let answer = json!({
            "enabled": true, "weights": {"high": 3, "medium": 2, "low": 1}, "unit": "commands",
            "burst": 4, "urgent_share": 20, "window": "adaptive", "latency_target": "2 ms",
            "window_max": 1024, "credits": 65_536, "payload": 1u64 << 40, "queue": 65_536,
            "wrr": true, "mark": false,
            "dscp": {"urgent": 46, "high": 34, "medium": 18, "low": 8},
            "classes": [traffic_of(json!({"class": "urgent"}))],
            "sessions": [session("root", json!(null), json!(null)),
                         session("q", json!("root"), reserve)],
            "devices": [{
                "subsystem": "q", "nsid": 1, "class": null, "arbitrated": true, "window": 32.5,
                "in_use": 3.0, "waiting": {"urgent": 0, "high": 1, "medium": 2, "low": 3},
                "mean_ns": {"read": 100_000, "write": 0}, "reserved": 0.25,
                "bound": {"depth": 6, "session": "database", "busy": 0.974},
            }],
            "policies": [{
                "host": "h", "subsystem": null, "nsid": null, "class": "high", "max_class": null,
                "urgent_iops": null, "session": "gold",
            }],
        });
        let text = text(Method::QosShow, &answer);
        assert!(text.contains("weights 3:2:1 by commands"), "{text}");
        assert!(text.contains("window adaptive (keeps 2 ms, at most 1024)"), "{text}");
        assert!(text.contains("marks off (urgent 46, high 34"), "{text}");
        assert_eq!(line(&text, "urgent "), "urgent 4 0 30 120 KiB 51.2 us 51.2 us");
        let q = "q 7 of 4096 7 B of 4 KiB 1 MiB/s, r 512 KiB/s, w 500/s 5 each 1 s 8 of 9, 3 late \
                 4 0 30 120 KiB 51.2 us 51.2 us";
        assert_eq!(line(&text, "q  "), q);
        assert!(text.contains("\n  q "), "children are indented: {text}");
        assert_eq!(line(&text, "h "), "h any any any high - - gold");
        assert!(text.contains("100 us"), "{text}");
        let bound = "q/1: window 6 of 32 because of database; device at 97 %\n";
        assert!(text.contains(bound), "{text}");
        let miss = "q missed periods: 1 by depth; the latest: one command at a time, 4ms each.\n";
        assert!(text.contains(miss) && text.contains("q gets at least 5 commands"), "{text}");
    }

    #[test]
    fn weights_are_shown_where_a_session_has_one_of_its_own() {
        let of = |weight| {
            let name = "gold".to_owned();
            let row = Session { name, queue: 5, weight, ..Session::default() };
            sessions(&[row], Room::Unlimited)
        };
        assert!(!of(0).contains("WEIGHT") && !of(100).contains("WEIGHT"));
        let text = of(300);
        assert!(text.contains("WEIGHT") && line(&text, "gold").contains(" 300 "), "{text}");
    }

    #[test]
    fn a_session_stands_below_its_parent_whatever_the_order() {
        let list: Vec<Session> = [
            ("root", None),
            ("a", Some("root")),
            ("b", Some("root")),
            ("a1", Some("a")),
            ("b1", Some("b")),
            ("lost", Some("gone")),
        ]
        .map(|(name, parent)| Session {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            ..Session::default()
        })
        .into();
        let names: Vec<String> =
            tree(&list).iter().map(|(depth, row)| format!("{depth}{}", row.name)).collect();
        assert_eq!(names, ["0root", "1a", "2a1", "1b", "2b1", "0lost"]);
    }

    #[test]
    fn i3_the_hosts_for_which_a_device_with_containers_has_time_are_named() {
        let row = DeviceRow {
            subsystem: "q".to_owned(),
            nsid: 2,
            containers: Some(sluice_config::answer::ContainerPromise {
                latency_ns: 20_000_000,
                command_ns: 8_700_000,
                hosts: 2,
            }),
            ..DeviceRow::default()
        };
        let seen = promises(&[DeviceRow::default(), row]);
        assert!(seen.starts_with("q/2: ") && seen.lines().count() == 1, "{seen}");
        assert!(seen.contains("time for 2 busy hosts"), "{seen}");
    }

    #[test]
    fn a_key_that_no_sentence_knows_is_shown_too() {
        let seen = text(Method::QosSet, &json!({"enabled": true, "fresh": 7, "durable": true}));
        assert!(seen.ends_with("\nfresh 7\n"), "{seen}");
    }

    #[test]
    fn changes_are_told_in_a_sentence() {
        for (method, answer, sentence) in [
            (
                Method::QosListener,
                json!({"address": "a:1", "class": null}),
                "Connections through a:1 have no class.\n",
            ),
            (
                Method::QosPolicy,
                json!({"host": null, "subsystem": "q", "nsid": 1, "removed": true}),
                "Removed the policy for any host on q/1.\n",
            ),
            (
                Method::SessionReserve,
                json!({"name": "g", "reserve": {"terms": "5 each 1 s", "namespace": "q/1"}}),
                "Session g has reserved 5 each 1 s on q/1.\n",
            ),
            (
                Method::SessionRelease,
                json!({"name": "g"}),
                "Session g has no reservation any more.\n",
            ),
        ] {
            assert_eq!(text(method, &answer), sentence);
        }
    }
}
