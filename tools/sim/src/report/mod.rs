//! What a run has shown, for people: tables as text, CSV files, charts as SVG, and all of it as one
//! page of HTML that needs no network and no script.
//!
//! - [`Table`]: a table; [`Chart`]: a chart. A [`Report`] has both, and a title.

mod chart;
mod escape;
mod html;
mod scale;
mod style;
mod table;

pub use chart::{Chart, Kind, Series};
pub use scale::{Axis, Scale};
pub use table::{Column, Table};

/// What a run has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Title.
    pub title: String,
    /// What was run, in sentences: each is a paragraph.
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

    /// Writes the title, what was run, and the tables, as text.
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
}

#[cfg(test)]
mod tests;
