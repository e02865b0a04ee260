//! The network as people read it.

use serde_json::Value;
use sluice_config::answer::{ConnectionNetwork, FlowState, LinkClassState, LinkRow, Network};
use sluice_config::params::Settings;

use super::cells::{or_dash, rest, setting};
use super::table::Align::{self, Left, Right};
use super::table::{Room, Table, rate};

/// The classes, the most urgent first.
const CLASSES: [&str; 4] = ["urgent", "high", "medium", "low"];

/// Returns text such as "link east: capacity auto; urgent free, high 3 parts, …".
pub(super) fn link(link: &Settings) -> String {
    let (name, capacity) = (setting(link, "name"), setting(link, "capacity"));
    format!("link {name}: capacity {capacity}; {}", goals(link))
}

/// Writes the goal of each class.
fn goals(settings: &Settings) -> String {
    let of = |class| settings.get("classes").and_then(|classes| classes.get(class));
    CLASSES.map(|class| format!("{class} {}", goal(of(class)))).join(", ")
}

/// Writes the goal of a class: "3 parts", "2 Gbit/s", "within 2 ms", "free".
fn goal(goal: Option<&Value>) -> String {
    let text = |key: &str| goal.and_then(|goal| goal.get(key)?.as_str());
    let parts = goal.and_then(|goal| goal.get("share")?.as_u64());
    match (parts, text("rate"), text("latency")) {
        (Some(1), ..) => "1 part".into(),
        (Some(parts), ..) => format!("{parts} parts"),
        (_, Some(rate), _) => rate.into(),
        (.., Some(time)) => format!("within {time}"),
        _ => goal.and_then(Value::as_str).unwrap_or("-").into(),
    }
}

/// The keys of `[network]` that the sentences of [`settings`] show.
const SHOWN: [&str; 5] = ["enabled", "writes", "base", "capacity", "classes"];

/// Writes `[network]` in a few lines; `used` is the congestion control that connections have.
pub(super) fn settings(network: &Settings, used: Option<&str>) -> String {
    let is = |key: &str| network.get(key) == Some(&Value::Bool(true));
    let state = match is("enabled") {
        true => "on",
        false => "off: the kernel paces connections alone",
    };
    let writes = if is("writes") { "paced too" } else { "not paced" };
    let base = setting(network, "base");
    let used = match used {
        Some(used) if !used.is_empty() && used != base => format!(" (now {used})"),
        _ => String::new(),
    };
    let shown = format!(
        "Network classes are {state}.\n\
         what hosts send is {writes}, congestion control {base}{used}, capacity {}\n\
         {}\n",
        setting(network, "capacity"),
        goals(network),
    );
    shown + &rest(network, &SHOWN)
}

/// Writes the answer to `network.show`.
pub(super) fn show(network: &Network, room: Room) -> String {
    let mut text = settings(&network.settings, Some(&network.base_used));
    for advice in &network.advice {
        text += &format!("advice: {advice}\n");
    }
    [text, links_table(&network.links, room), classes(&network.links, room)].join("\n")
}

fn links_table(links: &[LinkRow], room: Room) -> String {
    let mut table = Table::new(&[("LINK", Left), ("CAPACITY", Right), ("LISTENERS", Left)]);
    for row in links {
        let listeners = match &row.listeners[..] {
            [] => "none".into(),
            listeners => listeners.join(", "),
        };
        table.row_of(
            row.live,
            vec![setting(&row.settings, "name"), setting(&row.settings, "capacity"), listeners],
        );
    }
    table.text("There are no links.", room)
}

/// Writes one line for each link, direction and class.
fn classes(links: &[LinkRow], room: Room) -> String {
    let mut table = Table::new(&[
        ("LINK", Left),
        ("DIRECTION", Left),
        ("CLASS", Left),
        ("AIM", Align::Value),
        ("FLOWS", Right),
        ("DEMAND", Left),
        ("RATE", Right),
        ("TARGET", Right),
        ("LIMIT", Right),
        ("FOR", Left),
        ("ALPHA", Right),
        ("Q", Right),
        ("PACKETS", Right),
        ("MARKED", Right),
    ])
    .least(&["PACKETS", "MARKED", "ALPHA", "Q", "FLOWS", "AIM"]);
    for link in links {
        for (direction, state) in [("out", &link.out), ("in", &link.into)] {
            for row in &state.classes {
                let mut cells =
                    vec![setting(&link.settings, "name"), direction.into(), row.class.clone()];
                cells.push(goal(link.settings.get("classes").and_then(|c| c.get(&row.class))));
                cells.push(row.flows.to_string());
                cells.push(demand(row).into());
                cells.extend(rates(row));
                cells.extend(packets(&row.total));
                table.row(cells);
            }
        }
    }
    table.text("No traffic has been measured.", room)
}

/// Writes the demand of a class: more than it has, or no more.
fn demand(class: &LinkClassState) -> &'static str {
    match (class.flows, class.backlogged) {
        (0, _) => "-",
        (_, true) => "more",
        (_, false) => "enough",
    }
}

/// Writes the rate, target and limit of a class, and the class for which it is limited.
fn rates(class: &LinkClassState) -> [String; 4] {
    [
        rate_or_dash(Some(class.total.rate)),
        rate_or_dash(class.total.target),
        rate_or_dash(class.total.limit),
        or_dash(class.held_for.as_deref()),
    ]
}

/// Writes alpha, Q, packets and marks.
fn packets(flow: &FlowState) -> [String; 4] {
    [
        format!("{:.3}", flow.alpha),
        format!("{:.2}", flow.quality),
        flow.delivered.to_string(),
        flow.marked.to_string(),
    ]
}

/// Writes a rate in bits per second; `-` where there is none.
fn rate_or_dash(bits: Option<f64>) -> String {
    bits.filter(|bits| *bits > 0.0).map_or_else(|| "-".into(), rate)
}

/// The columns of a connection that are about the network.
pub(super) const CONNECTION: [(&str, Align); 6] = [
    ("LINK", Left),
    ("CLASS", Left),
    ("BASE", Left),
    ("RTT", Right),
    ("LIMIT OUT", Right),
    ("LIMIT IN", Right),
];

/// Writes the network's cells of a connection; dashes where nothing is known.
pub(super) fn connection(network: Option<&ConnectionNetwork>) -> [String; 6] {
    let rtt = match network.map_or(0, |network| network.rtt_us) {
        0 => "-".into(),
        us if us < 10_000 => format!("{us} us"),
        us => format!("{} ms", us / 1000),
    };
    let limit = |of: fn(&ConnectionNetwork) -> FlowState| {
        rate_or_dash(network.and_then(|network| of(network).limit))
    };
    [
        or_dash(network.map(|network| &network.link)),
        or_dash(network.map(|network| &network.class)),
        or_dash(network.map(|network| &network.base)),
        rtt,
        limit(|network| network.out),
        limit(|network| network.into),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_config::Method;

    use super::super::shown;
    use super::*;

    fn text(method: Method, answer: &Value) -> String {
        shown::text(method, answer, Room::Unlimited)
    }

    fn answer() -> Value {
        let flow = |class: &str, limit: Value| {
            json!({"class": class, "flows": 2, "backlogged": !limit.is_null(), "held_for": "medium", "rate": 4.5e9, "target": limit, "limit": limit,
                   "alpha": 0.125, "quality": 0.96, "delivered": 1000, "marked": 125})
        };
        let classes = [flow("urgent", json!(null)), flow("high", json!(4.75e9))];
        let direction = json!({ "classes": classes });
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
                "in": {"classes": []},
            }],
        })
    }

    #[test]
    fn links_and_classes_are_shown_with_units() {
        let text = text(Method::NetworkShow, &answer());
        assert!(text.starts_with("Network classes are on.\n"), "{text}");
        assert!(text.contains("congestion control auto (now dctcp), capacity 10 Gbit/s"), "{text}");
        let goals = "urgent free, high 3 parts, medium within 2 ms, low 500 Mbit/s\n";
        assert!(text.contains(goals), "{text}");
        assert!(text.contains("advice: turn on ECN"), "{text}");
        let lines = shown::lines(&text);
        for line in [
            "default 10 Gbit/s 192.0.2.1:4420",
            "default out urgent free 2 enough 4.5 Gbit/s - - medium 0.125 0.96 1000 125",
            "default out high 3 parts 2 more 4.5 Gbit/s 4.75 Gbit/s 4.75 Gbit/s medium 0.125 0.96 1000 125",
        ] {
            assert!(lines.iter().any(|seen| seen == line), "{line}\n{text}");
        }
    }

    #[test]
    fn changes_are_told_in_words() {
        let mut off = answer();
        off["enabled"] = json!(false);
        let seen = text(Method::NetworkSet, &off);
        assert!(seen.starts_with("Network classes are off: the kernel paces"), "{seen}");
        let link = json!({"name": "east", "capacity": "auto",
                          "classes": {"urgent": "free", "high": {"share": 1}}});
        assert_eq!(
            text(Method::LinkAdd, &link),
            "Added link east: capacity auto; urgent free, high 1 part, medium -, low -\n"
        );
        let listener = json!({"address": "a:1", "link": "east"});
        let sentence = "Connections through a:1 share link east.\n";
        assert_eq!(text(Method::NetworkListener, &listener), sentence);
    }

    #[test]
    fn a_connection_without_a_state_has_dashes() {
        assert!(connection(None).iter().all(|cell| cell == "-"));
        let network = json!({"link": "default", "class": "high", "base": "bbr",
            "rtt_us": 25_000, "out": {"limit": 6.25e7}, "in": {"limit": null}});
        let network: ConnectionNetwork = serde_json::from_value(network).unwrap();
        let seen = connection(Some(&network));
        assert_eq!(seen, ["default", "high", "bbr", "25 ms", "62.5 Mbit/s", "-"]);
    }
}
