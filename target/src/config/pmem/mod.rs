//! `[pmem]` and `[[region]]`: regions of persistent memory that clients use by one-sided RDMA, and
//! the I/Os per second that are divided among them.

mod general;
mod region;
mod settings;

pub use general::Pmem;
pub use region::RegionConfig;
pub use settings::PmemConfig;
