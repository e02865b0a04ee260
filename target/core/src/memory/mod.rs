//! The memory for data: I/O buffers, the budget of data that hosts are asked for, and leases of memory.

pub(crate) mod admin_data;
pub mod buddies;
pub(crate) mod budget;
pub(crate) mod buffers;
pub(crate) mod capsules;
pub(crate) mod held;
pub(crate) mod lease;
pub(crate) mod payload;
