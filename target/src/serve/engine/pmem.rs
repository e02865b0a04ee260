//! The state of regions of persistent memory and of their clients.

pub use sluice_config::answer::{EvictedHost, RegionClient};

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
