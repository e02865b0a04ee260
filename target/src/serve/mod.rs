//! The serving of hosts: reactors with their connections, the state that all threads share, quality of
//! service, the network's stage, TLS, RDMA and regions; and `engine`, by which the control plane sees it.

pub(crate) mod authentication;
pub mod connections;
pub mod ended;
pub mod engine;
pub mod gauges;
pub mod host_keys;
pub(crate) mod hosts;
pub(crate) mod network;
pub(crate) mod pmem;
pub(crate) mod qos;
pub(crate) mod rdma;
pub mod reactor;
pub(crate) mod service;
pub mod shared;
pub(crate) mod tls;
pub mod traces;
pub(crate) mod upkeep;
pub(crate) mod workloads;
