//! Stages S1 to S5 of a command: which class and session it belongs to, whether and when it may go
//! on, and how much a device may hold at once.
//!
//! Nothing here reads a clock or does I/O: commands and the present time go in, decisions come out.
//! Reactors share atomics. Locks are for rare events, such as a new flow, a command that a host
//! resends after a reconnect ([`session`]), a reservation period that was missed, and a change of
//! settings. The daemon, the benchmarks, the property tests and the simulator build the same stages
//! from the same settings.
#![forbid(unsafe_code)]

pub mod arbiter;
pub mod classify;
pub mod container;
pub mod credit;
pub mod device;
mod index;
#[cfg(all(test, feature = "interleavings"))]
mod interleavings;
pub mod limit;
pub mod memory;
pub mod nodes;
pub mod order;
pub mod overload;
mod reactors;
pub mod reservation;
pub mod session;
pub mod settings;
mod sharing;
mod sync;
#[cfg(test)]
mod testing;
pub mod window;

pub use reactors::Reactors;
pub use sharing::Sharing;
pub use units::{Class, Nanos, PerClass, nanos};
