//! Values of an answer of the daemon. A missing number counts as zero.

use serde_json::Value;

pub(super) fn rows<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn fraction(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

pub(super) fn text(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => String::new(),
        // Removes control characters, so that no name contains a terminal command.
        Some(Value::String(text)) => text.chars().filter(|c| !c.is_control()).collect(),
        Some(other) => other.to_string(),
    }
}
