//! The life of a command, from its arrival at a queue to its answer, as a pure state machine.
//!
//! Nothing in this crate opens a socket, owns a ring, starts a thread or reads a clock. A [`Core`]
//! holds all connections of one reactor: the present time and what has happened go in by its
//! methods, what follows goes out through its [`Driver`], and [`Core::idle_until`] says when it wants
//! its next turn. The daemon's reactors are drivers on io_uring; the feature `testing` brings a
//! driver for tests, benchmarks and simulations, which run the code that ships.
#![forbid(unsafe_code)]

mod accounts;
mod admin_data;
mod admin_queue;
mod admission;
mod agenda;
mod arrival;
pub mod buddies;
mod budget;
mod buffers;
mod capsules;
mod changes;
mod charge;
mod commands;
mod completion;
mod connection;
mod connection_table;
mod context;
mod core;
pub mod device;
mod device_table;
mod dispatch;
mod driver;
mod dscp;
mod entrance;
mod fairness;
mod fetch;
mod flow_cache;
mod held;
mod io_queue;
pub mod job;
mod key;
mod lease;
mod memory;
mod network;
mod origin;
mod pacer;
mod patience;
mod payload;
mod placement;
mod policies;
mod progress;
mod queue;
mod receiver;
mod replies;
mod sender;
mod sliced;
mod stages;
pub mod stats;
mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tokens;
mod traffic;
mod turns;
mod workloads;

pub use arrival::host_id;
pub use changes::Touched;
pub use commands::StateCounts;
pub use connection::Accepted;
pub use context::Settings;
pub use core::{Core, Inventory};
pub use driver::{Batch, Buffer, Chunk, DataPlace, Driver, End, Ended, Job, Notice, Started};
pub use entrance::Entrance;
pub use held::{Held, HeldBlocks, PAGE};
pub use key::Key;
pub use lease::Leased;
pub use memory::{Memory, Use};
pub use origin::Origin;
pub use payload::{TxData, ZEROES, zeroes};
pub use placement::{Load, place};
pub use policies::{Policies, Tenancy, Tenant};
