//! The network's part of a sample: links with their classes, and connections.

use serde::Deserialize as _;
use serde_json::Value;
use sluice_config::answer::FlowState;

use super::answer::{number, rows, text};
use super::io::Io;

/// A class on a link in one direction.
#[derive(Clone, Debug)]
pub(super) struct LinkClass {
    pub(super) link: String,
    pub(super) direction: Direction,
    pub(super) class: String,
    pub(super) flows: u64,
    pub(super) flow: FlowState,
}

/// A connection in one direction.
#[derive(Clone, Debug)]
pub(super) struct ConnectionSample {
    pub(super) id: u64,
    pub(super) host: String,
    pub(super) subsystem: String,
    pub(super) queue: u64,
    pub(super) direction: Direction,
    pub(super) class: String,
    pub(super) base: String,
    pub(super) rtt_us: u64,
    pub(super) flow: FlowState,
}

/// A direction, as the daemon sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Data that the target sends.
    Out,
    /// Data that hosts send.
    In,
}

impl Direction {
    const ALL: [Self; 2] = [Self::Out, Self::In];

    /// Returns the daemon's word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// Makes the counts of a row: packets, and as errors the marked ones.
pub(super) fn counts(flow: &FlowState) -> Io {
    Io { operations: flow.delivered, errors: flow.marked, ..Io::default() }
}

/// Reads the classes of all links from the answer to `network.show`.
pub(super) fn links(network: &Value) -> Vec<LinkClass> {
    let mut all = Vec::new();
    for link in rows(network, "links") {
        for direction in Direction::ALL {
            let of = link.get(direction.name()).unwrap_or(&Value::Null);
            all.extend(rows(of, "classes").iter().map(|row| LinkClass {
                link: text(link, "name"),
                direction,
                class: text(row, "class"),
                flows: number(row, "flows"),
                flow: FlowState::deserialize(row).unwrap_or_default(),
            }));
        }
    }
    all
}

/// Reads the connections with measurements from the answer to `connections`.
pub(super) fn connections(answer: &Value) -> Vec<ConnectionSample> {
    let mut all = Vec::new();
    for row in answer.as_array().map(Vec::as_slice).unwrap_or_default() {
        let network = row.get("network").unwrap_or(&Value::Null);
        for direction in Direction::ALL {
            let Some(flow) = network.get(direction.name()) else { continue };
            all.push(ConnectionSample {
                id: number(row, "id"),
                host: text(row, "host"),
                subsystem: text(row, "subsystem"),
                queue: number(row, "queue"),
                direction,
                class: text(network, "class"),
                base: text(network, "base"),
                rtt_us: number(network, "rtt_us"),
                flow: FlowState::deserialize(flow).unwrap_or_default(),
            });
        }
    }
    all
}

impl LinkClass {
    pub(super) fn key(&self) -> String {
        // No name contains a line break, since control characters are left out.
        format!("{}\n{}\n{}", self.link, self.direction.name(), self.class)
    }
}

impl ConnectionSample {
    pub(super) fn key(&self) -> String {
        format!("{}\n{}", self.id, self.direction.name())
    }
}
