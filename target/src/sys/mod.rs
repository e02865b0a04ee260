//! The operating system's services for the other folders, and small helpers of all of them. This folder imports
//! none of the others.

pub mod access;
pub mod clock;
pub(crate) mod deferred_free;
pub(crate) mod files;
pub(crate) mod line_bound;
pub mod mapping;
pub mod socket;
pub mod sync;
pub mod systemd;
pub(crate) mod threads;
pub mod version;
pub(crate) mod words;
