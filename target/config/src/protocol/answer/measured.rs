//! Operations, and how long they took.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::Connection;

/// The answer to `statistics`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Statistics {
    /// The namespaces.
    pub namespaces: Vec<NamespaceIo>,
    /// The hosts, those included whose connections have ended.
    pub hosts: Vec<HostIo>,
    /// The I/O queues of connections that are there.
    pub queues: Vec<QueueIo>,
    /// The workloads: each host in each class at each namespace.
    pub workloads: Vec<WorkloadIo>,
    /// The reactors.
    pub reactors: Vec<ReactorChanges>,
}

/// The operations of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NamespaceIo {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The namespace identifier.
    pub nsid: u32,
    /// The operations.
    pub io: Io,
}

/// The operations of a host in a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostIo {
    /// The host's NQN.
    pub host: String,
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The operations.
    pub io: Io,
    /// Commands that have a lower class than they asked for, since the host may have no higher one, by
    /// the class that they asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lowered: BTreeMap<String, u64>,
}

/// The operations of an I/O queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QueueIo {
    /// The queue's connection.
    pub connection: Connection,
    /// The operations.
    pub io: Io,
}

/// The operations of a host in a class at a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkloadIo {
    /// The host's NQN; `others` for hosts that are not counted separately.
    pub host: String,
    /// The subsystem's NQN; `others` likewise.
    pub subsystem: String,
    /// The namespace identifier; 0 for namespaces that are not counted separately.
    pub nsid: u32,
    /// The class.
    pub class: String,
    /// Its operations.
    pub io: Io,
}

/// The CPU time that changes took of a reactor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReactorChanges {
    /// The number of the CPU that the reactor is pinned to.
    pub core: usize,
    /// CPU time of each part of a change that the reactor made in one turn, in nanoseconds.
    pub changes_ns: Latency,
}

/// Operations since the daemon's start, and where their time went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Io {
    /// Reads.
    pub read: Operations,
    /// Writes.
    pub write: Operations,
    /// Other commands.
    pub other: Operations,
    /// Times from commands' arrival until they were handed to their device, in nanoseconds.
    pub queueing: Latency,
    /// Times that commands were in the device, in nanoseconds.
    pub service: Latency,
}

/// Operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Operations {
    /// The number of operations.
    pub operations: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of operations that failed.
    pub errors: u64,
    /// Times from a command's arrival to its answer, in nanoseconds.
    pub latency_ns: Latency,
}

/// A summary of a histogram of times, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Latency {
    /// The sum of all times: the difference of two answers tells the mean in between.
    pub sum: u64,
    /// The mean.
    pub mean: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The end and the count of each bucket that is not empty, in turn: the difference of two
    /// answers tells the percentiles in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<u64>>,
}
