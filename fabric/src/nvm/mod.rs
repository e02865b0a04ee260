//! The NVM command set: I/O commands, parsed once. What leaves this module names blocks that
//! exist and a transfer of the right length.
//!
//! [`BlockFormat`] says what a logical block is; [`IoLimits`] what a command is checked against;
//! [`IoCommand`] what is left of a submission queue entry once it has been checked.

mod command;
mod dataset;
mod format;
mod range;

pub use command::{IoCommand, Transfer};
pub use dataset::DSM_RANGE_BYTES;
pub use format::{BlockFormat, BlockFormatError, Protection};
pub use range::{IoLimits, LbaRange};
