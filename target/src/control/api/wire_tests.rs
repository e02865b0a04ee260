//! The wire format: each method's request and answer as programs know them.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sluice_config::{Method, schema};

use super::tests::{FILE, Rig};

/// Requests and answers, a line for each. For another request add its line and let the test add the answer.
const EXPECTED: &str = include_str!("wire.txt");
/// The addition of a configuration file for `reload` to the running configuration: another namespace.
const MORE: &str = "[[subsystem.namespace]]\nnsid = 7\nbackend = \"null\"\nsize = \"8 KiB\"\n";

fn requests() -> impl Iterator<Item = &'static str> {
    EXPECTED.lines().filter_map(|line| line.strip_prefix("> "))
}

/// Blanks the values that differ between two runs of one program.
fn masked(mut answer: Value) -> Value {
    if let Some(status) = answer.get_mut("result").filter(|result| result.get("pid").is_some()) {
        for key in ["pid", "uptime_seconds", "version", "commit"] {
            status[key] = json!(key);
        }
    }
    if let Some(started) = answer.pointer_mut("/result/started_ms") {
        *started = json!("started_ms");
    }
    answer
}

fn transcript() -> String {
    let rig = Rig::new();
    let changed = FILE.replace("= 400000\n", "= 400000\nclients = 5\n");
    let changed = changed.replace("x:h0\"", "x:h0\", \"nqn.2026-01.io.x:h9\"");
    rig.edit(&format!("\n[target]\nqueue_depth = 512{changed}{MORE}"));
    let mut text = String::new();
    for request in requests() {
        let answer = rig.control.handle(request.as_bytes());
        let answer = answer.replace(&rig.file().display().to_string(), "/folder/sluicegate.toml");
        let answer = masked(serde_json::from_str(&answer).unwrap());
        write!(text, "> {request}\n< {answer}\n").unwrap();
    }
    text
}

/// Returns whether an answer still has all fields that programs know. Fields may be added, and keys to a message's
/// list of keys.
fn covers(now: &Value, known: &Value) -> bool {
    match (now, known) {
        (Value::Object(now), Value::Object(known)) => {
            known.iter().all(|(key, value)| now.get(key).is_some_and(|now| covers(now, value)))
        }
        (Value::Array(now), Value::Array(known)) => {
            now.len() == known.len() && now.iter().zip(known).all(|(now, known)| covers(now, known))
        }
        (Value::String(now), Value::String(known)) => {
            let list = |text: &str| text.find("known here: ").map_or(text.len(), |at| at + 12);
            now[..list(now)] == known[..list(known)]
        }
        _ => now == known,
    }
}

#[test]
fn a_field_that_is_gone_or_says_something_else_is_noticed() {
    let known = json!({"a": [{"b": 1}], "c": "known here: x"});
    assert!(covers(&json!({"a": [{"b": 1, "z": 2}], "c": "known here: x, y"}), &known));
    for now in [
        json!({"a": [{"b": 2}], "c": "known here: x"}),
        json!({"a": [{}], "c": "known here: x"}),
        json!({"a": [{"b": 1}, {"b": 1}], "c": "known here: x"}),
        json!({"a": [{"b": 1}], "c": "unknown here: x"}),
        json!({"a": [{"b": 1}]}),
    ] {
        assert!(!covers(&now, &known), "{now}");
    }
}

/// Compares, or with `SLUICE_REWRITE=1` writes the file: look at the differences before you keep
/// it.
#[test]
fn requests_and_answers_are_what_programs_know() {
    let text = transcript();
    if std::env::var_os("SLUICE_REWRITE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control/api/wire.txt");
        std::fs::write(file, text).unwrap();
        return;
    }
    for (line, (now, known)) in text.lines().zip(EXPECTED.lines()).enumerate() {
        let read = |line: &str| serde_json::from_str::<Value>(&line[2..]).unwrap();
        assert_eq!(now[..2], known[..2]);
        assert!(covers(&read(now), &read(known)), "line {} of wire.txt:\n{now}\n{known}", line + 1);
    }
    assert_eq!(text.lines().count(), EXPECTED.lines().count());
}

#[test]
fn each_method_is_in_the_transcript() {
    let asked: Vec<Method> = requests()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|request| Method::from_name(request["method"].as_str().unwrap()))
        .collect();
    let verb = |method: &Method| method.object().map(|(_, verb)| verb);
    for method in Method::ALL {
        // A generic method does the same with all kinds of objects.
        let same = |other: &Method| verb(method).is_some() && verb(other) == verb(method);
        let covered = asked.iter().any(|other| other == method || same(other));
        assert!(covered, "{}", method.name());
    }
}

/// Returns the places of a value that a schema does not describe, or describes as another type.
fn undescribed(value: &Value, schema: &Value, at: &str) -> Vec<String> {
    if schema == &json!(true) || schema == &json!({}) {
        return Vec::new();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            let each = choices.iter().map(|choice| undescribed(value, choice, at));
            return each.min_by_key(Vec::len).unwrap_or_default();
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = |of: &Value| of == kind || (of == "number" && kind == "integer");
    let fits = match schema.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(is_kind),
        Some(of) => is_kind(of),
    };
    if !fits {
        return vec![format!("{at} is {kind}, not {}", schema["type"])];
    }
    match value {
        Value::Array(items) => {
            let of = &schema["items"];
            items.iter().flat_map(|item| undescribed(item, of, &format!("{at}[]"))).collect()
        }
        Value::Object(fields) => {
            let open = schema.get("additionalProperties").filter(|more| *more != &json!(false));
            let each = fields.iter().map(|(key, value)| {
                let place = format!("{at}.{key}");
                match (schema["properties"].get(key), open) {
                    (Some(of), _) => undescribed(value, of, &place),
                    (None, Some(of)) => undescribed(value, of, &place),
                    (None, None) => vec![format!("{place} is not described")],
                }
            });
            each.flatten().collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn schema_describes_all_answers_of_the_transcript() {
    let schema = schema(Method::ALL);
    let mut lines = EXPECTED.lines();
    let mut described = 0;
    while let (Some(request), Some(answer)) = (lines.next(), lines.next()) {
        let read = |line: &str| serde_json::from_str::<Value>(&line[2..]).unwrap();
        let (request, answer) = (read(request), read(answer));
        let method = request["method"].as_str().unwrap();
        let (Some(result), Some(known)) = (answer.get("result"), schema["methods"].get(method))
        else {
            continue;
        };
        let mut masked = result.clone();
        for key in ["pid", "uptime_seconds", "started_ms"] {
            if let Some(value) = masked.get_mut(key).filter(|value| value.is_string()) {
                *value = json!(1);
            }
        }
        let faults = undescribed(&masked, &known["result"], method);
        assert!(faults.is_empty(), "{faults:?}");
        described += 1;
    }
    assert!(described > 50, "{described} answers");
}
