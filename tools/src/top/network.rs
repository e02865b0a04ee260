//! What the network does: links with their classes, and connections.

use serde_json::Value;

use super::model::{Model, Pane, Rates};
use super::sample::{Io, Sample, fraction, number, rows, text};
use super::table::{Cell, Row, Table};

/// What flows one way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Bits of payload per second.
    pub(super) rate: f64,
    pub(super) target: Option<f64>,
    pub(super) limit: Option<f64>,
    pub(super) alpha: f64,
    pub(super) quality: f64,
    /// Packets since the daemon started.
    pub(super) delivered: u64,
    pub(super) marked: u64,
}

/// A class on a link in one direction.
#[derive(Clone, Debug)]
pub(super) struct LinkClass {
    pub(super) link: String,
    pub(super) way: Way,
    pub(super) class: String,
    pub(super) flows: u64,
    pub(super) flow: Flow,
}

/// A connection in one direction.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) host: String,
    pub(super) subsystem: String,
    pub(super) queue: u64,
    pub(super) way: Way,
    pub(super) class: String,
    pub(super) base: String,
    pub(super) rtt_us: u64,
    pub(super) flow: Flow,
}

/// A direction, as the daemon sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// What the target sends.
    Out,
    /// What hosts send.
    In,
}

impl Way {
    const ALL: [Self; 2] = [Self::Out, Self::In];

    /// The daemon's word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

impl Flow {
    fn of(row: &Value) -> Self {
        Self {
            rate: fraction(row, "rate"),
            target: row.get("target").and_then(Value::as_f64),
            limit: row.get("limit").and_then(Value::as_f64),
            alpha: fraction(row, "alpha"),
            quality: fraction(row, "quality"),
            delivered: number(row, "delivered"),
            marked: number(row, "marked"),
        }
    }

    /// As what is counted of every row: packets, and as errors the marked ones.
    fn counts(&self) -> Io {
        Io { operations: self.delivered, errors: self.marked, ..Io::default() }
    }
}

/// The classes of the links of a daemon that answers so to `network.show`.
pub(super) fn links(network: &Value) -> Vec<LinkClass> {
    let mut all = Vec::new();
    for link in rows(network, "links") {
        for way in Way::ALL {
            let direction = link.get(way.name()).unwrap_or(&Value::Null);
            all.extend(rows(direction, "classes").iter().map(|row| LinkClass {
                link: text(link, "name"),
                way,
                class: text(row, "class"),
                flows: number(row, "flows"),
                flow: Flow::of(row),
            }));
        }
    }
    all
}

/// The connections of which something is known, of a daemon that answers so to `connections`.
pub(super) fn connections(answer: &Value) -> Vec<Connection> {
    let mut all = Vec::new();
    for row in answer.as_array().map(Vec::as_slice).unwrap_or_default() {
        let network = row.get("network").unwrap_or(&Value::Null);
        for way in Way::ALL {
            let Some(flow) = network.get(way.name()) else { continue };
            all.push(Connection {
                id: number(row, "id"),
                host: text(row, "host"),
                subsystem: text(row, "subsystem"),
                queue: number(row, "queue"),
                way,
                class: text(network, "class"),
                base: text(network, "base"),
                rtt_us: number(network, "rtt_us"),
                flow: Flow::of(flow),
            });
        }
    }
    all
}

/// All rows: what their counts are kept under, and what they count.
pub(super) fn entries(sample: &Sample) -> impl Iterator<Item = (Pane, String, Io)> {
    let links = sample.links.iter().map(|row| (Pane::Links, row.key(), row.flow.counts()));
    let flows = sample.connections.iter();
    links.chain(flows.map(|row| (Pane::Connections, row.key(), row.flow.counts())))
}

impl LinkClass {
    pub(super) fn key(&self) -> String {
        // Control characters are not taken in, so no name contains it.
        format!("{}\n{}\n{}", self.link, self.way.name(), self.class)
    }
}

impl Connection {
    pub(super) fn key(&self) -> String {
        format!("{}\n{}", self.id, self.way.name())
    }
}

/// The last columns of both tables, before the history.
const FLOW: [&str; 7] = ["RATE", "TARGET", "LIMIT", "ALPHA", "Q", "MARKS/s", "PACKETS/s"];

/// A row that ends with what flows.
fn row(mut cells: Vec<Cell>, class: &str, flow: &Flow, rates: Rates) -> Row {
    cells.extend([
        Cell::rate(Some(flow.rate)),
        Cell::rate(flow.target),
        Cell::rate(flow.limit),
        Cell::percent(flow.alpha),
        Cell::factor(flow.quality),
        Cell::count(rates.errors),
        Cell::count(rates.iops),
    ]);
    let idle = rates.iops == 0.0;
    cells.push(Cell::History(rates.history));
    Row { cells, idle, class: class.to_owned() }
}

/// `titles`, what flows, and the history.
fn titles(titles: &[&'static str]) -> Vec<&'static str> {
    titles.iter().copied().chain(FLOW).chain(["<PACKETS OVER TIME"]).collect()
}

/// The table of links and classes.
pub(super) fn links_table(model: &Model, sample: &Sample) -> Table {
    let rows = sample.links.iter().map(|line| {
        let cells = vec![
            Cell::Text(line.link.clone()),
            Cell::Text(line.way.name().to_owned()),
            Cell::Text(line.class.clone()),
            Cell::whole(line.flows),
        ];
        row(cells, &line.class, &line.flow, model.rates(Pane::Links, &line.key()))
    });
    Table::new(&titles(&["<LINK", "<WAY", "<CLASS", "FLOWS"]), rows.collect())
}

/// The table of connections.
pub(super) fn connections_table(model: &Model, sample: &Sample) -> Table {
    let rows = sample.connections.iter().map(|line| {
        let cells = vec![
            Cell::Text(line.host.clone()),
            Cell::Text(line.subsystem.clone()),
            Cell::whole(line.queue),
            Cell::Text(line.way.name().to_owned()),
            Cell::Text(line.class.clone()),
            Cell::Text(line.base.clone()),
            Cell::latency(line.rtt_us as f64 * 1e3),
        ];
        row(cells, &line.class, &line.flow, model.rates(Pane::Connections, &line.key()))
    });
    let head = titles(&["<HOST", "<SUBSYSTEM", "QUEUE", "<WAY", "<CLASS", "<BASE", "RTT"]);
    Table::new(&head, rows.collect())
}
