//! What is fixed when a backend is opened.

use std::path::PathBuf;

use fabric::nvm::BlockFormat;

/// What a backend can do; hosts learn it from Identify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the Identify data")]
pub struct Abilities {
    /// Completed writes may be lost with power until a Flush.
    pub volatile_cache: bool,
    /// Dataset Management deallocates.
    pub deallocate: bool,
    /// Deallocated blocks read as zeroes.
    pub zeroes_after_deallocate: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Compare.
    pub compare: bool,
    /// Verify.
    pub verify: bool,
}

/// What is fixed when a backend is opened.
#[derive(Clone, Debug)]
pub struct Description {
    /// `null`, `memory`, `file`, `block` or `nvme`.
    pub kind: &'static str,
    /// The file or device, where there is one.
    pub path: Option<PathBuf>,
    /// What a device says that it is: WWN, serial number; none where it says nothing.
    pub device: Option<String>,
    /// What a logical block is.
    pub format: BlockFormat,
    /// What it can do.
    pub abilities: Abilities,
    /// Identify Namespace data of the real device behind passthrough.
    pub identify: Option<Box<[u8; 4096]>>,
    /// Identify Controller data of the real device behind passthrough.
    pub controller: Option<Box<[u8; 4096]>>,
}
