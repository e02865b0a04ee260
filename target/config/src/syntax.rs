//! TOML syntax errors, with a remedy for the likely intent of the line.

use std::collections::BTreeSet;

use super::errors::{Problem, floor_boundary};

/// The most numbers that a remedy writes out in place of a range.
const NUMBERS_MAX: u32 = 64;

/// Turns syntax errors into problems. Of a line with several the first one is kept: the others follow
/// from it.
pub(super) fn problems(errors: &[toml::de::Error], text: &str) -> Vec<Problem> {
    let mut lines = BTreeSet::new();
    let mut problems = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        let start = floor_boundary(text, span.start);
        let before = text.get(..start).unwrap_or_default();
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        if !lines.insert(begin) {
            continue;
        }
        let line = text.get(begin..).unwrap_or_default().lines().next().unwrap_or_default();
        let message = error.message().replace('\n', ", ");
        let remedy = remedy(line, &message);
        problems.push(Problem { span, path: String::new(), message, remedy });
    }
    problems
}

/// Returns the remedy for the likely intent of `line`; `message` is the parser's.
fn remedy(line: &str, message: &str) -> String {
    let line = line.trim();
    if line.contains(['\u{201c}', '\u{201d}']) {
        return "write straight quotes: \"".to_owned();
    }
    let Some((key, value)) = line.split_once('=') else { return without_value(line, message) };
    let (key, value) = (key.trim(), value.split('#').next().unwrap_or_default().trim());
    if key.is_empty() {
        return by_message(message).to_owned();
    }
    if value.is_empty() {
        return format!("write a value: {key} = …");
    }
    if let Some(numbers) = expand_ranges(value) {
        return format!("TOML has no ranges, write each number: {key} = [{numbers}]");
    }
    for truth in ["true", "false"] {
        if value.eq_ignore_ascii_case(truth) {
            return format!("write {key} = {truth}");
        }
    }
    let is_quoted = value.contains(['"', '\'']);
    let has_letters = value.contains(char::is_alphabetic);
    if !is_quoted && has_letters && !value.starts_with('{') {
        return match value.strip_prefix('[') {
            None => format!("write text in quotes: {key} = \"{value}\""),
            Some(list) => {
                let items: Vec<String> = entries(list).map(|item| format!("\"{item}\"")).collect();
                format!("write text in quotes: {key} = [{}]", items.join(", "))
            }
        };
    }
    by_message(message).to_owned()
}

/// Returns how to write a line without `=`.
fn without_value(line: &str, message: &str) -> String {
    let is_key = |key: &str| {
        let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        !key.is_empty() && key.chars().all(right)
    };
    // An entry of a list of several lines.
    if let Some(numbers) = expand_ranges(line) {
        return format!("write each number: {numbers}");
    }
    match line.split_once(':') {
        Some((key, value)) if is_key(key.trim()) => {
            format!("write {} = {}", key.trim(), value.trim())
        }
        _ if is_key(line) => format!("write a value: {line} = …"),
        _ => by_message(message).to_owned(),
    }
}

/// Returns the remedy for a kind of error.
fn by_message(message: &str) -> &'static str {
    let known = [
        ("duplicate key", "write each key and each [table] once, and lists of tables as [[table]]"),
        ("missing comma", "write a comma between the entries"),
        ("extra comma", "remove the comma"),
        ("unclosed array table", "close the name with ]]"),
        ("unclosed array", "close the list with ]"),
        ("unclosed table", "close the name with ]"),
        ("unclosed inline table", "close the table with }"),
        ("expected `\"`", "close the quotes"),
    ];
    let found = known.into_iter().find(|(words, _)| message.contains(*words));
    let general =
        "write KEY = VALUE, text in quotes and lists in [ ]: size = \"10 GiB\", cores = [0, 1]";
    found.map_or(general, |(_, remedy)| remedy)
}

/// Returns the entries of a list as they are written.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    let list = list.trim_end_matches(']');
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Writes out a list of numbers and ranges, such as `[0-3, 8]`; `None` where it is none, has no range
/// or has too many numbers.
fn expand_ranges(value: &str) -> Option<String> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut has_range = false;
    for entry in entries(value.trim_start_matches('[')) {
        let (first, last) = entry.split_once('-').or_else(|| entry.split_once("..")).map_or(
            (entry, entry),
            |(first, last)| {
                has_range = true;
                (first.trim(), last.trim())
            },
        );
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last.checked_sub(first)? >= NUMBERS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    has_range.then(|| texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_say_what_the_line_most_likely_means() {
        let table = [
            ("cores = [0-1]", "", "cores = [0, 1]"),
            ("cores = 2-4 # the others", "", "cores = [2, 3, 4]"),
            ("cores = [0, 4..5]", "", "cores = [0, 4, 5]"),
            ("cores = [0-100000]", "", "lists in [ ]"),
            ("size = 10 GiB", "", "size = \"10 GiB\""),
            ("poll = adaptive", "", "poll = \"adaptive\""),
            ("hosts = [nqn.2026-01.io.x:a, nqn.2026-01.io.x:b]", "", "\"nqn.2026-01.io.x:b\"]"),
            ("create = True", "", "write create = true"),
            ("0-3,", "", "write each number: 0, 1, 2, 3"),
            ("size =", "", "write a value: size = …"),
            ("poll", "", "write a value: poll = …"),
            ("size: \"1 GiB\"", "", "write size = \"1 GiB\""),
            ("poll = \u{201c}never\u{201d}", "", "straight quotes"),
            ("cores = [0 1]", "missing comma between array elements", "a comma between"),
            ("cores = [0, 1", "unclosed array, expected `]`", "close the list with ]"),
            ("drain_time = \"10 s", "invalid basic string, expected `\"`", "close the quotes"),
            ("[target]", "duplicate key", "once"),
            ("[target", "unclosed table, expected `]`", "close the name with ]"),
            ("=", "", "KEY = VALUE"),
        ];
        for (line, message, words) in table {
            let said = remedy(line, message);
            assert!(said.contains(words), "{line}: {said}");
        }
    }

    #[test]
    fn a_line_has_one_error() {
        let machine = super::super::Machine::any();
        let file = std::path::Path::new("a.toml");
        for line in ["cores = [0-1]", "cores = [0-1, 3-4]", "control = /run/x.sock"] {
            let text = format!("[target]\n{line}\n");
            let found = super::super::Config::parse_for(&text, file, &machine).unwrap_err();
            assert_eq!(found.errors.len(), 1, "{found}");
            assert!(found.to_string().contains("remedy: "), "{found}");
            assert!(found.errors.iter().all(|error| error.line == 2), "{found}");
        }
    }
}
