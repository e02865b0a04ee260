//! Production targets on simulated time, with hosts, a network and devices that are modelled.
//!
//! A [`model::Model`] holds the reactors of a target ([`sluice_core::Core`]) as the daemon runs them, hosts that speak
//! NVMe/TCP or NVMe/RDMA to them, a network of packets and switches, and devices with service times. It is made from a
//! [`model::Plan`], and returns the results as [`model::Measured`]. There are no threads and no clocks: everything
//! follows from the plan, and the same plan with the same seed gives the same numbers on every machine.
//!
//! - [`model`]: a [`plan`], the order of all events, and the results ([`measured`]).
//! - [`network`]: packets, senders, switches and topologies.
//! - [`control`]: the congestion controllers of simulated adapters, and the quality factor.
//! - [`device`]: the devices that serve the target's commands.
//! - [`load`]: the accesses of hosts and their times; [`mod@random`]: random numbers of loads and figures.
//! - [`report`]: the results of a run, as tables, charts and a page.
//! - [`scenario`]: the text that a user writes, and the plan that follows from it.
//! - [`command`]: the commands of planners; [`claim`]: a number beside its expected value; [`progress`]: the progress
//!   of a run.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod claim;
pub mod command;
mod connection;
pub mod control;
pub mod device;
mod host;
pub mod jobs;
pub mod load;
pub mod measured;
pub mod model;
pub mod network;
mod others;
mod pair;
pub mod plan;
pub mod progress;
pub mod random;
pub mod report;
mod rounding;
pub mod scenario;
mod stream;
mod target;
