//! `[[region]]`: its settings.

use std::path::PathBuf;

/// `[[region]]`: persistent memory that clients read and write by one-sided RDMA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionConfig {
    /// `name`: 1 to 16 characters.
    pub name: String,
    /// `path`: a device `/dev/daxX.Y`, or a file; `None` means memory, which survives nothing.
    pub path: Option<PathBuf>,
    /// `size` in bytes; `None` means the size that the file or device has.
    pub size: Option<u64>,
    /// `create`: whether a missing regular file is created with `size`.
    pub create: bool,
    /// `hosts`: NQNs of the hosts that may ask for the region.
    pub hosts: Vec<String>,
    /// `read_only`: whether clients may only read.
    pub read_only: bool,
    /// `reserve`: the most I/Os per second that one host may reserve.
    pub reserve: u64,
    /// `limit`: the most I/Os per second of one host; `None` means no limit.
    pub limit: Option<u64>,
}
