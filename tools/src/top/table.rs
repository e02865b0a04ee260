//! What the model knows as rows and columns.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::model::{Model, Pane, Rates, host_key};
use super::network::{connections_table, links_table};
use super::sample::{Device, Sample, Session};
use crate::bench::{show_count, show_latency};
use crate::control::table::{rate, size};

/// One value.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    /// What it is sorted by, and how it is written.
    Number(f64, String),
    /// Commands per second in the last intervals.
    History(VecDeque<f64>),
}

/// A column's heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) right: bool,
}

/// A row, and whether anything happens in it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) idle: bool,
    /// The class that it is about; empty: none.
    pub(super) class: String,
}

/// A pane's table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// Which column sorts a pane, and which way. None: the daemon's own order.
pub(super) type Sort = Option<(usize, bool)>;

/// So many credits are no limit: commands, and KiB.
const NO_LIMIT: u64 = u32::MAX as u64;

impl Cell {
    pub(super) fn count(value: f64) -> Self {
        Self::Number(value, show_count(value))
    }

    pub(super) fn whole(value: u64) -> Self {
        Self::Number(value as f64, value.to_string())
    }

    fn megabytes(bytes: f64) -> Self {
        let megabytes = bytes / 1e6;
        let digits = if megabytes < 99.95 { 1 } else { 0 };
        Self::Number(megabytes, format!("{megabytes:.digits$}"))
    }

    pub(super) fn percent(part: f64) -> Self {
        // What rounding has left below zero is zero.
        let part = part.max(0.0) + 0.0;
        Self::Number(part, format!("{:.1} %", 100.0 * part))
    }

    /// Bits per second; a dash where there is none.
    pub(super) fn rate(bits: Option<f64>) -> Self {
        let known = bits.filter(|bits| *bits > 0.0);
        Self::Number(bits.unwrap_or(-1.0), known.map_or("-".to_owned(), rate))
    }

    /// A factor near 1.
    pub(super) fn factor(value: f64) -> Self {
        Self::Number(value, format!("{value:.2}"))
    }

    /// A time; where there was none, or nothing that could be told from none, a dash.
    pub(super) fn latency(ns: f64) -> Self {
        Self::Number(ns, if ns >= 5.0 { show_latency(ns) } else { "-".to_owned() })
    }

    /// A value that may be missing.
    fn or_dash(value: Option<u64>, show: impl Fn(u64) -> String) -> Self {
        Self::Number(value.map_or(-1.0, |v| v as f64), value.map_or("-".to_owned(), show))
    }

    /// Used of what there is, if that is less than `unlimited`.
    fn used((used, all): (u64, u64), unlimited: u64, show: impl Fn(u64) -> String) -> Self {
        let of = if all < unlimited { format!("/{}", show(all)) } else { String::new() };
        Self::Number(used as f64, format!("{}{of}", show(used)))
    }

    /// How it is written; nothing for a history.
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

/// The last columns of every table.
const MEASURED: [&str; 6] = ["LATENCY", "p99", "QUEUE", "p99", "DEVICE", "p99"];

impl Table {
    /// A pane's table.
    pub(super) fn of(model: &Model, pane: Pane) -> Self {
        let Some(sample) = &model.sample else { return Self::new(&[], Vec::new()) };
        match pane {
            Pane::Classes => classes(model, sample),
            Pane::Sessions => sessions(model, sample),
            Pane::Devices => devices(model, sample),
            Pane::Hosts => hosts(model, sample),
            Pane::Links => links_table(model, sample),
            Pane::Connections => connections_table(model, sample),
        }
    }

    /// Names of columns; those that begin with `<` hold text.
    pub(super) fn new(titles: &[&'static str], rows: Vec<Row>) -> Self {
        let column = |title: &&'static str| match title.strip_prefix('<') {
            Some(title) => Column { title, right: false },
            None => Column { title, right: true },
        };
        Self { columns: titles.iter().map(column).collect(), rows }
    }

    /// Keeps the rows of which a text contains `filter`, whatever its case.
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

    /// Rows of equal value keep the daemon's order, so that they do not change places.
    pub(super) fn sort(&mut self, sort: Sort) {
        let Some((column, descending)) = sort else { return };
        self.rows.sort_by(|a, b| {
            let (a, b) = (a.cells.get(column), b.cells.get(column));
            let order = a.zip(b).map_or(Ordering::Equal, |(a, b)| a.compare(b));
            if descending { order.reverse() } else { order }
        });
    }

    /// How many characters each column needs.
    pub(super) fn widths(&self) -> Vec<usize> {
        let width = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index));
            let widest = cells.map(|cell| cell.text().chars().count()).max().unwrap_or(0);
            widest.max(column.title.chars().count())
        };
        self.columns.iter().enumerate().map(width).collect()
    }
}

/// A row that ends with its times and history.
fn row(mut cells: Vec<Cell>, rates: Rates, waiting: u64) -> Row {
    for time in [rates.latency, rates.queueing, rates.service] {
        cells.extend([Cell::latency(time.mean), Cell::latency(time.p99)]);
    }
    cells.push(Cell::History(rates.history));
    let idle = rates.iops == 0.0 && rates.refused == 0.0 && waiting == 0;
    Row { cells, idle, class: String::new() }
}

/// `titles`, the times, and the history.
fn titles(titles: &[&'static str]) -> Vec<&'static str> {
    titles.iter().copied().chain(MEASURED).chain(["<IOPS OVER TIME"]).collect()
}

fn classes(model: &Model, sample: &Sample) -> Table {
    let rates: Vec<_> =
        sample.classes.iter().map(|row| model.rates(Pane::Classes, &row.name)).collect();
    let all: f64 = rates.iter().map(|rates| rates.iops).sum();
    let rows = sample.classes.iter().zip(rates).map(|(class, rates)| {
        let share = if all > 0.0 { rates.iops / all } else { 0.0 };
        let cells = vec![
            Cell::Text(class.name.clone()),
            Cell::count(rates.iops),
            Cell::percent(share),
            Cell::megabytes(rates.bytes),
            Cell::whole(class.waiting),
            Cell::count(rates.refused),
        ];
        Row { class: class.name.clone(), ..row(cells, rates, class.waiting) }
    });
    let head = titles(&["<CLASS", "IOPS", "SHARE", "MB/s", "WAITING", "REFUSED/s"]);
    Table::new(&head, rows.collect())
}

fn sessions(model: &Model, sample: &Sample) -> Table {
    let rows = sample.sessions.iter().map(|session| {
        let rates = model.rates(Pane::Sessions, &session.name);
        let cells = session_cells(session, &rates);
        row(cells, rates, session.waiting)
    });
    let head = titles(&[
        "<SESSION",
        "<IN",
        "IOPS",
        "LIMIT",
        "MB/s",
        "LIMIT",
        "WAITING",
        "REFUSED/s",
        "COMMANDS",
        "PAYLOAD",
        "<RESERVED",
        "KEPT",
    ]);
    Table::new(&head, rows.collect())
}

fn session_cells(session: &Session, rates: &Rates) -> Vec<Cell> {
    let reserve = session.reserve.as_ref();
    let kept = reserve.filter(|reserve| reserve.periods > 0);
    vec![
        Cell::Text(session.name.clone()),
        Cell::Text(session.parent.clone()),
        Cell::count(rates.iops),
        Cell::or_dash(session.iops, |iops| show_count(iops as f64)),
        Cell::megabytes(rates.bytes),
        Cell::or_dash(session.bandwidth, |bytes| show_count(bytes as f64 / 1e6)),
        Cell::whole(session.waiting),
        Cell::count(rates.refused),
        Cell::used(session.operations, NO_LIMIT, |count| count.to_string()),
        Cell::used(session.payload, NO_LIMIT << 10, size),
        Cell::Text(reserve.map_or("-".to_owned(), |reserve| reserve.terms.clone())),
        kept.map_or(Cell::Number(-1.0, "-".to_owned()), |reserve| {
            Cell::percent(reserve.kept as f64 / reserve.periods as f64)
        }),
    ]
}

fn devices(model: &Model, sample: &Sample) -> Table {
    let rows = sample.devices.iter().map(|device| {
        let rates = model.rates(Pane::Devices, &device.name);
        let waiting = device.waiting.iter().sum();
        let cells = device_cells(device, &rates);
        row(cells, rates, waiting)
    });
    let head = titles(&[
        "<NAMESPACE",
        "IOPS",
        "MB/s",
        "ERRORS/s",
        "IN DEVICE",
        "URGENT",
        "HIGH",
        "MEDIUM",
        "LOW",
        "READ",
        "WRITE",
        "RESERVED",
    ]);
    Table::new(&head, rows.collect())
}

fn device_cells(device: &Device, rates: &Rates) -> Vec<Cell> {
    let in_device = match (device.known, device.window) {
        (false, _) => "-".to_owned(),
        (true, None) => format!("{:.0}", device.in_use),
        (true, Some(window)) => format!("{:.0}/{window:.0}", device.in_use),
    };
    let mut cells = vec![
        Cell::Text(device.name.clone()),
        Cell::count(rates.iops),
        Cell::megabytes(rates.bytes),
        Cell::count(rates.errors),
        Cell::Number(device.in_use, in_device),
    ];
    cells.extend(device.waiting.map(Cell::whole));
    cells.push(Cell::latency(device.mean_ns.0 as f64));
    cells.push(Cell::latency(device.mean_ns.1 as f64));
    cells.push(Cell::percent(device.reserved));
    cells
}

fn hosts(model: &Model, sample: &Sample) -> Table {
    let rows = sample.hosts.iter().map(|host| {
        let rates = model.rates(Pane::Hosts, &host_key(&host.host, &host.subsystem));
        let cells = vec![
            Cell::Text(host.host.clone()),
            Cell::Text(host.subsystem.clone()),
            Cell::count(rates.iops),
            Cell::megabytes(rates.bytes),
            Cell::count(rates.errors),
        ];
        row(cells, rates, 0)
    });
    let head = titles(&["<HOST", "<SUBSYSTEM", "IOPS", "MB/s", "ERRORS/s"]);
    Table::new(&head, rows.collect())
}
