//! The network as people read it.

use serde_json::Value;

use super::table::Align::{Left, Right};
use super::table::{Room, Table, rate};
use super::view::{at, field, is, list, number, or_dash};

/// The classes, the most urgent first.
const CLASSES: [&str; 4] = ["urgent", "high", "medium", "low"];
/// What a link does in each direction.
const DIRECTIONS: [&str; 2] = ["out", "in"];

/// The answer to a method of the network as text; `None` where it is another's.
pub(super) fn text(method: &str, result: &Value, room: Room) -> Option<String> {
    let of = |key: &str| field(result, key);
    Some(match method {
        "network.show" => show(result, room),
        "network.set" => settings(result),
        "network.listener" => {
            format!("Connections through {} share link {}.\n", of("address"), of("link"))
        }
        "link.add" => format!("Added {}\n", link(result)),
        "link.set" => format!("Changed {}\n", link(result)),
        "link.remove" => format!("Removed link {}.\n", of("name")),
        _ => return None,
    })
}

/// "link east: capacity auto; urgent free, high 3 parts, …".
fn link(result: &Value) -> String {
    let (name, capacity) = (field(result, "name"), field(result, "capacity"));
    format!("link {name}: capacity {capacity}; {}", aims(result))
}

/// What each class is to have.
fn aims(result: &Value) -> String {
    let classes = at(result, &["classes"]);
    CLASSES.map(|class| format!("{class} {}", aim(at(classes, &[class])))).join(", ")
}

/// What a class is to have: "3 parts", "2 Gbit/s", "within 2 ms", "free".
fn aim(value: &Value) -> String {
    match (value.get("share"), value.get("rate"), value.get("latency")) {
        (Some(parts), ..) if *parts == 1 => "1 part".into(),
        (Some(parts), ..) => format!("{parts} parts"),
        (_, Some(_), _) => field(value, "rate"),
        (.., Some(_)) => format!("within {}", field(value, "latency")),
        _ => value.as_str().unwrap_or("-").into(),
    }
}

/// `[network]` in a few lines.
fn settings(result: &Value) -> String {
    let on = match is(result, "enabled") {
        true => "on",
        false => "off: the kernel paces connections alone",
    };
    let writes = if is(result, "writes") { "paced too" } else { "not paced" };
    let used = match field(result, "base_used") {
        used if used.is_empty() || used == field(result, "base") => String::new(),
        used => format!(" (now {used})"),
    };
    format!(
        "Network classes are {on}.\n\
         what hosts send is {writes}, congestion control {}{used}, capacity {}\n\
         {}\n",
        field(result, "base"),
        field(result, "capacity"),
        aims(result),
    )
}

fn show(result: &Value, room: Room) -> String {
    let mut text = settings(result);
    for advice in list(result, "advice").iter().filter_map(Value::as_str) {
        text += &format!("advice: {advice}\n");
    }
    let links = list(result, "links");
    [text, links_table(links, room), classes(links, room)].join("\n")
}

fn links_table(links: &[Value], room: Room) -> String {
    let mut table = Table::new(&[
        ("LINK", Left),
        ("CAPACITY", Right),
        ("CARRIES OUT", Right),
        ("CARRIES IN", Right),
        ("LISTENERS", Left),
    ]);
    for row in links {
        let carries = |direction| rate_or_dash(at(row, &[direction, "estimate"]));
        let listeners: Vec<&str> =
            list(row, "listeners").iter().filter_map(Value::as_str).collect();
        let listeners = if listeners.is_empty() { "none".into() } else { listeners.join(", ") };
        table.row(vec![
            field(row, "name"),
            field(row, "capacity"),
            carries("out"),
            carries("in"),
            listeners,
        ]);
    }
    table.text("There are no links.", room)
}

/// One line for each link, direction and class.
fn classes(links: &[Value], room: Room) -> String {
    let mut table = Table::new(&[
        ("LINK", Left),
        ("DIRECTION", Left),
        ("CLASS", Left),
        ("AIM", Left),
        ("FLOWS", Right),
        ("TARGET", Right),
        ("RATE", Right),
        ("LIMIT", Right),
        ("ALPHA", Right),
        ("Q", Right),
        ("PACKETS", Right),
        ("MARKED", Right),
    ])
    .least(&["PACKETS", "MARKED", "ALPHA", "Q", "FLOWS", "AIM"]);
    for link in links {
        for direction in DIRECTIONS {
            for row in list(at(link, &[direction]), "classes") {
                let class = field(row, "class");
                let mut cells = vec![field(link, "name"), direction.into(), class.clone()];
                cells.push(aim(at(link, &["classes", &class])));
                cells.push(field(row, "flows"));
                cells.extend(flow(row));
                table.row(cells);
            }
        }
    }
    table.text("Nothing is known of what goes through them.", room)
}

/// Target, rate, limit, alpha, Q, packets and marks.
fn flow(row: &Value) -> Vec<String> {
    let fraction = |key: &str, places: usize| {
        let value = row.get(key).and_then(Value::as_f64);
        value.map_or_else(|| "-".into(), |value| format!("{value:.places$}"))
    };
    let mut cells: Vec<String> =
        ["target", "rate", "limit"].map(|key| rate_or_dash(at(row, &[key]))).into();
    cells.extend([fraction("alpha", 3), fraction("quality", 2)]);
    cells.extend(["delivered", "marked"].map(|key| number(row, key).to_string()));
    cells
}

/// A rate; `-` where there is none.
fn rate_or_dash(value: &Value) -> String {
    value.as_f64().filter(|bits| *bits > 0.0).map_or_else(|| "-".into(), rate)
}

/// The columns that a connection has of the network.
pub(super) const CONNECTION: [(&str, super::table::Align); 6] = [
    ("LINK", Left),
    ("CLASS", Left),
    ("BASE", Left),
    ("RTT", Right),
    ("LIMIT OUT", Right),
    ("LIMIT IN", Right),
];

/// What a connection has of the network; dashes where nothing is known.
pub(super) fn connection(row: &Value) -> [String; 6] {
    let network = at(row, &["network"]);
    let rtt = match number(network, "rtt_us") {
        0 => "-".into(),
        us if us < 10_000 => format!("{us} us"),
        us => format!("{} ms", us / 1000),
    };
    let limit = |direction| rate_or_dash(at(network, &[direction, "limit"]));
    let [link, class, base] = ["link", "class", "base"].map(|key| or_dash(network, key));
    [link, class, base, rtt, limit("out"), limit("in")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn answer() -> Value {
        let flow = |class: &str, limit: Value| {
            json!({"class": class, "flows": 2, "rate": 4.5e9, "target": limit, "limit": limit,
                   "alpha": 0.125, "quality": 0.96, "delivered": 1000, "marked": 125})
        };
        let direction = json!({
            "estimate": 9.4e9,
            "classes": [flow("urgent", json!(null)), flow("high", json!(4.75e9))],
        });
        json!({
            "enabled": true, "writes": true, "base": "auto", "base_used": "dctcp",
            "capacity": "10 Gbit/s",
            "classes": {"urgent": "free", "high": {"share": 3}, "medium": {"latency": "2 ms"},
                        "low": {"rate": "500 Mbit/s"}},
            "advice": ["turn on ECN: sysctl net.ipv4.tcp_ecn=1"],
            "links": [{
                "name": "default", "capacity": "10 Gbit/s",
                "classes": {"urgent": "free", "high": {"share": 3}},
                "listeners": ["192.0.2.1:4420"], "out": direction,
                "in": {"estimate": 0.0, "classes": []},
            }],
        })
    }

    #[test]
    fn links_and_classes_are_shown_with_units() {
        let text = text("network.show", &answer(), None).unwrap();
        assert!(text.starts_with("Network classes are on.\n"), "{text}");
        assert!(text.contains("congestion control auto (now dctcp), capacity 10 Gbit/s"), "{text}");
        let aims = "urgent free, high 3 parts, medium within 2 ms, low 500 Mbit/s\n";
        assert!(text.contains(aims), "{text}");
        assert!(text.contains("advice: turn on ECN"), "{text}");
        let lines: Vec<String> = text.lines().map(words).collect();
        for line in [
            "default 10 Gbit/s 9.4 Gbit/s - 192.0.2.1:4420",
            "default out urgent free 2 - 4.5 Gbit/s - 0.125 0.96 1000 125",
            "default out high 3 parts 2 4.75 Gbit/s 4.5 Gbit/s 4.75 Gbit/s 0.125 0.96 1000 125",
        ] {
            assert!(lines.iter().any(|seen| seen == line), "{line}\n{text}");
        }
    }

    #[test]
    fn changes_are_told_in_words() {
        let mut off = answer();
        off["enabled"] = json!(false);
        let seen = text("network.set", &off, None).unwrap();
        assert!(seen.starts_with("Network classes are off: the kernel paces"), "{seen}");
        let link = json!({"name": "east", "capacity": "auto",
                          "classes": {"urgent": "free", "high": {"share": 1}}});
        assert_eq!(
            text("link.add", &link, None).unwrap(),
            "Added link east: capacity auto; urgent free, high 1 part, medium -, low -\n"
        );
        let listener = json!({"address": "a:1", "link": "east"});
        let sentence = "Connections through a:1 share link east.\n";
        assert_eq!(text("network.listener", &listener, None).unwrap(), sentence);
        assert_eq!(text("qos.show", &json!({}), None), None);
    }

    #[test]
    fn a_connection_without_a_state_has_dashes() {
        assert!(connection(&json!({"network": null})).iter().all(|cell| cell == "-"));
        let network = json!({"network": {"link": "default", "class": "high", "base": "bbr",
            "rtt_us": 25_000, "out": {"limit": 6.25e7}, "in": {"limit": null}}});
        let seen = connection(&network);
        assert_eq!(seen, ["default", "high", "bbr", "25 ms", "62.5 Mbit/s", "-"]);
    }
}
