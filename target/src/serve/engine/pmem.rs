//! The state of regions of persistent memory and of their clients.

use std::net::IpAddr;
use std::time::Duration;

/// The state of the service of one-sided RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmemState {
    /// Whether clients can connect; why not, in words.
    pub open: Result<(), String>,
    /// I/Os per second of all clients together, as they are estimated now.
    pub capacity: u64,
    /// I/Os per second that are reserved.
    pub reserved: u64,
    /// The number of the period that runs; 0 where none does.
    pub period: u16,
    /// The regions in the order of the configuration.
    pub regions: Vec<RegionState>,
    /// The hosts whose clients were evicted, and that get no grant yet.
    pub evicted: Vec<EvictedHost>,
    /// The last measurement of the capacity; `None` if there was none.
    pub profile: Option<ProfileState>,
}

/// A measurement of the capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileState {
    /// It is under way.
    Running,
    /// It is over, and the estimate continues from it.
    Measured {
        /// Mean, in I/Os per second.
        capacity: u64,
        /// Standard deviation, in I/Os per second.
        deviation: u64,
    },
    /// There is no result, in words.
    Failed(String),
}

/// A host whose client was evicted, since it did not report its I/Os.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedHost {
    /// The host's NQN.
    pub host: String,
    /// The time for which it gets no grant.
    pub left: Duration,
}

/// A region as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionState {
    /// The region's name.
    pub name: String,
    /// The facts about the open region; why it is not open, in words.
    pub open: Result<RegionFacts, String>,
    /// The clients that have a grant.
    pub clients: Vec<RegionClient>,
}

/// The facts about an open region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionFacts {
    /// The size in bytes.
    pub bytes: u64,
    /// The kind of region, in words: `device DAX`.
    pub kind: String,
}

/// A client that has a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionClient {
    /// The grant's number, which no other grant has as long as the daemon runs.
    pub grant: u64,
    /// The host's NQN.
    pub host: String,
    /// The address that the grant was asked for from.
    pub address: Option<IpAddr>,
    /// `read` or `read-write`.
    pub rights: &'static str,
    /// I/Os per second that are reserved for the client.
    pub reservation: u64,
    /// The most I/Os per second of the client; `None` means no limit.
    pub limit: Option<u64>,
    /// Whether the client's RDMA connection stands.
    pub connected: bool,
    /// I/Os that the client has reported in all, since it has the grant.
    pub completed: u64,
    /// I/Os that the client has reported in the last whole period.
    pub last_period: u64,
    /// Periods in which the client did not get the reservation that it asked for.
    pub missed: u64,
}
