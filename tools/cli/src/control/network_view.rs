//! The network as people read it.

use serde_json::Value;
use sluice_config::answer::{Connection, LinkClassState, LinkRow, Network};
use sluice_config::params::Settings;

use super::cells::{names, or_dash, rest, setting};
use super::table::Align::{self, Left, Right};
use super::table::{Column, Room, Table, rate};

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
    let columns: [Column<LinkRow>; 3] = [
        ("LINK", Left, |row| setting(&row.settings, "name")),
        ("CAPACITY", Right, |row| setting(&row.settings, "capacity")),
        ("LISTENERS", Left, |row| names(Some(&row.listeners), "")),
    ];
    let table = Table::from_rows(links, &columns).live(links.iter().map(|row| row.live));
    table.text("There are no links.", room)
}

/// Writes one line for each link, direction and class.
fn classes(links: &[LinkRow], room: Room) -> String {
    type Row<'l> = (&'l Settings, &'static str, &'l LinkClassState);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for link in links {
        for (direction, state) in [("out", &link.out), ("in", &link.into)] {
            rows.extend(state.classes.iter().map(|row| (&link.settings, direction, row)));
        }
    }
    let columns: [Column<Row<'_>>; 14] = [
        ("LINK", Left, |(link, ..)| setting(link, "name")),
        ("DIRECTION", Left, |(_, direction, _)| (*direction).into()),
        ("CLASS", Left, |(.., row)| row.class.clone()),
        ("AIM", Align::Value, |(link, _, row)| {
            goal(link.get("classes").and_then(|classes| classes.get(&row.class)))
        }),
        ("FLOWS", Right, |(.., row)| row.flows.to_string()),
        ("DEMAND", Left, |(.., row)| demand(row).into()),
        ("RATE", Right, |(.., row)| rate_or_dash(Some(row.total.rate))),
        ("TARGET", Right, |(.., row)| rate_or_dash(row.total.target)),
        ("LIMIT", Right, |(.., row)| rate_or_dash(row.total.limit)),
        // The class for which this one is limited.
        ("FOR", Left, |(.., row)| or_dash(row.held_for.as_deref())),
        ("ALPHA", Right, |(.., row)| format!("{:.3}", row.total.alpha)),
        ("Q", Right, |(.., row)| format!("{:.2}", row.total.quality)),
        ("PACKETS", Right, |(.., row)| row.total.delivered.to_string()),
        ("MARKED", Right, |(.., row)| row.total.marked.to_string()),
    ];
    let least = &["PACKETS", "MARKED", "ALPHA", "Q", "FLOWS", "AIM"];
    let table = Table::from_rows(&rows, &columns).least(least);
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

/// Writes a rate in bits per second; `-` where there is none.
fn rate_or_dash(bits: Option<f64>) -> String {
    bits.filter(|bits| *bits > 0.0).map_or_else(|| "-".into(), rate)
}

/// The columns of a connection that are about the network; dashes where nothing is known.
pub(super) const CONNECTION: [Column<Connection>; 6] = [
    ("LINK", Left, |row| or_dash(row.network.as_ref().map(|network| &network.link))),
    ("CLASS", Left, |row| or_dash(row.network.as_ref().map(|network| &network.class))),
    ("BASE", Left, |row| or_dash(row.network.as_ref().map(|network| &network.base))),
    ("RTT", Right, |row| match row.network.as_ref().map_or(0, |network| network.rtt_us) {
        0 => "-".into(),
        us if us < 10_000 => format!("{us} us"),
        us => format!("{} ms", us / 1000),
    }),
    ("LIMIT OUT", Right, |row| rate_or_dash(row.network.as_ref().and_then(|of| of.out.limit))),
    ("LIMIT IN", Right, |row| rate_or_dash(row.network.as_ref().and_then(|of| of.into.limit))),
];

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_config::Method;

    use super::super::shown::{self, text};
    use super::*;

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
        let cells = |network| {
            let row = Connection { network, ..Connection::default() };
            CONNECTION.map(|(.., cell)| cell(&row))
        };
        assert!(cells(None).iter().all(|cell| cell == "-"));
        let network = json!({"link": "default", "class": "high", "base": "bbr",
            "rtt_us": 25_000, "out": {"limit": 6.25e7}, "in": {"limit": null}});
        let seen = cells(Some(serde_json::from_value(network).unwrap()));
        assert_eq!(seen, ["default", "high", "bbr", "25 ms", "62.5 Mbit/s", "-"]);
    }
}
