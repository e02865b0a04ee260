//! The life of a command, from its arrival at a queue to its answer, as a pure state machine.
//!
//! Nothing in this crate opens a socket, owns a ring, starts a thread or reads a clock. A [`Core`]
//! holds all connections of one reactor: the present time and what has happened go in by its
//! methods, what is to be done goes out through its [`Driver`], and [`Core::rest`] says when it wants
//! to be asked again. The daemon's reactors are drivers on io_uring; `sluice-world` brings a driver
//! on simulated time, and runs the code that ships.
#![forbid(unsafe_code)]

mod accounts;
mod admin_queue;
mod asks;
pub mod buddies;
mod changes;
mod commands;
mod connection;
mod context;
mod core;
mod credits;
pub mod device;
mod device_table;
mod driver;
mod io_queue;
mod job;
mod key;
mod lanes;
mod marks;
mod net;
mod ordered;
mod overload;
mod payload;
mod policies;
pub mod stats;
mod sweep;
mod tally;
mod turns;

pub use changes::Touched;
pub use context::Settings;
pub use core::{Accepted, Core, Inventory};
pub use driver::{Buffer, Driver, End, Memory, Notice, Use};
pub use job::{Ended, Job, Started};
pub use key::Key;
pub use lanes::Origin;
pub use overload::RETRY_DELAYS;
pub use payload::{TxData, ZEROES, zeroes};
pub use policies::{Policies, Tenancy, Tenant};
