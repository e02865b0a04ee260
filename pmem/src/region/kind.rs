//! The kinds of regions, and the events that each survives.

use std::fmt;

use crate::btt::Cuts;

/// The kind of a region, which is found out when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A device of persistent memory, `/dev/daxX.Y`, mapped as it is.
    DeviceDax,
    /// A file on a file system with DAX, mapped with `MAP_SYNC`: loads and stores go to persistent
    /// memory, and the file system's own data about the file is there before them.
    DaxFile,
    /// A file in the page cache.
    File,
    /// A file of a file system that is itself in memory (tmpfs, ramfs).
    MemoryFile,
    /// Anonymous memory.
    Anonymous,
}

/// The content of a region after a power cut, or a crash of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPowerCut {
    /// Everything that was flushed and fenced.
    Flushed,
    /// The stores before its last synchronization as a whole ([`Region::sync`]), and any part of
    /// later ones.
    ///
    /// [`Region::sync`]: super::Region::sync
    Synchronized,
    /// Nothing.
    Nothing,
}

impl Kind {
    /// Returns the kind in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeviceDax => "device DAX",
            Self::DaxFile => "DAX file",
            Self::File => "plain file",
            Self::MemoryFile => "file in memory",
            Self::Anonymous => "memory",
        }
    }

    /// Returns the content of a region after a power cut.
    #[must_use]
    pub fn after_power_cut(self) -> AfterPowerCut {
        match self {
            Self::DeviceDax | Self::DaxFile => AfterPowerCut::Flushed,
            Self::File => AfterPowerCut::Synchronized,
            Self::MemoryFile | Self::Anonymous => AfterPowerCut::Nothing,
        }
    }

    /// Returns the possible cuts that a table on such a region must expect when it is opened.
    #[must_use]
    pub fn cuts(self) -> Cuts {
        match self.after_power_cut() {
            AfterPowerCut::Flushed => Cuts::InOrder,
            AfterPowerCut::Synchronized | AfterPowerCut::Nothing => Cuts::InAnyOrder,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
