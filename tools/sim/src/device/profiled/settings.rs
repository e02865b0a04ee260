//! The properties of a device of measured times.

use super::times::Times;

/// The most servers of a device.
pub const SERVERS_MAX: u32 = 4096;

/// The properties of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Commands that it carries out at the same time, 1 to [`SERVERS_MAX`].
    pub parallelism: u32,
    /// Times of reads.
    pub read: Times,
    /// Times of writes; a flush or a deallocation takes as long as a write of 4 KiB.
    pub write: Times,
}
