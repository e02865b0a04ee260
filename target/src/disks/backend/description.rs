//! The properties of a backend that are fixed when it is opened.

use std::path::PathBuf;

use fabric::controller::{PreferredSizes, UsedBlocks};
use fabric::nvm::BlockFormat;

/// The abilities of a backend, which hosts learn from Identify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the Identify data")]
pub struct Abilities {
    /// Whether completed writes may be lost with power until a Flush.
    pub volatile_cache: bool,
    /// Whether Dataset Management deallocates.
    pub deallocate: bool,
    /// Whether deallocated blocks read as zeroes.
    pub zeroes_after_deallocate: bool,
    /// Whether Write Zeroes deallocates where the host allows it.
    pub write_zeroes_deallocates: bool,
    /// Whether Write Zeroes is supported.
    pub write_zeroes: bool,
    /// Whether Compare is supported.
    pub compare: bool,
    /// Whether Verify is supported.
    pub verify: bool,
}

/// The properties of a backend that are fixed when it is opened.
#[derive(Clone, Debug)]
pub struct Description {
    /// `null`, `memory`, `file`, `block`, `pmem` or `nvme`.
    pub kind: &'static str,
    /// The path of the file or device; `None` for memory and null.
    pub path: Option<PathBuf>,
    /// The identity that the device reports (WWN, serial number); `None` where it reports none.
    pub device: Option<String>,
    /// The kind of a region of persistent memory, in words; `None` of other backends.
    pub region: Option<&'static str>,
    /// Whether the device has a head that moves; `None` where the kernel does not say.
    pub seeks: Option<bool>,
    /// The format of a logical block.
    pub format: BlockFormat,
    /// The backend's abilities.
    pub abilities: Abilities,
    /// The sizes that the file or device prefers; `None` where they are not known.
    pub preferred: Option<PreferredSizes>,
    /// The blocks in use of a backend that takes space as it is written; `None` of others.
    pub used: Option<UsedBlocks>,
    /// A notice to the operator about the use of the file or device.
    pub notice: Option<String>,
    /// Identify Namespace data of the real device behind passthrough.
    pub identify: Option<Box<[u8; 4096]>>,
    /// Identify Controller data of the real device behind passthrough.
    pub controller: Option<Box<[u8; 4096]>>,
}

impl Description {
    /// Describes a backend without a file or device.
    #[must_use]
    pub fn new(kind: &'static str, format: BlockFormat, abilities: Abilities) -> Self {
        Self {
            kind,
            path: None,
            device: None,
            region: None,
            seeks: None,
            format,
            abilities,
            preferred: None,
            used: None,
            notice: None,
            identify: None,
            controller: None,
        }
    }
}
