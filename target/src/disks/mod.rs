//! The storage of namespaces: backends, the files and devices behind them, and their availability.

pub(crate) mod availability;
pub mod backend;
pub(crate) mod backings;
pub mod block_memory;
pub mod devices;
pub(crate) mod file_systems;
pub(crate) mod uevents;
