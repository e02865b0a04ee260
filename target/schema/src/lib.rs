//! The language of the control socket and of the configuration, which the daemon and the command
//! line share.
//!
//! [`Method`] lists the methods. For each there is a type in [`call`] with its parameters and its
//! answer, so that the daemon and the command line cannot differ about them. [`wire`] has the lines
//! that carry them; [`client`] sends them, and has a [`failure`] of those that fail. [`keys`] has the keys of the configuration, which requests set too.

pub mod amounts;
pub mod answer;
pub mod client;
pub mod failure;
pub mod keys;
mod limits;
mod method;
pub mod params;
mod values;
pub mod wire;

pub use keys::ConfigKey;
pub use method::{Call, Method, Verb, calls as call};
pub use params::{Parameter, Params, Setting};
pub use values::{RDMA_BEFORE, Values};
