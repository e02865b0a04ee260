//! Traces of commands, and the level of the log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `trace.start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceStarted {
    /// The number of the trace.
    pub trace: u64,
}

/// The answer to `trace.read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Trace {
    /// The commands since the last call, in the order in which they were received.
    pub commands: Vec<TracedCommand>,
    /// Number of traced commands that were not read in time.
    pub lost: u64,
    /// Number of selected commands that were not traced.
    pub skipped: u64,
}

/// A traced command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TracedCommand {
    /// NQN of the host.
    pub host: String,
    /// NQN of the subsystem.
    pub subsystem: String,
    /// The namespace.
    pub nsid: u32,
    /// The class's name.
    pub class: String,
    /// The command's name.
    pub operation: String,
    /// The first block.
    pub lba: u64,
    /// Bytes that the command moved between host and target.
    pub bytes: u32,
    /// Status of the answer in words.
    pub status: String,
    /// Index of the reactor.
    pub reactor: usize,
    /// Number of the connection.
    pub connection: u64,
    /// Number of the I/O queue.
    pub queue: u16,
    /// Identifier of the command on its queue.
    pub cid: u16,
    /// Time of the receipt in milliseconds since 1970.
    pub time_ms: u64,
    /// Time of the receipt in ns of the daemon's clock.
    pub start_ns: u64,
    /// The command's time in the target in ns.
    pub total_ns: u64,
    /// The parts of that time in ns; parts of 0 ns are left out.
    pub parts_ns: BTreeMap<String, u64>,
    /// The session whose limits or credits delayed the command most; `None`: none did.
    pub session: Option<String>,
}

/// The answer to `log.level`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogLevel {
    /// The level of the log.
    pub level: String,
    /// The level before the request.
    pub before: String,
}
