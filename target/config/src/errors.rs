//! The errors of a configuration, each with its place and its remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fabric::key_file::mask_keys;

/// The errors of one configuration file, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// The errors: at least one.
    pub errors: Vec<ConfigError>,
}

/// One error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Line in the file, from 1; 0 where the file could not be read at all.
    pub line: usize,
    /// Column in the line, in characters from 1; 0 where the file could not be read at all.
    pub column: usize,
    /// The whole line that is wrong.
    pub text: String,
    /// The number of wrong characters in the line, from `column` on.
    pub width: usize,
    /// The fault.
    pub message: String,
    /// The remedy; it may be empty where the message says it.
    pub remedy: String,
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            error.write(f, &self.file)?;
        }
        Ok(())
    }
}

impl ConfigError {
    fn write(&self, f: &mut fmt::Formatter<'_>, file: &Path) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", file.display(), self.message)?;
        } else {
            writeln!(f, "{}:{}:{}: {}", file.display(), self.line, self.column, self.message)?;
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            writeln!(f, "  {number} | {}", self.text)?;
            let indent = " ".repeat(self.column.saturating_sub(1));
            write!(f, "  {margin} | {indent}{}", "^".repeat(self.width.max(1)))?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n  remedy: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// An error whose line and column are not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Byte range in the text.
    pub(crate) span: Range<usize>,
    /// The value's path: `subsystem[0].namespace[1].size`.
    pub(crate) path: String,
    /// The fault.
    pub(crate) message: String,
    pub(crate) remedy: String,
}

impl Problem {
    /// Finds the error's line and column in the text.
    pub(crate) fn locate(self, text: &str) -> ConfigError {
        let start = floor_boundary(text, self.span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line_text = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let lead = text.get(line_start..start).unwrap_or_default();
        let end = floor_boundary(text, self.span.end.min(line_start + line_text.len()));
        ConfigError {
            line: before.matches('\n').count() + 1,
            column: lead.chars().count() + 1,
            text: printable(line_text),
            width: text.get(start..end).map_or(1, |t| t.chars().count()).max(1),
            message: self.message,
            remedy: self.remedy,
        }
    }
}

/// The longest line that an error quotes, in characters.
const QUOTE_MAX: usize = 200;

/// Returns the line with control characters blanked, so that a file cannot drive the terminal, and
/// with keys masked.
fn printable(line: &str) -> String {
    mask_keys(line).chars().take(QUOTE_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the largest character boundary that is not above `at`.
pub(super) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the name in `known` that `word` most likely stands for.
pub fn did_you_mean<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = if length < 4 { 1 } else { (length / 3).max(2) };
    known
        .iter()
        .map(|name| (distance(word, name), *name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Computes the Levenshtein distance; `-` and `_` count as the same.
fn distance(a: &str, b: &str) -> usize {
    let same = |x: char, y: char| x == y || matches!((x, y), ('-', '_') | ('_', '-'));
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(100).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let cost = diagonal + usize::from(!same(x, *y));
            diagonal = *cell;
            left = cost.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        let text = "ä = 1\r\nüx = 22\n";
        let at = text.find("22").unwrap();
        let problem = Problem {
            span: at..at + 2,
            path: String::new(),
            message: "wrong".into(),
            remedy: "right".into(),
        };
        let error = problem.locate(text);
        assert_eq!((error.line, error.column, error.width), (2, 6, 2));
        assert_eq!(error.text, "üx = 22");
        let all = ConfigErrors { file: "f.toml".into(), errors: vec![error] };
        assert_eq!(
            all.to_string(),
            "f.toml:2:6: wrong\n  2 | üx = 22\n    |      ^^\n  remedy: right"
        );
    }

    #[test]
    fn suggestions_are_near_and_never_far() {
        let known = ["size", "block_size", "read_only", "uuid"];
        assert_eq!(did_you_mean("sise", &known), Some("size"));
        assert_eq!(did_you_mean("blocksize", &known), Some("block_size"));
        assert_eq!(did_you_mean("read-only", &known), Some("read_only"));
        assert_eq!(did_you_mean("colour", &known), None);
    }
}
