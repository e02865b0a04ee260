//! Values as cells of a table show them.

use serde_json::Value;
use sluice_config::params::Settings;

/// Writes a value as text; `-` for a missing value and for an empty text.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    let text = value.map(|value| value.to_string()).filter(|text| !text.is_empty());
    text.unwrap_or_else(|| "-".into())
}

/// Writes `yes`, or `-`.
pub(super) fn yes_or_dash(is: bool) -> String {
    if is { "yes" } else { "-" }.into()
}

/// Writes a JSON value as text; nothing for `null`.
pub(super) fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => if *flag { "yes" } else { "no" }.into(),
        Some(other) => other.to_string(),
    }
}

/// Writes the value of a key as text; nothing where it is not set.
pub(super) fn setting(settings: &Settings, key: &str) -> String {
    plain(settings.get(key))
}

/// Writes a number with its noun: "1 listener", "2 listeners".
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Writes a list of names for one cell; `all` where there is no list.
pub(super) fn names(names: Option<&[String]>, all: &str) -> String {
    match names {
        None => all.into(),
        Some([]) => "none".into(),
        Some(names) => names.join(", "),
    }
}

/// Writes a time with its unit and three digits: "51.2 us"; `-` for none. The percentiles of
/// commands that did not wait are 1 ns: the end of a histogram's first bucket.
pub(super) fn time(ns: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    match UNITS.iter().find(|(_, unit)| ns >= *unit) {
        None if ns <= 1 => "-".into(),
        None => format!("{ns} ns"),
        Some((name, unit)) => {
            let value = ns as f64 / *unit as f64;
            let places = if value >= 100.0 { 0 } else { 1 };
            format!("{value:.places$} {name}")
        }
    }
}

/// Writes the keys that are not in `shown`, a line for each.
pub(super) fn rest(settings: &Settings, shown: &[&str]) -> String {
    let left = settings.iter().filter(|(key, _)| !shown.contains(key));
    left.map(|(key, value)| format!("{key} {}\n", or_dash(Some(plain(Some(value)))))).collect()
}
