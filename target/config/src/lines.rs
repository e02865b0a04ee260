//! Lines of TOML.

use std::fmt::Write;

/// Lines of `key = value`.
#[derive(Debug, Default)]
pub struct Lines(String);

impl Lines {
    pub(super) fn raw(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    pub(super) fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Returns a TOML basic string.
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
