//! Tables, as text and as CSV.

use std::fmt::Write as _;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Unit; empty where there is none.
    pub unit: String,
}

impl Column {
    /// Makes a column of a name and a unit, which may be empty.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: unit.into() }
    }

    /// Returns name and unit.
    #[must_use]
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{}, {}", self.name, self.unit)
        }
    }
}

/// A table. The first columns name the row's subject, the others have numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// File name without its ending, for CSV.
    pub file: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Number of columns that name the row.
    pub names: usize,
    /// Rows, each with as many cells as there are columns.
    pub rows: Vec<Vec<String>>,
    /// A remark about the numbers; empty if there is none.
    pub note: String,
}

impl Table {
    /// Writes the table as text.
    #[must_use]
    pub fn text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(Column::heading).collect();
        let lines = || std::iter::once(&headings).chain(&self.rows);
        let width = |column: usize| {
            let cells = lines().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for row in lines() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string does not fail.
                let _ = match column < self.names {
                    true => write!(line, "{cell:width$}  "),
                    false => write!(line, "{cell:>width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if !self.note.is_empty() {
            let _ = writeln!(text, "({})", self.note);
        }
        text
    }

    /// Writes the table as CSV (RFC 4180), with a line of headings.
    #[must_use]
    pub fn csv(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(Column::heading).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        }
        text
    }
}

/// Writes a cell of CSV.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}
