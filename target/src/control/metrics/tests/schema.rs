//! Grafana's schema of dashboards, as far as the dashboard uses it: the fields of each object with their types, from
//! `kinds/dashboard/dashboard_kind.cue` of Grafana's source (schema version 36 and later). The options of the panels
//! `timeseries` and `stat` and of Prometheus' queries follow Grafana's own exports.

use serde_json::{Map, Value};

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Flag,
    Number,
    /// A number, or `null`: the first step of thresholds has no lower end.
    NumberOrNull,
    /// One of these texts.
    Word(&'static [&'static str]),
    Object(&'static [Field]),
    List(&'static Self),
    /// Panels and rows.
    Panels,
    /// Variables.
    Variables,
}

/// The name of a field, its type, and whether it is required.
type Field = (&'static str, Kind, bool);

use Kind::{Flag, List, Number, NumberOrNull, Object, Panels, Text, Variables, Word};

const SOURCE: Kind = Object(&[("type", Word(&["prometheus"]), true), ("uid", Text, true)]);

const DASHBOARD: &[Field] = &[
    ("annotations", Object(&[("list", List(&Object(&[])), true)]), false),
    ("description", Text, false),
    ("editable", Flag, true),
    ("graphTooltip", Number, true),
    ("panels", Panels, true),
    ("refresh", Text, true),
    ("schemaVersion", Number, true),
    ("tags", List(&Text), true),
    ("templating", Object(&[("list", Variables, true)]), true),
    ("time", Object(&[("from", Text, true), ("to", Text, true)]), true),
    ("timezone", Text, true),
    ("title", Text, true),
    ("uid", Text, true),
];

const GRID: Kind =
    Object(&[("h", Number, true), ("w", Number, true), ("x", Number, true), ("y", Number, true)]);

const ROW: &[Field] = &[
    ("type", Word(&["row"]), true),
    ("collapsed", Flag, true),
    ("title", Text, true),
    ("gridPos", GRID, true),
    ("id", Number, true),
    ("panels", Panels, true),
];

const TARGET: Kind = Object(&[
    ("datasource", SOURCE, true),
    ("editorMode", Word(&["code", "builder"]), true),
    ("expr", Text, true),
    ("legendFormat", Text, true),
    ("range", Flag, true),
    ("refId", Text, true),
]);

const STEP: Kind = Object(&[("color", Text, true), ("value", NumberOrNull, true)]);

const DEFAULTS: Kind = Object(&[
    ("color", Object(&[("mode", Word(&["palette-classic", "thresholds"]), true)]), true),
    (
        "custom",
        Object(&[
            ("fillOpacity", Number, true),
            ("lineWidth", Number, true),
            ("showPoints", Word(&["auto", "never", "always"]), true),
        ]),
        false,
    ),
    ("min", Number, false),
    (
        "thresholds",
        Object(&[("mode", Word(&["absolute", "percentage"]), true), ("steps", List(&STEP), true)]),
        false,
    ),
    ("unit", Text, true),
]);

/// Options of both kinds of panels; each kind has some of them.
const OPTIONS: Kind = Object(&[
    (
        "legend",
        Object(&[
            ("calcs", List(&Text), true),
            ("displayMode", Word(&["list", "table", "hidden"]), true),
            ("placement", Word(&["bottom", "right"]), true),
            ("showLegend", Flag, true),
        ]),
        false,
    ),
    (
        "tooltip",
        Object(&[
            ("mode", Word(&["single", "multi", "none"]), true),
            ("sort", Word(&["none", "asc", "desc"]), true),
        ]),
        false,
    ),
    ("colorMode", Word(&["value", "background", "none"]), false),
    ("graphMode", Word(&["none", "area", "line"]), false),
    (
        "reduceOptions",
        Object(&[("calcs", List(&Text), true), ("fields", Text, true), ("values", Flag, true)]),
        false,
    ),
    ("textMode", Word(&["auto", "value", "value_and_name", "name", "none"]), false),
]);

const PANEL: &[Field] = &[
    ("type", Word(&["timeseries", "stat"]), true),
    ("datasource", SOURCE, true),
    ("description", Text, true),
    (
        "fieldConfig",
        Object(&[("defaults", DEFAULTS, true), ("overrides", List(&Object(&[])), true)]),
        true,
    ),
    ("gridPos", GRID, true),
    ("id", Number, true),
    ("options", OPTIONS, true),
    ("targets", List(&TARGET), true),
    ("title", Text, true),
];

const QUERY_VARIABLE: &[Field] = &[
    ("type", Word(&["query"]), true),
    ("allValue", Text, true),
    ("datasource", SOURCE, true),
    ("includeAll", Flag, true),
    ("label", Text, true),
    ("multi", Flag, true),
    ("name", Text, true),
    ("query", Text, true),
    ("refresh", Number, true),
];

const SOURCE_VARIABLE: &[Field] = &[
    ("type", Word(&["datasource"]), true),
    ("label", Text, true),
    ("name", Text, true),
    ("query", Word(&["prometheus"]), true),
];

/// Checks a dashboard. Returns its faults.
pub(super) fn faults(dashboard: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(dashboard, Object(DASHBOARD), "dashboard", &mut faults);
    faults
}

fn check(value: &Value, kind: Kind, at: &str, faults: &mut Vec<String>) {
    let is_right = match kind {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Number => value.is_number(),
        NumberOrNull => value.is_number() || value.is_null(),
        Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Object(_) => value.is_object(),
        List(_) | Panels | Variables => value.is_array(),
    };
    if !is_right {
        faults.push(format!("{at}: {value} is not {kind:?}"));
        return;
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    match kind {
        Object(fields) => check_fields(value.as_object().unwrap(), fields, at, faults),
        List(kind) => items.for_each(|(n, item)| check(item, *kind, &format!("{at}[{n}]"), faults)),
        Panels | Variables => {
            for (n, item) in items {
                let fields = match (kind, item["type"].as_str()) {
                    (Panels, Some("row")) => ROW,
                    (Panels, _) => PANEL,
                    (_, Some("datasource")) => SOURCE_VARIABLE,
                    _ => QUERY_VARIABLE,
                };
                check(item, Object(fields), &format!("{at}[{n}]"), faults);
            }
        }
        _ => {}
    }
}

fn check_fields(object: &Map<String, Value>, fields: &[Field], at: &str, faults: &mut Vec<String>) {
    for (name, value) in object {
        match fields.iter().find(|(known, ..)| known == name) {
            Some((_, kind, _)) => check(value, *kind, &format!("{at}.{name}"), faults),
            None => faults.push(format!("{at} has an unknown field {name}")),
        }
    }
    for (name, _, _) in fields.iter().filter(|(_, _, is_required)| *is_required) {
        if !object.contains_key(*name) {
            faults.push(format!("{at} lacks {name}"));
        }
    }
}
