//! The core's interface to the machine that it runs on: sockets, memory arenas, devices and settings, each as a
//! trait or a value.

pub(crate) mod arena;
pub mod device;
pub(crate) mod driver;
pub mod job;
pub(crate) mod key;
pub(crate) mod origin;
pub(crate) mod policies;
