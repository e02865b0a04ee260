//! The language of the control socket, which the daemon and the command line share.
//!
//! [`Method`] lists the methods. For each there is a type in [`call`] with its parameters and its
//! answer, so that the daemon and the command line cannot differ about them. [`wire`] has the lines
//! that carry them; [`client`] sends them, and [`failure`] has the errors of requests.

pub mod answer;
pub mod client;
pub mod failure;
mod method;
pub mod params;
mod schema;
pub mod wire;

pub use method::{Call, Method, Verb, calls as call};
pub use params::{Parameter, Params, Setting};
pub use schema::schema;
