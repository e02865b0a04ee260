//! The latest lines of the log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `event.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Events {
    /// The daemon's start in milliseconds since 1970. The numbers of events begin again at 1 with each start.
    pub started_ms: u64,
    /// The events between `after` and the first of `events` that the daemon no longer has.
    pub lost: u64,
    /// Whether there are later events.
    pub more: bool,
    /// The events, the oldest first.
    pub events: Vec<Event>,
}

/// A line of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Event {
    /// The event's number; the first one since the daemon's start has 1.
    pub number: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// The part of the daemon that wrote the line, as `--log-level` names it.
    pub module: String,
    /// The line with its fields, as the journal has it.
    pub message: String,
    /// The fields by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}
