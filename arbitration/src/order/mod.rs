//! Stage S4: the order in which a device sees commands.

mod burst;
mod clock;
mod fairness;
mod hierarchy;
mod spread;
mod tags;
mod time;
mod tree;

pub(crate) use burst::ClassBurst;
pub use clock::{ClassClock, Pace};
pub(crate) use clock::{CommandKind, advance, bit, first_of};
pub use fairness::Fairness;
pub(crate) use fairness::WHOLE;
pub(crate) use hierarchy::{Hierarchy, Place, Portion, Sharers, USUAL};
pub(crate) use spread::{Spread, SpreadKey, Spreads};
pub(crate) use tags::DeviceTags;
pub(crate) use time::DeviceTimes;
pub(crate) use tree::{Ends, NodeId, Tree};
