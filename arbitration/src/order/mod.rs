//! Stage S4: the order in which a device sees commands.

mod burst;
mod clock;
mod fairness;
mod hierarchy;
mod spread;
mod tags;
mod tree;

pub(crate) use burst::ClassBurst;
pub(crate) use clock::bit;
pub use clock::{ClassClock, Pace};
pub use fairness::Fairness;
pub(crate) use fairness::WHOLE;
pub(crate) use hierarchy::{Hierarchy, Place};
pub(crate) use spread::{Spread, SpreadKey, Spreads};
pub(crate) use tags::DeviceTags;
pub(crate) use tree::{Ends, NodeId, Tree};
