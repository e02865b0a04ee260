//! Production targets on simulated time, with hosts, a network and devices that are modelled.
//!
//! A [`model::Model`] holds the reactors of a target ([`sluice_core::Core`]) as the daemon runs them,
//! hosts that speak NVMe/TCP or NVMe/RDMA to them, a network of packets and switches, and devices that take their
//! time. It is made from a [`model::Plan`], and answers what it has [`model::Measured`]. There are no
//! threads and no clocks: everything follows from the plan, and the same plan with the same seed gives
//! the same numbers on every machine.
//!
//! - [`model`]: a [`plan`], the order of all events, and what is [`measured`].
//! - [`network`]: packets, senders, switches and topologies.
//! - [`device`]: what takes the target's commands.
//! - [`load`]: when hosts want what; [`mod@random`]: numbers of loads and figures.
//! - [`report`]: what a run has shown, as tables, charts and a page.
//! - [`scenario`]: what a person writes, and the plan that follows from it.
//! - [`command`]: what planners run; [`claim`]: a number beside what it is to be; [`progress`]: how far a run is.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod claim;
pub mod command;
mod connection;
pub mod device;
mod host;
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
