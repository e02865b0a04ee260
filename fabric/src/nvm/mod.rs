//! The NVM command set: I/O commands, parsed once. A parsed command names blocks that exist and a
//! transfer of the right length.
//!
//! [`BlockFormat`] is the format of a logical block; [`IoLimits`] are the limits against which a
//! command is checked; [`IoCommand`] is a submission queue entry that has been checked.

mod command;
mod dataset;
mod format;
mod range;

pub use command::{IoCommand, Transfer};
pub use dataset::DSM_RANGE_BYTES;
pub use format::{BlockFormat, BlockFormatError, Protection};
pub use range::{IoLimits, LbaRange};
