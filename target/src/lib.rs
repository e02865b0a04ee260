//! The Sluicegate daemon, as a library: configuration, backends, reactors, control, metrics.

pub mod access;
mod authentication;
mod availability;
pub mod backend;
mod backings;
pub mod block_memory;
pub mod cli;
pub mod clock;
pub mod connections;
pub mod control;
mod deferred_free;
pub mod descriptors;
pub mod devices;
pub mod ended;
pub mod engine;
mod file_systems;
mod files;
pub mod gauges;
pub mod host_keys;
mod hosts;
mod line_bound;
pub mod log;
pub mod mapping;
pub mod metrics;
mod network;
mod objects;
mod pmem;
pub mod preflight;
mod qos;
#[cfg(feature = "rdma")]
mod rdma;
#[cfg(not(feature = "rdma"))]
#[path = "rdma_without.rs"]
mod rdma;
pub mod reactor;
mod reload;
pub mod runtime;
mod service;
pub mod shared;
pub mod signals;
pub mod socket;
pub mod store;
pub mod sync;
pub mod systemd;
mod threads;
mod tls;
mod uevents;
mod unproved;
mod upkeep;
pub mod version;
mod words;
mod workloads;
