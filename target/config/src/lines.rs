//! Lines of TOML.

use std::fmt::Write;

/// Lines of `key = value`.
#[derive(Debug, Default)]
pub struct Lines(String);

impl Lines {
    /// Writes a key with a value that is TOML already.
    pub fn raw(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    /// Writes the title of a table.
    pub fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Returns a TOML basic string.
#[must_use]
pub fn quote(text: &str) -> String {
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

/// Returns a TOML list of basic strings.
#[must_use]
pub fn quote_list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_toml_has_them() {
        assert_eq!(quote("a\"b\\c\n"), "\"a\\\"b\\\\c\\U0000000A\"");
        assert_eq!(quote_list(["a", "b\""]), "[\"a\", \"b\\\"\"]");
    }
}
