//! The configuration: TOML in, typed and checked values out.

mod model;

pub use model::{Backend, Config, Listener, Namespace, Poll, Subsystem, Target, Transport};
