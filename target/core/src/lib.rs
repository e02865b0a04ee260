//! The life of a command, from its arrival at a queue to its answer, as a pure state machine.
//!
//! Nothing in this crate opens a socket, owns a ring, starts a thread or reads a clock. A [`Core`] holds all
//! connections of one reactor: its methods take the present time and events, its [`Driver`] receives the actions,
//! and [`Core::idle_until`] returns the time of its next turn. The daemon's reactors are drivers on io_uring; the
//! feature `testing` provides a driver for tests, benchmarks and simulations, which run the code that ships.
#![forbid(unsafe_code)]

mod machine;
mod memory;
mod network;
mod queue;
mod reactor;
pub mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod trace;

pub use machine::arena::{Memory, Use};
pub use machine::driver::{
    Batch, Buffer, Chunk, DataPlace, Driver, End, Ended, Job, Notice, Started,
};
pub use machine::key::Key;
pub use machine::origin::Origin;
pub use machine::policies::{Policies, Tenancy, Tenant};
pub use machine::{device, job};
pub use memory::buddies;
pub use memory::held::{Held, HeldBlocks, PAGE};
pub use memory::lease::Leased;
pub use memory::payload::{TxData, ZEROES, zeroes};
pub use queue::arrival::host_id;
pub use queue::commands::StateCounts;
pub use queue::connection::Accepted;
pub use reactor::changes::Touched;
pub use reactor::context::Settings;
pub use reactor::core::{Core, Inventory};
pub use reactor::entrance::Entrance;
pub use reactor::placement::{Load, place};
pub use trace::{Part, Times, TraceFilter, TracedCommand};
