//! Grafana's schema of dashboards, as far as the dashboard uses it: the fields of each object with their types, from
//! `kinds/dashboard/dashboard_kind.cue` of Grafana's source (schema version 36 and later). The options of the panels
//! `timeseries` and `stat` and of Prometheus' queries follow Grafana's own exports.

use serde_json::{Map, Value, json};

/// Returns the types of a dashboard's fields: `text`, `flag`, `number`, words of which a text is one (`a|b`), the types
/// of an object's fields, or the types of a list's entries, which their fields `type` tell apart. A field whose name
/// ends with `?` is optional.
fn dashboard_fields() -> Value {
    let source = json!({"type": "prometheus", "uid": "text"});
    let place = json!({"h": "number", "w": "number", "x": "number", "y": "number"});
    let target = json!({
        "datasource": source, "editorMode": "code|builder", "expr": "text", "legendFormat": "text", "range": "flag",
        "refId": "text",
    });
    // The first step has no lower end.
    let step = json!({"color": "text", "value": "number or null"});
    let defaults = json!({
        "color": {"mode": "palette-classic|thresholds"},
        "custom?": {"fillOpacity": "number", "lineWidth": "number", "showPoints": "auto|never|always"},
        "min?": "number", "thresholds?": {"mode": "absolute|percentage", "steps": [step]}, "unit": "text",
    });
    // Each of the two kinds of panels has some of these.
    let options = json!({
        "legend?": {
            "calcs": ["text"], "displayMode": "list|table|hidden", "placement": "bottom|right", "showLegend": "flag",
        },
        "tooltip?": {"mode": "single|multi|none", "sort": "none|asc|desc"},
        "colorMode?": "value|background|none", "graphMode?": "none|area|line",
        "reduceOptions?": {"calcs": ["text"], "fields": "text", "values": "flag"},
        "textMode?": "auto|value|value_and_name|name|none",
    });
    let panel = json!({
        "type": "timeseries|stat", "datasource": source, "description": "text",
        "fieldConfig": {"defaults": defaults, "overrides": [{}]}, "gridPos": place, "id": "number",
        "options": options, "targets": [target], "title": "text",
    });
    let row = json!({
        "type": "row", "collapsed": "flag", "title": "text", "gridPos": place, "id": "number", "panels": [panel],
    });
    let query_variable = json!({
        "type": "query", "allValue": "text", "datasource": source, "includeAll": "flag", "label": "text",
        "multi": "flag", "name": "text", "query": "text", "refresh": "number",
    });
    let source_variable =
        json!({"type": "datasource", "label": "text", "name": "text", "query": "prometheus"});
    json!({
        "annotations?": {"list": [{}]}, "description?": "text", "editable": "flag", "graphTooltip": "number",
        "panels": [panel, row], "refresh": "text", "schemaVersion": "number", "tags": ["text"],
        "templating": {"list": [query_variable, source_variable]}, "time": {"from": "text", "to": "text"},
        "timezone": "text", "title": "text", "uid": "text",
    })
}

/// Checks a dashboard. Returns its faults.
pub(super) fn faults(dashboard: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(dashboard, &dashboard_fields(), "dashboard", &mut faults);
    faults
}

fn check(value: &Value, kind: &Value, at: &str, faults: &mut Vec<String>) {
    let is_right = match kind.as_str() {
        None => value.is_object() && kind.is_object() || value.is_array() && kind.is_array(),
        Some("text") => value.is_string(),
        Some("flag") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("number or null") => value.is_number() || value.is_null(),
        Some(words) => value.as_str().is_some_and(|word| words.split('|').any(|one| one == word)),
    };
    if !is_right {
        faults.push(format!("{at}: {value} is not {kind}"));
    } else if let (Some(object), Some(fields)) = (value.as_object(), kind.as_object()) {
        check_fields(object, fields, at, faults);
    } else if let Some(kinds) = kind.as_array() {
        for (n, item) in value.as_array().into_iter().flatten().enumerate() {
            let kind = kinds.iter().find(|kind| kind["type"] == item["type"]).unwrap_or(&kinds[0]);
            check(item, kind, &format!("{at}[{n}]"), faults);
        }
    }
}

fn check_fields(
    object: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &str,
    faults: &mut Vec<String>,
) {
    for (name, value) in object {
        match fields.get(name).or_else(|| fields.get(&format!("{name}?"))) {
            Some(kind) => check(value, kind, &format!("{at}.{name}"), faults),
            None => faults.push(format!("{at} has an unknown field {name}")),
        }
    }
    for name in fields.keys().filter(|name| !name.ends_with('?') && !object.contains_key(*name)) {
        faults.push(format!("{at} lacks {name}"));
    }
}
