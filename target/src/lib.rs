//! The Sluicegate daemon, as a library: configuration, backends, reactors, control, metrics.

pub mod backend;
pub mod config;
pub mod engine;
pub mod mapping;
pub mod reactor;
pub mod stats;
pub mod store;
