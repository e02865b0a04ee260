//! Descriptions of the objects that the configuration has lists of, such as sessions and links. The
//! store, the methods that change an object, and the undo of a change use them.
//!
//! - [`object`]: the traits of a description.
//! - [`kinds`]: the list of all kinds.

mod kinds;
mod object;

pub use kinds::Kind;
pub(crate) use kinds::{Listed, Visitor, visit};
pub(crate) use object::{Batch, Copied, Group, Named, Object, Settable, find, put};
