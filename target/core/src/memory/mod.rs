//! The memory for data: I/O buffers and the budget of those that hosts are asked for, and who holds
//! memory until when.

pub(crate) mod admin_data;
pub mod buddies;
pub(crate) mod budget;
pub(crate) mod buffers;
pub(crate) mod capsules;
pub(crate) mod held;
pub(crate) mod lease;
pub(crate) mod payload;
