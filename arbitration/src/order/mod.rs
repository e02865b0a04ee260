//! Stage S4: the order in which a device sees commands.

mod clock;
mod tree;
mod turns;

pub(crate) use clock::bit;
pub use clock::{COST, ClassClock, Pace, burst};
pub(crate) use tree::{NONE, ROOT, Tree};
pub use turns::Turns;
