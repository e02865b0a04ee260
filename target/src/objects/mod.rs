//! Objects that the configuration has lists of, such as sessions and links, each described once:
//! whoever stores one, changes one by a method, or takes a change back, goes by the description.
//!
//! - [`object`]: what a description consists of.
//! - [`kinds`]: the list of all kinds.

mod kinds;
mod object;

pub use kinds::Kind;
pub(crate) use kinds::{Listed, Visitor, visit};
pub(crate) use object::{Batch, Copied, Group, Named, Object, Settable, find, put};
