//! The size that all Identify data structures have.

/// Every Identify data structure is this long, in bytes.
pub const IDENTIFY_SIZE: usize = 4096;
