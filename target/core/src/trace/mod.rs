//! Traces: the parts of a command's time in the target, for commands that an operator selects.
//!
//! Commands that wait or are in a device are stamped at each change of their state ([`stamps`]). After its answer, a
//! command waits among the [`answers`] until the driver has sent it; then the driver gets the whole
//! ([`Driver::traced`](crate::Driver::traced)). While nothing is traced, none of this exists.

pub(crate) mod answers;
mod command;
mod part;
pub(crate) mod stamps;
pub(crate) mod tracing;

pub use command::TracedCommand;
pub use part::{Part, Times};
pub use tracing::TraceFilter;
