//! Whole targets on simulated time.
//!
//! A [`World`] holds any number of production reactors ([`sluice_core::Core`]) with one service, hosts that speak
//! NVMe/TCP or NVMe/RDMA to them, a network that delays, chunks and cuts, and devices that take their time and
//! fail. A seed determines the whole history. After every step the world checks the promises that hold for all
//! behaviour of hosts, network and devices, and returns a broken one as [`Broken`].
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a world that names what it does not have fails the test that runs it"
)]

mod connection;
mod disk;
mod host;
mod oracle;
mod scenario;
mod world;

pub use oracle::Broken;
pub use scenario::{Hostility, Scenario};
pub use world::{Outcome, World};
