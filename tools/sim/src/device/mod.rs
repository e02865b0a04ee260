//! Devices: what keeps the blocks of a namespace, and the time that it takes for them.
//!
//! - [`Device`]: requests go in, and end at some time.
//! - [`Ssd`]: flash behind a controller; [`Disk`]: a hard disk; [`Pm`]: persistent memory; [`Rnic`]: the adapters between
//!   clients and one-sided memory; [`Profiled`]: a device of which only measured times are known.
//!
//! A device knows no content: it says when a request ends, and the caller keeps the bytes.

pub mod disk;
mod error;
mod interface;
pub mod pm;
pub mod profiled;
pub mod rnic;
pub mod ssd;

pub use disk::Disk;
pub use error::SettingsError;
pub use interface::{Device, Kind, Request};
pub use pm::Pm;
pub use profiled::Profiled;
pub use rnic::Rnic;
pub use ssd::Ssd;
