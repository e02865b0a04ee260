//! The limits of values.

/// The highest namespace identifier: lists of namespaces are kept below it (NN in Identify
/// Controller).
pub const NSID_MAX: u32 = 16_384;
/// The largest window in commands.
pub const WINDOW_MAX: u64 = 65_536;
/// The most credits, and the most commands that wait.
pub const COMMANDS_MAX: u64 = (1 << 24) - 1;
/// The most commands of a reservation that come at once.
pub const BURST_MAX: u64 = 65_536;
/// The greatest limit in operations, or bytes, per second.
pub const RATE_MAX: u64 = 1 << 40;

/// The largest weight of a session.
pub const WEIGHT_MAX: u64 = 1000;
/// The most commands that a device carries out at the same time.
pub const PARALLEL_MAX: u64 = 4096;
/// The most I/Os per second of regions of persistent memory: the field for clients has 32 bits.
pub const IOPS_MAX: u64 = 1_000_000_000;
/// The most tokens that a client of a region takes at once.
pub const BATCH_MAX: u64 = 1_000_000;
/// The most clients of regions at one time.
pub const CLIENTS_MAX: u64 = 4096;
