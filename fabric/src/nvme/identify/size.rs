//! The size that all Identify data structures have.

/// The size of every Identify data structure in bytes.
pub const IDENTIFY_SIZE: usize = 4096;
