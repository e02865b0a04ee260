//! The dashboard for Grafana, systemd/sluicegate.dashboard.json: a panel for each family of the table in
//! docs/reference/metrics.md, behind an overview.
//!
//! `SLUICE_REWRITE=1 cargo test -p sluiced --lib metrics::tests::dashboard` writes the file.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::table::{Family, families};
use super::{query, schema};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/sluicegate.dashboard.json");

/// The version of Grafana's schema that the file has: Grafana 10.4 and later read it.
const SCHEMA_VERSION: u32 = 39;
/// Series of a panel whose number an operator or hosts determine.
const SERIES_MAX: u32 = 20;
/// Labels with a value for each object of operators or hosts.
const MANY: [&str; 6] = ["host", "session", "subsystem", "namespace", "region", "connection"];
/// Endings of gauges whose lowest series are of interest.
const LOWEST: [&str; 3] = ["_up", "_in_force", "_connected"];

/// The rows of the dashboard behind the overview: a title, and the beginnings of families' names.
const ROWS: [(&str, &str); 12] = [
    ("Daemon", "build start_time ready listener_up unstored log_lines qos_enabled network_enabled"),
    ("Connections", "connections connects_ hosts_lost protocol_errors tls_refused keep_alive"),
    ("Reactors", "reactor_"),
    ("Namespaces and devices", "namespace_ device_ file_system_"),
    ("Hosts", "host_"),
    ("Queues", "queue_"),
    ("Workloads", "workload_"),
    ("Classes", "class_"),
    ("Sessions and reservations", "session_ reservation_"),
    ("Links", "link_"),
    ("Flows", "flow_"),
    ("Regions", "pmem_ region_"),
];

/// The overview. A panel is a line `title | unit | description`, where the unit of one number says when it is red, and
/// lines `query | legend`. `$here` stands for [`HERE`].
const OVERVIEW: &str = "
Ready | red at 0 | 0: a listener is closed or a daemon is ending. `sluice status` has the reason.
    min(sluicegate_ready$here)
Namespaces unavailable | red above 0 | `sluice namespace list` has the reasons.
    count(sluicegate_namespace_up$here == 0) or vector(0)
Kinds of data not stored | red above 0 | A restart would lose them. `sluice status` has the reason.
    sum(sluicegate_unstored$here)
Hosts lost | red above 0 | Hosts that have lost their connection and may come back: `sluice host list`.
    sum(sluicegate_hosts_lost$here)
Operations by class | iops | Operations that ended, per second.
    sum by (class) (rate(sluicegate_class_operations_total$here[$__rate_interval])) | {{class}}
Bytes by operation | Bps | Bytes moved per second.
    sum by (operation) (rate(sluicegate_class_transferred_bytes_total$here[$__rate_interval])) | {{operation}}
Latency by class | s | 99th percentile of the time from a command's arrival to its answer.
    histogram_quantile(0.99, sum by (class, le) (rate(sluicegate_class_latency_seconds_bucket$here[$__rate_interval]))) | {{class}}
Load of reactors | percentunit | 1: a reactor is always busy.
    rate(sluicegate_reactor_busy_seconds_total$here[$__rate_interval]) | {{instance}} CPU {{core}}
Longest waits by session | s | Expected wait of a command that comes now. Above 5 s, limits hold hosts back.
    topk(10, sluicegate_session_wait_seconds$here) | {{instance}} {{session}}
Missed periods by session | none | Periods of reservations that were missed in the last 5 minutes: `sluice qos show`.
    topk(10, increase(sluicegate_reservation_periods_total$here[5m]) - increase(sluicegate_reservation_kept_total$here[5m])) | {{instance}} {{session}}
Rejected connections | cps | Refused Connect commands by reason, and connections refused before (TLS). The log names the hosts.
    sum by (reason) (rate(sluicegate_connects_refused_total$here[$__rate_interval])) | {{reason}}
    sum(rate(sluicegate_tls_refused_total$here[$__rate_interval])) | TLS
Errors of devices | cps | Commands that devices answered with errors.
    topk(10, rate(sluicegate_namespace_device_errors_total$here[$__rate_interval])) | {{instance}} {{subsystem}} {{nsid}}
";

/// The matcher of the targets that the dashboard shows.
const HERE: &str = "{instance=~\"$instance\"}";

/// A panel: its title, its description, its unit, and its queries with the legends of their series.
struct Panel {
    title: String,
    description: String,
    unit: &'static str,
    queries: Vec<(String, String)>,
    /// Whether the panel shows one number, and the number from which on it is red; a number below is green.
    stat: Option<Stat>,
}

/// The colours of a number.
#[derive(Clone, Copy)]
enum Stat {
    /// 0 is red.
    ZeroIsWrong,
    /// Above 0 is red.
    AboveZeroIsWrong,
}

/// Makes the overview's panels.
fn overview() -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for line in OVERVIEW.lines().skip(1).map(str::trim) {
        if let [title, unit, description] = line.split(" | ").collect::<Vec<_>>()[..] {
            let (unit, stat) = match unit {
                "red at 0" => ("none", Some(Stat::ZeroIsWrong)),
                "red above 0" => ("none", Some(Stat::AboveZeroIsWrong)),
                unit => (unit, None),
            };
            let (title, description) = (title.to_owned(), description.to_owned());
            panels.push(Panel { title, description, unit, queries: Vec::new(), stat });
        } else {
            let (query, legend) = line.split_once(" | ").unwrap_or((line, ""));
            let query = query.replace("$here", HERE);
            panels.last_mut().unwrap().queries.push((query, legend.to_owned()));
        }
    }
    panels
}

/// Makes the panel of a family.
fn panel(family: &Family) -> Panel {
    let name = family.name;
    let labels: Vec<&str> = family.labels.iter().copied().collect();
    let legend = ["instance"].iter().chain(&labels).map(|label| format!("{{{{{label}}}}}"));
    let legend = legend.collect::<Vec<_>>().join(" ");
    let rate = |suffix: &str| format!("rate(sluicegate_{name}{suffix}{HERE}[$__rate_interval])");
    let queries = match family.kind {
        "counter" => vec![(rate("_total"), legend)],
        "info" => vec![(format!("sluicegate_{name}_info{HERE}"), legend)],
        "histogram" => [("0.5", "p50"), ("0.99", "p99")]
            .map(|(part, words)| {
                let by = [&["instance"], &labels[..], &["le"]].concat().join(", ");
                let buckets = format!("sum by ({by}) ({})", rate("_bucket"));
                (format!("histogram_quantile({part}, {buckets})"), format!("{words} {legend}"))
            })
            .into(),
        // Grafana's times are in milliseconds.
        _ if name == "start_time_seconds" => {
            vec![(format!("1000 * sluicegate_{name}{HERE}"), legend)]
        }
        _ => vec![(format!("sluicegate_{name}{HERE}"), legend)],
    };
    let is_many = labels.iter().any(|label| MANY.contains(label));
    let pick = if LOWEST.iter().any(|end| name.ends_with(end)) { "bottomk" } else { "topk" };
    let bounded = |(expr, legend): (String, String)| {
        let expr = if is_many { format!("{pick}({SERIES_MAX}, {expr})") } else { expr };
        (expr, legend)
    };
    Panel {
        title: title(name),
        description: plain(family.meaning),
        unit: unit(family),
        queries: queries.into_iter().map(bounded).collect(),
        stat: None,
    }
}

/// The units at the ends of names, with Grafana's names for a gauge and for the rate of a counter.
const UNITS: [(&str, &str, &str); 7] = [
    ("_operations_per_second", "iops", ""),
    ("_bits_per_second", "bps", ""),
    ("_seconds", "s", "percentunit"),
    ("_bytes", "bytes", "Bps"),
    ("_ratio", "percentunit", ""),
    ("_packets", "none", "pps"),
    ("_operations", "none", "iops"),
];

/// Returns Grafana's unit of a family's panel.
fn unit(family: &Family) -> &'static str {
    let found = UNITS.iter().find(|(end, ..)| family.name.ends_with(end));
    match (family.kind, found) {
        _ if family.name == "start_time_seconds" => "dateTimeAsIso",
        ("counter", Some((_, _, rate))) => rate,
        ("counter", None) => "cps",
        (_, Some((_, gauge, _))) => gauge,
        _ => "none",
    }
}

/// Returns a title: the name in words, without its unit.
fn title(name: &str) -> String {
    let units = UNITS.iter().map(|(end, ..)| *end).filter(|end| *end != "_operations");
    let short = units.filter_map(|end| name.strip_suffix(end)).next().unwrap_or(name);
    let words = short.replace('_', " ");
    words[..1].to_uppercase() + &words[1..]
}

/// Returns a meaning without the links and marks of a document.
fn plain(meaning: &str) -> String {
    let mut text = String::new();
    let mut rest = meaning;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, (_, after))) =
            link.split_once("](").and_then(|(words, rest)| Some((words, rest.split_once(')')?)))
        else {
            break;
        };
        text += before;
        text += words;
        rest = after;
    }
    text += rest;
    text.replace('`', "")
}

const SOURCE: &str = "${datasource}";

/// Writes a panel at a place of the grid.
fn panel_json(panel: &Panel, id: usize, (x, y, w, h): (usize, usize, usize, usize)) -> Value {
    let source = json!({"type": "prometheus", "uid": SOURCE});
    let target = |(n, (expr, legend)): (u8, &(String, String))| {
        let id = char::from(b'A' + n).to_string();
        json!({"datasource": source, "editorMode": "code", "expr": expr, "legendFormat": legend,
               "range": true, "refId": id})
    };
    let targets: Vec<Value> = (0..).zip(&panel.queries).map(target).collect();
    let mut defaults = json!({"unit": panel.unit, "color": {"mode": "palette-classic"}});
    let (kind, options) = match panel.stat {
        Some(stat) => {
            let colours = match stat {
                Stat::ZeroIsWrong => ["red", "green"],
                Stat::AboveZeroIsWrong => ["green", "red"],
            };
            let steps = json!([{"color": colours[0], "value": null},
                               {"color": colours[1], "value": 1}]);
            defaults["color"]["mode"] = "thresholds".into();
            defaults["thresholds"] = json!({"mode": "absolute", "steps": steps});
            let reduce = json!({"calcs": ["lastNotNull"], "fields": "", "values": false});
            let options = json!({"colorMode": "background", "graphMode": "none",
                                 "reduceOptions": reduce, "textMode": "value"});
            ("stat", options)
        }
        None => {
            defaults["custom"] = json!({"fillOpacity": 5, "lineWidth": 1, "showPoints": "never"});
            if panel.unit != "dateTimeAsIso" {
                defaults["min"] = 0.into();
            }
            let legend = json!({"calcs": ["lastNotNull", "max"], "displayMode": "table",
                                "placement": "bottom", "showLegend": true});
            let options = json!({"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}});
            ("timeseries", options)
        }
    };
    json!({
        "type": kind, "id": id, "title": panel.title, "description": panel.description,
        "datasource": source, "targets": targets, "options": options,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "gridPos": {"x": x, "y": y, "w": w, "h": h},
    })
}

/// Places panels below `y`: up to four numbers in a row, and three graphs. Returns them, and the end of the last one.
fn placed(panels: &[Panel], id: &mut usize, y: usize) -> (Vec<Value>, usize) {
    let (mut x, mut y, mut height) = (0, y, 0);
    let mut values = Vec::new();
    for panel in panels {
        let (w, h) = if panel.stat.is_some() { (6, 4) } else { (8, 8) };
        if x + w > 24 {
            (x, y) = (0, y + height);
        }
        *id += 1;
        values.push(panel_json(panel, *id, (x, y, w, h)));
        (x, height) = (x + w, h);
    }
    (values, y + height)
}

/// Makes the dashboard.
fn dashboard() -> Value {
    let mut id = 0;
    let row = |id: usize, title: &str, y: usize, panels: Option<Vec<Value>>| {
        json!({"type": "row", "id": id, "title": title, "collapsed": panels.is_some(),
               "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": panels.unwrap_or_default()})
    };
    let all = families();
    id += 1;
    let mut panels = vec![row(id, "Overview", 0, None)];
    let (overview, mut y) = placed(&overview(), &mut id, 1);
    panels.extend(overview);
    for (title, names) in ROWS {
        let here = all.iter().filter(|family| row_of(family) == Some(title));
        let here: Vec<Panel> = here.map(panel).collect();
        let is_used = |name: &str| all.iter().any(|family| family.name.starts_with(name));
        assert!(names.split(' ').all(is_used), "{title}");
        id += 1;
        let of_row = id;
        let (inside, _) = placed(&here, &mut id, y + 1);
        panels.push(row(of_row, title, y, Some(inside)));
        y += 1;
    }
    let source = json!({"type": "datasource", "name": "datasource", "label": "Data source",
                        "query": "prometheus"});
    let instance = json!({
        "type": "query", "name": "instance", "label": "Target", "includeAll": true, "multi": true,
        "allValue": ".*", "refresh": 2, "query": "label_values(sluicegate_build_info, instance)",
        "datasource": {"type": "prometheus", "uid": SOURCE},
    });
    json!({
        "title": "Sluicegate", "uid": "sluicegate", "tags": ["sluicegate", "storage"],
        "description": "All metrics of Sluicegate targets. docs/reference/metrics.md describes them.",
        "schemaVersion": SCHEMA_VERSION, "editable": true, "graphTooltip": 1, "timezone": "browser",
        "refresh": "30s", "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": []},
        "templating": {"list": [source, instance]}, "panels": panels,
    })
}

/// Returns the title of a family's row.
fn row_of(family: &Family) -> Option<&'static str> {
    let has = |names: &str| names.split(' ').any(|name| family.name.starts_with(name));
    ROWS.into_iter().find(|(_, names)| has(names)).map(|(title, _)| title)
}

/// Returns all panels of a dashboard that are no rows.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().unwrap();
    let inside = all.iter().flat_map(|panel| panel["panels"].as_array().into_iter().flatten());
    all.iter().filter(|panel| panel["type"] != "row").chain(inside).collect()
}

/// Returns all queries of a dashboard.
fn queries(dashboard: &Value) -> Vec<&str> {
    let targets = panels(dashboard).into_iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

/// Writes a dashboard with one line for each panel.
fn text(value: &Value) -> String {
    let panels = value["panels"].as_array().filter(|panels| !panels.is_empty());
    let (Some(object), Some(panels)) = (value.as_object(), panels) else {
        return value.to_string();
    };
    let fields = object.iter().map(|(key, value)| match key.as_str() {
        "panels" => {
            let lines: Vec<String> = panels.iter().map(text).collect();
            format!("\"panels\": [\n{}\n]", lines.join(",\n"))
        }
        key => format!("\"{key}\": {value}"),
    });
    format!("{{\n{}\n}}", fields.collect::<Vec<_>>().join(",\n"))
}

/// Compares, or with `SLUICE_REWRITE=1` writes the file.
#[test]
fn dashboard_file_follows_table_of_families() {
    let dashboard = dashboard();
    let text = text(&dashboard) + "\n";
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), dashboard);
    if std::env::var_os("SLUICE_REWRITE").is_some() {
        std::fs::write(FILE, text).unwrap();
        return;
    }
    let there = std::fs::read_to_string(FILE).unwrap();
    assert!(there == text, "{FILE} is not current: SLUICE_REWRITE=1 writes it");
}

#[test]
fn each_family_has_panel_and_row() {
    let dashboard = dashboard();
    let shown: BTreeSet<&str> =
        queries(&dashboard).into_iter().flat_map(query::check).map(|family| family.name).collect();
    for family in families() {
        assert!(shown.contains(family.name), "{} is not on the dashboard", family.name);
        assert!(row_of(&family).is_some(), "{} has no row: add it to ROWS", family.name);
    }
}

#[test]
fn variable_and_legends_name_known_labels() {
    let dashboard = dashboard();
    assert!(!dashboard.to_string().contains("]("), "a description has a link");
    let instance = &dashboard["templating"]["list"][1]["query"];
    query::check(instance.as_str().unwrap());
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            let families = query::check(expr);
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1).map(|part| part.split("}}").next().unwrap()) {
                let is_known = families.iter().any(|family| family.labels.contains(label));
                assert!(is_known || label == "instance", "{label}: {expr}");
            }
        }
    }
}

#[test]
fn dashboard_has_form_of_grafanas_schema() {
    let mut dashboard = dashboard();
    assert_eq!(schema::faults(&dashboard), Vec::<String>::new());
    let ids: Vec<u64> = panels(&dashboard).iter().map(|p| p["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "identifiers are unique");
    for panel in panels(&dashboard) {
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{panel}");
    }
    dashboard["panels"][1]["targets"][0]["refId"] = Value::Null;
    dashboard["colour"] = "blue".into();
    dashboard.as_object_mut().unwrap().remove("title");
    assert_eq!(schema::faults(&dashboard).len(), 3, "faults are found");
}

#[test]
fn panels_do_not_overlap() {
    let dashboard = dashboard();
    let all = dashboard["panels"].as_array().unwrap();
    let groups = all.iter().map(|row| row["panels"].as_array().cloned().unwrap_or_default());
    for group in groups.chain([all.clone()]) {
        let area = |panel: &Value| {
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            (place("x")..place("x") + place("w"), place("y")..place("y") + place("h"))
        };
        for (n, one) in group.iter().enumerate() {
            for other in &group[n + 1..] {
                let ((x, y), (x2, y2)) = (area(one), area(other));
                let meet =
                    x.start < x2.end && x2.start < x.end && y.start < y2.end && y2.start < y.end;
                assert!(!meet, "{one}\n{other}");
            }
        }
    }
}
