//! The results of a run, for people: tables as text, CSV files, charts as SVG, and all of it as one page of HTML that
//! needs no network and no script.
//!
//! - [`Table`]: a table; [`Chart`]: a chart. A [`Report`] has both, and a title.

mod chart;
mod escape;
mod html;
mod scale;
mod style;
mod table;

use serde_json::{Map, Value, json};

pub use chart::{Chart, Kind, Series};
pub use scale::{Axis, Scale};
pub use table::{Column, Table};

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Title.
    pub title: String,
    /// Descriptions of the run, in sentences: each is a paragraph.
    pub about: Vec<String>,
    /// Tables, the most important one first.
    pub tables: Vec<Table>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// The scenario's text, which a reader needs to run it again.
    pub scenario: String,
}

impl Report {
    /// Writes the page.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Writes the title, the descriptions, and the tables, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for about in &self.about {
            text.push_str(about);
            text.push('\n');
        }
        for table in &self.tables {
            text.push('\n');
            text.push_str(&table.text());
        }
        text
    }

    /// Makes a JSON object of the title, the descriptions, and the tables. Each table is a list with an object for each
    /// row, under the name of its file. Cells that are numbers are numbers.
    #[must_use]
    pub fn json(&self) -> Value {
        let cell = |(column, cell): (&Column, &String)| {
            let number = cell.parse::<f64>().ok().filter(|number| number.is_finite());
            (column.heading(), number.map_or_else(|| Value::from(cell.as_str()), Value::from))
        };
        let table = |table: &Table| {
            let row = |row: &Vec<String>| table.columns.iter().zip(row).map(cell).collect();
            (table.file.clone(), table.rows.iter().map(row).collect::<Vec<Value>>().into())
        };
        let tables: Map<_, _> = self.tables.iter().map(table).collect();
        json!({ "title": self.title, "about": self.about, "tables": tables })
    }
}

#[cfg(test)]
mod tests;
