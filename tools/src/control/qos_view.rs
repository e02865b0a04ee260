//! Quality of service as people read it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::table::Align::{Left, Right};
use super::table::{Room, Table, size};
use super::view::{at, field, is, list, number, or_dash, rows};

/// The answer to a method of quality of service as text; `None` where it is another's.
pub(super) fn text(method: &str, result: &Value, room: Room) -> Option<String> {
    Some(match method {
        "qos.show" => show(result, room),
        "qos.set" => settings(result),
        "session.list" => sessions(rows(result), room),
        _ => change(method, result)? + "\n",
    })
}

fn show(result: &Value, room: Room) -> String {
    let parts = [
        settings(result),
        classes(list(result, "classes"), room),
        sessions(list(result, "sessions"), room),
        devices(list(result, "devices"), room),
        policies(list(result, "policies"), room),
    ];
    parts.join("\n")
}

/// `[qos]` in a few lines.
fn settings(result: &Value) -> String {
    let on = if is(result, "enabled") { "on" } else { "off: commands go as they come" };
    let weights = at(result, &["weights"]);
    let weights = ["high", "medium", "low"].map(|class| field(weights, class)).join(":");
    let mut window = format!("window {}", field(result, "window"));
    if result.get("latency_target").is_some_and(|target| !target.is_null()) {
        let (target, max) = (field(result, "latency_target"), field(result, "window_max"));
        window += &format!(" (keeps {target}, at most {max})");
    }
    let switch = |key| if is(result, key) { "on" } else { "off" };
    let marks = at(result, &["dscp"]);
    let marks = ["urgent", "high", "medium", "low"]
        .map(|class| format!("{class} {}", or_dash(marks, class)))
        .join(", ");
    format!(
        "Quality of service is {on}.\n\
         weights {weights} by {}, burst {}, urgent first up to {} % of a device\n\
         {window}, credits for {} operations and {}, {} commands may wait\n\
         NVMe weighted round robin {}, marks {} ({marks})\n",
        field(result, "unit"),
        field(result, "burst"),
        field(result, "urgent_share"),
        field(result, "operations"),
        size(number(result, "payload")),
        field(result, "queue"),
        switch("wrr"),
        switch("mark"),
    )
}

/// Operations and bytes of all kinds together.
fn sums(row: &Value) -> (u64, u64) {
    let kinds = ["read", "write", "other"].map(|kind| at(row, &["io", kind]));
    let sum = |key| kinds.iter().map(|kind| number(kind, key)).fold(0, u64::saturating_add);
    (sum("operations"), sum("bytes"))
}

/// The columns that everything with traffic has.
const TRAFFIC: [(&str, super::table::Align); 6] = [
    ("WAITING", Right),
    ("REFUSED", Right),
    ("OPERATIONS", Right),
    ("BYTES", Right),
    ("QUEUED P99", Right),
    ("DEVICE P99", Right),
];

/// What a narrow terminal does without, of classes and sessions: `sluice top` has it too.
const LEAST: [&str; 10] = [
    "PAYLOAD",
    "BYTES",
    "KEPT",
    "QUEUED P99",
    "OPERATIONS",
    "DEVICE P99",
    "BYTES/S LIMIT",
    "RESERVED",
    "IOPS LIMIT",
    "REFUSED",
];

fn traffic(row: &Value) -> Vec<String> {
    let (operations, bytes) = sums(row);
    let p99 = |key| number(at(row, &["io", key]), "p99");
    vec![
        field(row, "waiting"),
        field(row, "refused"),
        operations.to_string(),
        size(bytes),
        time(p99("queueing")),
        time(p99("service")),
    ]
}

/// A time with its unit and three digits: "51.2 us".
pub(super) fn time(ns: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    match UNITS.iter().find(|(_, unit)| ns >= *unit) {
        None if ns == 0 => "-".into(),
        None => format!("{ns} ns"),
        Some((name, unit)) => {
            let value = ns as f64 / *unit as f64;
            let places = if value >= 100.0 { 0 } else { 1 };
            format!("{value:.places$} {name}")
        }
    }
}

fn classes(list: &[Value], room: Room) -> String {
    let heading: Vec<_> = [("CLASS", Left)].into_iter().chain(TRAFFIC).collect();
    let mut table = Table::new(&heading).least(&LEAST);
    for row in list {
        table.row([vec![field(row, "class")], traffic(row)].concat());
    }
    table.text("There are no classes.", room)
}

/// Sessions with their depths, each below its parent. One whose parent is not there stands at the
/// top.
fn tree(list: &[Value]) -> Vec<(usize, &Value)> {
    let mut children: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let names: BTreeSet<String> = list.iter().map(|row| field(row, "name")).collect();
    let mut ahead = Vec::new();
    for row in list {
        match field(row, "parent") {
            parent if names.contains(&parent) => children.entry(parent).or_default().push(row),
            _ => ahead.push((0, row)),
        }
    }
    ahead.reverse();
    let mut all = Vec::new();
    while let Some((depth, row)) = ahead.pop() {
        all.push((depth, row));
        let below = children.remove(&field(row, "name")).unwrap_or_default();
        ahead.extend(below.into_iter().rev().map(|row| (depth + 1, row)));
    }
    all
}

fn sessions(list: &[Value], room: Room) -> String {
    let mut heading = vec![
        ("SESSION", Left),
        ("IN DEVICES", Right),
        ("PAYLOAD", Right),
        ("IOPS LIMIT", Right),
        ("BYTES/S LIMIT", Right),
        ("RESERVED", Left),
        ("KEPT", Right),
    ];
    heading.extend(TRAFFIC);
    let mut table = Table::new(&heading).least(&LEAST);
    for (depth, row) in tree(list) {
        let operations = at(row, &["operations"]);
        let payload = at(row, &["payload"]);
        let reserve = at(row, &["reserve"]);
        let kept = match reserve.is_null() {
            true => "-".into(),
            false => format!("{} of {}", field(reserve, "kept"), field(reserve, "periods")),
        };
        let bandwidth = match number(row, "bandwidth") {
            0 => "-".into(),
            bytes => size(bytes),
        };
        let used = (number(payload, "used"), number(payload, "credits"));
        let own = vec![
            format!("{}{}", "  ".repeat(depth), field(row, "name")),
            format!("{} of {}", field(operations, "used"), field(operations, "credits")),
            format!("{} of {}", size(used.0), size(used.1)),
            or_dash(row, "iops"),
            bandwidth,
            or_dash(reserve, "terms"),
            kept,
        ];
        table.row([own, traffic(row)].concat());
    }
    table.text("There are no sessions.", room)
}

fn devices(list: &[Value], room: Room) -> String {
    let mut table = Table::new(&[
        ("DEVICE OF", Left),
        ("NSID", Right),
        ("CLASS", Left),
        ("WINDOW", Right),
        ("IN USE", Right),
        ("URGENT", Right),
        ("HIGH", Right),
        ("MEDIUM", Right),
        ("LOW", Right),
        ("READ", Right),
        ("WRITE", Right),
        ("RESERVED", Right),
    ])
    .least(&["CLASS", "READ", "WRITE", "RESERVED", "MEDIUM", "HIGH"]);
    for row in list {
        let float = |key: &str| row.get(key).and_then(Value::as_f64);
        let window = match (is(row, "arbitrated"), float("window")) {
            (false, _) => "-".into(),
            (true, None) => "off".into(),
            (true, Some(window)) => format!("{window:.1}"),
        };
        let waiting = at(row, &["waiting"]);
        let mean = at(row, &["mean_ns"]);
        table.row(vec![
            field(row, "subsystem"),
            field(row, "nsid"),
            or_dash(row, "class"),
            window,
            format!("{:.1}", float("in_use").unwrap_or(0.0)),
            field(waiting, "urgent"),
            field(waiting, "high"),
            field(waiting, "medium"),
            field(waiting, "low"),
            time(number(mean, "read")),
            time(number(mean, "write")),
            format!("{:.0} %", float("reserved").unwrap_or(0.0) * 100.0),
        ]);
    }
    table.text("There are no devices.", room)
}

fn policies(list: &[Value], room: Room) -> String {
    let mut table = Table::new(&[
        ("POLICY FOR HOST", Left),
        ("SUBSYSTEM", Left),
        ("NSID", Left),
        ("CLASS", Left),
        ("AT MOST", Left),
        ("URGENT IOPS", Right),
        ("SESSION", Left),
    ])
    .least(&["URGENT IOPS", "AT MOST"]);
    let any = |row: &Value, key: &str| match or_dash(row, key) {
        dash if dash == "-" => "any".into(),
        name => name,
    };
    for row in list {
        let mut cells: Vec<String> = ["host", "subsystem", "nsid"].map(|key| any(row, key)).into();
        let says = ["class", "max_class", "urgent_iops", "session"].map(|key| or_dash(row, key));
        cells.extend(says);
        table.row(cells);
    }
    table.text("There are no policies.", room)
}

/// What a change did, in a sentence; `None` for a method of others.
fn change(method: &str, result: &Value) -> Option<String> {
    let of = |key: &str| field(result, key);
    let class = match or_dash(result, "class") {
        dash if dash == "-" => "no class".to_owned(),
        class => format!("class {class}"),
    };
    Some(match method {
        "qos.listener" => format!("Connections through {} have {class}.", of("address")),
        "qos.namespace" => {
            format!("Namespace {} of {} has {class}.", of("nsid"), of("subsystem"))
        }
        "qos.policy" => {
            let verb = if is(result, "removed") { "Removed" } else { "Set" };
            format!("{verb} the policy for {}.", scope(result))
        }
        "session.add" => format!("Added session {}.", of("name")),
        "session.set" => format!("Changed session {}.", of("name")),
        "session.remove" => format!("Removed session {}.", of("name")),
        "session.reserve" => {
            let reserve = at(result, &["reserve"]);
            let (terms, on) = (field(reserve, "terms"), field(reserve, "namespace"));
            format!("Session {} has reserved {terms} on {on}.", of("name"))
        }
        "session.release" => format!("Session {} has no reservation any more.", of("name")),
        _ => return None,
    })
}

/// What a policy is for.
fn scope(result: &Value) -> String {
    let or = |key: &str, any: &str| match field(result, key) {
        name if name.is_empty() => any.to_owned(),
        name => name,
    };
    let namespace = match field(result, "nsid") {
        nsid if nsid.is_empty() => String::new(),
        nsid => format!("/{nsid}"),
    };
    format!("{} on {}{namespace}", or("host", "any host"), or("subsystem", "any subsystem"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn traffic_of(mut row: Value) -> Value {
        let op = json!({"operations": 10, "bytes": 40_960, "errors": 0});
        let times = json!({"mean": 1, "p50": 1, "p90": 1, "p99": 51_200, "p999": 1});
        let io = json!({"read": op, "write": op, "other": op, "queueing": times, "service": times});
        let fields = row.as_object_mut().unwrap();
        fields.extend([
            ("waiting".into(), json!(4)),
            ("refused".into(), json!(0)),
            ("io".into(), io),
        ]);
        row
    }

    fn line(text: &str, start: &str) -> String {
        let line = text.lines().find(|line| line.trim_start().starts_with(start));
        let words: Vec<&str> =
            line.unwrap_or_else(|| panic!("{start}\n{text}")).split_whitespace().collect();
        words.join(" ")
    }

    #[test]
    fn everything_is_shown_with_units() {
        let credits = json!({"used": 7, "credits": 4096, "share": null});
        let session = |name: &str, parent: Value, reserve: Value| {
            traffic_of(json!({
                "name": name, "parent": parent, "automatic": true, "operations": credits,
                "payload": credits, "iops": null, "bandwidth": 1 << 20, "queue": 5,
                "reserve": reserve,
            }))
        };
        let reserve = json!({
            "namespace": "q/1", "terms": "5 each 1 s", "utilisation": 0.25, "periods": 9, "kept": 8,
        });
        let answer = json!({
            "enabled": true, "weights": {"high": 3, "medium": 2, "low": 1}, "unit": "commands",
            "burst": 4, "urgent_share": 20, "window": "adaptive", "latency_target": "2 ms",
            "window_max": 1024, "operations": 65_536, "payload": 1u64 << 40, "queue": 65_536,
            "wrr": true, "mark": false,
            "dscp": {"urgent": 46, "high": 34, "medium": 18, "low": 8},
            "classes": [traffic_of(json!({"class": "urgent"}))],
            "sessions": [session("root", json!(null), json!(null)),
                         session("q", json!("root"), reserve)],
            "devices": [{
                "subsystem": "q", "nsid": 1, "class": null, "arbitrated": true, "window": 32.5,
                "in_use": 3.0, "waiting": {"urgent": 0, "high": 1, "medium": 2, "low": 3},
                "mean_ns": {"read": 100_000, "write": 0}, "reserved": 0.25,
            }],
            "policies": [{
                "host": "h", "subsystem": null, "nsid": null, "class": "high", "max_class": null,
                "urgent_iops": null, "session": "gold",
            }],
        });
        let text = text("qos.show", &answer, None).unwrap();
        assert!(text.contains("weights 3:2:1 by commands"), "{text}");
        assert!(text.contains("window adaptive (keeps 2 ms, at most 1024)"), "{text}");
        assert!(text.contains("marks off (urgent 46, high 34"), "{text}");
        assert_eq!(line(&text, "urgent "), "urgent 4 0 30 120 KiB 51.2 us 51.2 us");
        let q = "q 7 of 4096 7 B of 4 KiB - 1 MiB 5 each 1 s 8 of 9 4 0 30 120 KiB 51.2 us 51.2 us";
        assert_eq!(line(&text, "q  "), q);
        assert!(text.contains("\n  q "), "children are indented: {text}");
        assert_eq!(line(&text, "h "), "h any any high - - gold");
        assert!(text.contains("100 us"), "{text}");
    }

    #[test]
    fn a_session_stands_below_its_parent_whatever_the_order() {
        let list: Vec<Value> = [
            ("root", None),
            ("a", Some("root")),
            ("b", Some("root")),
            ("a1", Some("a")),
            ("b1", Some("b")),
            ("lost", Some("gone")),
        ]
        .map(|(name, parent)| json!({"name": name, "parent": parent}))
        .into();
        let names: Vec<String> = tree(&list)
            .iter()
            .map(|(depth, row)| format!("{depth}{}", field(row, "name")))
            .collect();
        assert_eq!(names, ["0root", "1a", "2a1", "1b", "2b1", "0lost"]);
    }

    #[test]
    fn changes_are_told_in_a_sentence() {
        for (method, answer, sentence) in [
            (
                "qos.listener",
                json!({"address": "a:1", "class": null}),
                "Connections through a:1 have no class.\n",
            ),
            (
                "qos.policy",
                json!({"host": null, "subsystem": "q", "nsid": 1, "removed": true}),
                "Removed the policy for any host on q/1.\n",
            ),
            (
                "session.reserve",
                json!({"name": "g", "reserve": {"terms": "5 each 1 s", "namespace": "q/1"}}),
                "Session g has reserved 5 each 1 s on q/1.\n",
            ),
            ("session.release", json!({"name": "g"}), "Session g has no reservation any more.\n"),
        ] {
            assert_eq!(text(method, &answer, None).unwrap(), sentence);
        }
        assert_eq!(text("host.add", &json!({}), None), None);
    }
}
