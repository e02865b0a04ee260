//! Stage S4: the order in which a device sees commands.

mod clock;
mod tree;

pub use clock::{COST, ClassClock, burst};
pub(crate) use tree::{NONE, ROOT, Tree};
