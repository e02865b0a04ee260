//! Rows and columns of a pane.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::bench::{show_count, show_latency};
use crate::control::table::{Align, rate};

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    /// A number that sorts, and its text.
    Number(f64, String),
    /// The commands per second in the last intervals.
    History(VecDeque<f64>),
}

/// A column's heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) align: Align,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) idle: bool,
    /// The class of the row; empty where the row has none.
    pub(super) class: String,
}

/// The table of a pane.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// The column that sorts a pane, and whether the order descends; `None` stands for the daemon's
/// order.
pub(super) type Sort = Option<(usize, bool)>;

impl Cell {
    pub(super) fn count(value: f64) -> Self {
        Self::Number(value, show_count(value))
    }

    pub(super) fn whole(value: u64) -> Self {
        Self::Number(value as f64, value.to_string())
    }

    pub(super) fn megabytes(bytes: f64) -> Self {
        let megabytes = bytes / 1e6;
        let digits = if megabytes < 99.95 { 1 } else { 0 };
        Self::Number(megabytes, format!("{megabytes:.digits$}"))
    }

    pub(super) fn percent(part: f64) -> Self {
        // Rounding may leave a value just below zero.
        let part = part.max(0.0) + 0.0;
        Self::Number(part, format!("{:.1} %", 100.0 * part))
    }

    /// Shows bits per second, or a dash where there are none.
    pub(super) fn rate(bits: Option<f64>) -> Self {
        let known = bits.filter(|bits| *bits > 0.0);
        Self::Number(bits.unwrap_or(-1.0), known.map_or("-".to_owned(), rate))
    }

    /// Shows a factor near 1.
    pub(super) fn factor(value: f64) -> Self {
        Self::Number(value, format!("{value:.2}"))
    }

    /// Shows a time, or a dash for none and for times near zero.
    pub(super) fn latency(ns: f64) -> Self {
        Self::Number(ns, if ns >= 5.0 { show_latency(ns) } else { "-".to_owned() })
    }

    /// Shows the used amount, and the limit if it is less than `unlimited`.
    pub(super) fn used(
        (used, all): (u64, u64),
        unlimited: u64,
        show: impl Fn(u64) -> String,
    ) -> Self {
        let of = if all < unlimited { format!("/{}", show(all)) } else { String::new() };
        Self::Number(used as f64, format!("{}{of}", show(used)))
    }

    /// Returns the text; empty for a history.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(_, text) => text,
            Self::History(_) => "",
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a, _), Self::Number(b, _)) => a.total_cmp(b),
            _ => self.text().cmp(other.text()),
        }
    }
}

impl Column {
    /// Returns whether the column holds numbers.
    pub(super) fn is_numbers(&self) -> bool {
        self.align == Align::Right
    }
}

impl Table {
    /// Makes a table. Titles of columns with names begin with `<`, titles of columns with values ([`Align::Value`])
    /// with `=`.
    pub(super) fn new(titles: &[&'static str], rows: Vec<Row>) -> Self {
        let column = |title: &&'static str| {
            let (name, value) = (title.strip_prefix('<'), title.strip_prefix('='));
            match (name, value) {
                (Some(title), _) => Column { title, align: Align::Left },
                (_, Some(title)) => Column { title, align: Align::Value },
                _ => Column { title, align: Align::Right },
            }
        };
        Self { columns: titles.iter().map(column).collect(), rows }
    }

    /// Keeps the rows with a text that contains `filter`, in upper or lower case.
    pub(super) fn filter(&mut self, filter: &str) {
        if filter.is_empty() {
            return;
        }
        let filter = filter.to_lowercase();
        let matches = |cell: &Cell| match cell {
            Cell::Text(text) => text.to_lowercase().contains(&filter),
            _ => false,
        };
        self.rows.retain(|row| row.cells.iter().any(matches));
    }

    pub(super) fn hide_idle(&mut self) {
        self.rows.retain(|row| !row.idle);
    }

    /// Sorts the rows. Rows of equal value keep the daemon's order.
    pub(super) fn sort(&mut self, sort: Sort) {
        let Some((column, descending)) = sort else { return };
        self.rows.sort_by(|a, b| {
            let (a, b) = (a.cells.get(column), b.cells.get(column));
            let order = a.zip(b).map_or(Ordering::Equal, |(a, b)| a.compare(b));
            if descending { order.reverse() } else { order }
        });
    }

    /// Computes how many characters each column needs.
    pub(super) fn widths(&self) -> Vec<usize> {
        let width = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index));
            let widest = cells.map(|cell| cell.text().chars().count()).max().unwrap_or(0);
            widest.max(column.title.chars().count())
        };
        self.columns.iter().enumerate().map(width).collect()
    }
}
