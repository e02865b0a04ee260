//! The Sluicegate daemon, as a library: configuration, backends, reactors, control, metrics.

pub mod access;
mod availability;
pub mod backend;
mod backings;
pub mod cli;
pub mod config;
pub mod control;
pub mod descriptors;
pub mod devices;
pub mod ended;
pub mod engine;
pub mod exit;
mod hosts;
pub mod log;
pub mod mapping;
pub mod metrics;
mod network;
pub mod preflight;
mod qos;
pub mod reactor;
pub mod runtime;
pub mod shared;
pub mod socket;
pub mod stats;
pub mod store;
mod threads;
mod uevents;
