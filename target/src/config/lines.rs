//! Lines of TOML.

use std::fmt::Write;
use std::path::Path;

/// Lines of `key = value`.
#[derive(Debug, Default)]
pub(crate) struct Lines(String);

impl Lines {
    pub(super) fn raw(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.raw(key, quote(value));
    }

    pub(super) fn path(&mut self, key: &str, value: &Path) {
        self.text(key, &value.to_string_lossy());
    }

    pub(super) fn list(&mut self, key: &str, values: &[String]) {
        let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
        self.raw(key, format_args!("[{}]", quoted.join(", ")));
    }

    pub(super) fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
