//! The language of the control socket, which the daemon and the command line share.
//!
//! [`Method`] lists the methods. For each there is a type in [`call`] with its parameters and its
//! answer, so that the daemon cannot answer and the command line cannot ask what the other one
//! does not know. [`wire`] has the lines that carry them.

pub mod answer;

mod method;
pub mod params;
mod values;
pub mod wire;

pub use method::{Call, Method, calls as call};
pub use params::{Key, Params, Setting};
pub use values::Values;
