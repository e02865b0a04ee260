//! The state of regions of persistent memory and of their clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Settings;

/// The keys of `[pmem]` with their values.
pub type PmemSettings = Settings;
/// The keys of `[[region]]` with their values.
pub type RegionSettings = Settings;

/// The answer to `pmem.show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pmem {
    /// The keys of `[pmem]`. As JSON they stand beside the other fields.
    #[serde(flatten)]
    pub settings: PmemSettings,
    /// Whether clients can connect.
    pub open: bool,
    /// Why clients cannot connect; `None` where they can.
    pub reason: Option<String>,
    /// I/Os per second of all clients together, as they are estimated now.
    pub capacity_now: u64,
    /// I/Os per second that are reserved.
    pub reserved: u64,
    /// The number of the period that runs.
    pub period_now: u16,
    /// The regions.
    pub regions: Vec<RegionRow>,
    /// The hosts that get no grant for a time, since a client of theirs did not report its I/Os.
    pub evicted: Vec<EvictedHost>,
    /// The last measurement of the capacity; `None` if there was none.
    pub profile: Option<CapacityProfile>,
}

/// A measurement of the capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CapacityProfile {
    /// `running`, `measured` or `failed`.
    pub state: String,
    /// The measured mean in I/Os per second; `None` while there is no result.
    pub capacity: Option<u64>,
    /// The measured standard deviation in I/Os per second; `None` while there is no result.
    pub deviation: Option<u64>,
    /// Why there is no result; `None` where there is one, or will be.
    pub reason: Option<String>,
}

/// A host whose client was evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvictedHost {
    /// The host's NQN.
    pub host: String,
    /// The seconds until it gets grants again.
    pub seconds: u64,
}

/// A region with its settings and its clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RegionRow {
    /// The keys of `[[region]]`. As JSON they stand beside the other fields.
    #[serde(flatten)]
    pub settings: RegionSettings,
    /// Whether the region's memory is open.
    pub open: bool,
    /// Why the memory is not open; `None` where it is.
    pub reason: Option<String>,
    /// The size in bytes; `None` where the memory is not open.
    pub bytes: Option<u64>,
    /// The kind of memory: `device DAX`, `DAX file`, `plain file`, `file in memory` or `memory`; `None` while it is
    /// not open.
    pub kind: Option<String>,
    /// The clients that have a grant.
    pub clients: Vec<RegionClient>,
    /// Whether a live change makes the region differ from the configuration file.
    pub live: bool,
}

/// A client that has a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RegionClient {
    /// The grant's number, unique as long as the daemon runs.
    pub grant: u64,
    /// The host's NQN.
    pub host: String,
    /// The IP address that the grant was asked for from; `None` where it is not known.
    pub address: Option<String>,
    /// `read` or `read-write`.
    pub rights: String,
    /// I/Os per second that are reserved.
    pub reservation: u64,
    /// The most I/Os per second; `None` means no limit.
    pub limit: Option<u64>,
    /// Whether the RDMA connection stands.
    pub connected: bool,
    /// I/Os that the client has reported since it has the grant.
    pub completed: u64,
    /// I/Os that the client has reported in the last whole period.
    pub last_period: u64,
    /// Periods in which the client did not get the reservation that it asked for.
    pub missed: u64,
}
