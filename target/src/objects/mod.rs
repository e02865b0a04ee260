//! Objects that the configuration has lists of, such as sessions and links, each described once:
//! the store, the methods that change an object, and the undo of a change use the description.
//!
//! - [`object`]: the traits of a description.
//! - [`kinds`]: the list of all kinds.

mod kinds;
mod object;

pub use kinds::Kind;
pub(crate) use kinds::{Listed, Visitor, visit};
pub(crate) use object::{Batch, Copied, Group, Named, Object, Settable, find, put};
